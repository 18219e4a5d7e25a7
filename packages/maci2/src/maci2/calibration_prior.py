"""Prior spread of a device's constants, before any motion has been seen: one value each.

Vision, consistency tests, trackers, predictions and calibration read these. Their sources are in
docs/research/consistency.md. All values are standard deviations, of one axis where there are three.
"""

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class CalibrationPrior:
    """Spread of each constant; the defaults are those of a device that was calibrated with a tool.

    Six devices have two public calibrations each, made by two people, with two tools or at two
    times (`tools/calibration_spread.py`).
    """

    rotation: float = float(np.deg2rad(0.32))
    """Rotation of a camera on its body [rad]: 95 % bound of the six devices."""

    lever_m: float = 0.01
    """Place of a camera in its body: 95 % bound of the six devices, 8.5 mm, rounded up."""

    camera_clock_s: float = 0.005
    """Offset of the clocks of camera and IMU: two devices whose files state one; clocks restart
    with every recording."""

    pose_clock_s: float = 0.001
    """Offset of timestamps in the covariance of a single relative pose. `camera_clock_s`, which all
    poses share and trackers estimate, would make each of them five times too uncertain."""

    camera_jitter_s: float = 0.0005
    """Jitter of one timestamp of a camera against the next: exposures of changing length."""

    stereo_scale: float = 0.007
    """Scale of a stereo camera's translations: baselines of two of the devices differ by 0.44 %,
    and a focal length to half a percent comes on top."""

    gyro_scale: float = 0.01
    """Scale factor of a gyroscope: a percent, the tolerance that data sheets of MEMS gyroscopes
    state; MH_01, V2_03 and rooms 1, 3 and 5 show a quarter of it."""

    acc_scale: float = 0.007
    """Scale factor of an accelerometer, by which the camera's scale is measured: 95 % bound from
    MH_01, V2_03 and rooms 1, 3 and 5."""

    gyro_bias: float = 0.1
    """Turn-on bias of a MEMS gyroscope [rad/s], where nothing has measured it."""

    acc_bias: float = 0.1
    """Turn-on bias of a MEMS accelerometer [m/s^2], which lengthens gravity: a hundredth of
    gravity, the zero-g offset that data sheets of calibrated sensors allow."""

    acc_clock_s: float = 0.001
    """Delay of an accelerometer against its gyroscope: group delays of the two filters in one chip
    differ by less."""

    camera_drift: float = 0.02
    """Drift of a camera's translations [m/s]: rounded from MH_01, V2_03 and rooms 1 and 3."""

    camera_clock_walk_s: float = 0.0005
    """Random walk of the camera's clock in a tracker [s/sqrt(s)]."""

    scale_walk: float = 0.0
    """Random walk of vision's scale in a tracker, where that is estimated [1/sqrt(s)]."""

    slow_error_probability: float = 0.8
    """Probability that errors of visual orientation last for seconds (`visual_noise`)."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            assert value >= 0.0, f"CalibrationPrior.{name} is {value}"


CALIBRATED = CalibrationPrior()
"""A device that was calibrated with a tool."""

EXACT = replace(
    CALIBRATED,
    rotation=0.0,
    lever_m=0.0,
    camera_clock_s=0.0,
    camera_clock_walk_s=0.0,
    slow_error_probability=0.1,
)
"""A device whose constants a tracker does not doubt, as in a simulation."""

UNVERIFIED = replace(CALIBRATED, rotation=0.02, lever_m=0.02)
"""A device whose extrinsics somebody has stated and nobody has checked: a degree and 2 cm. What has
to work before they are tested reckons with that, or a wrong calibration is never found."""

UNKNOWN = replace(CALIBRATED, rotation=float(np.deg2rad(10.0)), lever_m=1.0, camera_clock_s=0.05)
"""A camera somewhere on the device, within a metre or so of its IMU, with a clock of its own. These
matter only where the motion says nothing about a constant that is being estimated."""
