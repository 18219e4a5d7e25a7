"""Errors that all points of a relative pose share: more points do not average them out.

Eq. 6 knows match errors only. A calibrated rig also errs in its scale, in where the camera sits on
the body and in its timestamps. The scale is the same in all relative poses of a recording and is
handed on as such (`RelativePoses.std_scale`); the others act on each pose and are added to its
covariance. Spreads of rotation, lever arm and scale are those of a calibrated device
(`calibration_prior`). Accelerations are those of six recordings; docs/research/vision.md has what
real images show of all parts.
"""

from dataclasses import dataclass

import numpy as np

from maci2.calibration_prior import CALIBRATED
from maci2.lie import se3_adj, se3_log
from maci2.types import Array


@dataclass(frozen=True)
class CalibrationUncertainty:
    """How far a measured calibration can be trusted: standard deviations per axis."""

    scale: float = CALIBRATED.stereo_scale
    """Share by which all translations are off together; no part of a single pose's covariance."""

    rotation: float = CALIBRATED.rotation
    """[rad] Rotation of the camera on the body that it moves with."""

    lever: float = CALIBRATED.lever_m
    """[m] Place of the camera on that body."""

    jitter_s: float = CALIBRATED.camera_jitter_s
    """Jitter of one timestamp against the next."""

    offset_s: float = CALIBRATED.pose_clock_s
    """Offset of all timestamps together. A constant velocity hides it; a change of velocity between
    the keyframes does not."""

    acceleration: float = 0.6
    """[m/s^2] of a camera that is carried or flown, per axis."""

    angular_acceleration: float = 1.0
    """[rad/s^2]"""

    rest_rotation: float = 9e-5
    """[rad] 0.005 deg, 0.04 px: what pixel locking and a trembling mount leave when stationary."""

    rest_translation: float = 1e-4
    """[m]"""

    rest_px: float = 2.0
    """Motion of points below which the camera counts as stationary more and more."""


EXACT_CALIBRATION = CalibrationUncertainty(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
"""Uncertainty of a rig whose calibration is exact."""


def calibration_covariance(
    errors: CalibrationUncertainty, T_ck_ck1: Array, dt: float, displacement_px: float
) -> Array:
    """(6, 6) to add to Eq. 6, left, [rho, phi].

    `dt` is the time between the keyframes [s], `displacement_px` how far points moved in the image.
    """
    T_ck_ck1 = np.ascontiguousarray(T_ck_ck1)
    twist = se3_log(T_ck_ck1)
    # A camera frame that is off by x turns T into Exp(-x) T Exp(x).
    by_frame = se3_adj(T_ck_ck1) - np.eye(6)
    frame = np.repeat([errors.lever**2, errors.rotation**2], 3)
    # Both keyframes have a timestamp of their own, and each moves its end along the motion.
    jitter = 2.0 * (errors.jitter_s / dt) ** 2 * np.outer(twist, twist)
    moving = 1.0 - np.exp(-displacement_px / errors.rest_px)
    change = moving * errors.offset_s * dt
    translation = (change * errors.acceleration) ** 2 + errors.rest_translation**2
    rotation = (change * errors.angular_acceleration) ** 2 + errors.rest_rotation**2
    rest = np.diag(np.repeat([translation, rotation], 3))
    return np.asarray(by_frame * frame @ by_frame.T + jitter + rest)
