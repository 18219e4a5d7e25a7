"""Images whose local brightness and contrast are scaled away, so that exposure does not matter."""

import cv2
import numpy as np

from maci2.sensors.stereo import Image

WINDOW = 41
"""Side of the surroundings that brightness and contrast are taken from [px]: wider than a patch."""

SOFT_CONTRAST = 4.0
"""[grey levels] Keeps surroundings without texture from being blown up to pure noise."""

CONTRAST = 40.0
"""[grey levels] Standard deviation that surroundings of much contrast are given."""


def locally_scaled(image: Image, window: int = WINDOW) -> Image:
    """The image with mean and standard deviation of each pixel's surroundings made the same.

    A gain and an offset of brightness, of the whole image or of a region, change nothing.
    """
    grey = image.astype(np.float32)
    mean = np.asarray(cv2.blur(grey, (window, window)), np.float32)
    gain = np.asarray(cv2.sqrBoxFilter(grey, cv2.CV_32F, (window, window)), np.float32)
    # Whole images, so in place: new memory for each step would cost as much as the step.
    grey -= mean
    mean *= mean
    gain -= mean
    np.maximum(gain, 0.0, out=gain)
    np.sqrt(gain, out=gain)
    gain += SOFT_CONTRAST
    np.divide(CONTRAST, gain, out=gain)
    grey *= gain
    grey += 128.5
    return np.clip(grey, 0.0, 255.0, out=grey).astype(np.uint8)
