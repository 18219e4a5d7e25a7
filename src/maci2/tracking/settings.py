"""Settings of a tracker for a device: the same live, from a recording and in a watchdog."""

from dataclasses import replace
from typing import NamedTuple

from maci2.sensors import Rig
from maci2.tracking.calibration_spread import bias_walks, calibration_spread
from maci2.tracking.smoother import SmootherConfig


class TrackerSettings(NamedTuple):
    """What a tracker has to know of a device."""

    walks: tuple[float, float]
    """Random walks of gyroscope [rad/s^2/sqrt(Hz)] and accelerometer bias [m/s^3/sqrt(Hz)]."""

    smoother: SmootherConfig
    """Choices of the smoother, with the spread of the rig's constants."""


def tracker_settings(
    rig: Rig, imu: str, config: SmootherConfig | None = None, scale_walk: float = 0.0
) -> TrackerSettings:
    """Settings for a rig and the name of an IMU model; `scale_walk` is that of vision's scale."""
    calibration = calibration_spread(rig, scale_walk)
    smoother = replace(config or SmootherConfig(), calibration=calibration)
    return TrackerSettings(bias_walks(rig, imu), smoother)
