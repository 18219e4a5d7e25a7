"""Constants of a device from minutes of motion: where its camera sits, how noisy its IMU is."""

from maci2.calibration.calibrate import calibrate

__all__ = ["calibrate"]
