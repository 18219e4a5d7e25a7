"""Weights of IMU models that others are compared with."""
