"""Points followed over the keyframes of a window, and the camera motion they determine together."""
