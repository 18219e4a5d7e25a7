"""Stereo images of a simulated room."""
