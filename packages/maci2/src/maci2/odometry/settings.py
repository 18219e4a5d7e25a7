"""Settings of a tracker for a device: the same live, from a recording and in a watchdog."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from maci2.calibration_prior import CALIBRATED, EXACT, CalibrationPrior
from maci2.estimator.smoother import SmootherConfig
from maci2.imu.model_choice import measured_walks
from maci2.sensors import Rig
from maci2.types import NS, Stamps

WINDOW_S = 2.5
"""Length of the window that tracking starts from."""

GYRO_WALK_FACTOR = 10.0
"""Random walk of the gyroscope bias that a tracker reckons with, over the data sheet's: what is
estimated as bias also carries what scale factor, misalignment and vibration leave, which change
with the motion. Chosen on the rooms and halls that the IMU model was trained on."""

TRAJECTORY_SCALE_WALK = 0.005
"""Random walk of the scale of a trajectory [1/sqrt(s)]; that of a stereo rig is constant."""


class TrackerSettings(NamedTuple):
    """Settings of a tracker for one device."""

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


def calibration_spread(rig: Rig, scale_walk: float = 0.0) -> CalibrationPrior:
    """Prior of a rig's constants: exact where the rig is so by construction."""
    if rig.exact and rig.imu.exact:
        return EXACT
    return replace(CALIBRATED, scale_walk=scale_walk) if scale_walk else CALIBRATED


def bias_walks(rig: Rig, imu: str) -> tuple[float, float]:
    """Random walks of gyroscope and accelerometer bias that a tracker reckons with, given the name
    of the IMU model: as measured where they were measured in motion, else from the data sheet. A
    learned model's own walks are those of what it leaves in the samples."""
    measured = measured_walks(imu)
    if measured is not None:
        return measured
    factor = 1.0 if rig.imu.exact else GYRO_WALK_FACTOR
    return factor * rig.imu.walk_gyro, rig.imu.walk_acc


def window_start(keyframes_ns: Stamps, last: int) -> int | None:
    """First keyframe of the window that ends at keyframe `last`; None before there is one."""
    first = int(np.searchsorted(keyframes_ns, keyframes_ns[last] - round(WINDOW_S * NS)))
    shortest_ns = 0.9 * WINDOW_S * NS
    if first > 0 and keyframes_ns[last] - keyframes_ns[first] <= shortest_ns:
        first -= 1  # keyframes that do not divide the window: rather one more than none at all
    long_enough = keyframes_ns[last] - keyframes_ns[first] > shortest_ns
    return first if long_enough and last - first >= 4 else None
