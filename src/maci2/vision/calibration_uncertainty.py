"""Errors that all points of a relative pose share: more points do not average them out.

Eq. 6 knows match errors only. A calibrated rig also errs in the direction and the scale of every
motion it measures (lens, baseline, where the camera sits on the body) and in its timestamps.
These act on the pose itself: an isotropic part that grows with the motion, a small one that
remains when stationary. The numbers are plausible in practice but were chosen after looking at the
errors of the two real clips in docs/research/vision.md; with them a relative pose over 0.2 s of
gentle flight has a floor of 0.014 deg and 0.8 mm.
"""

from dataclasses import dataclass

import numpy as np

from maci2.lie import se3_log
from maci2.types import Array


@dataclass(frozen=True)
class CalibrationUncertainty:
    """How far a measured calibration can be trusted: standard deviations per axis."""

    proportion: float = 0.005
    """Share of the motion: baseline and focal length to 0.5 %, axes of the camera to 0.3 deg."""

    jitter_s: float = 0.0005
    """Jitter of one timestamp against the next: exposures of changing length."""

    offset_s: float = 0.004
    """Offset of all timestamps together: half an exposure of 8 ms, whose start was taken for its
    middle. A constant velocity hides it; a change of velocity between the keyframes does not."""

    acceleration: float = 1.0
    """[m/s^2] of a camera that is carried or flown, per axis."""

    angular_acceleration: float = 0.3
    """[rad/s^2]"""

    rest_rotation: float = 9e-5
    """[rad] 0.005 deg, 0.04 px: what pixel locking and a trembling mount leave when stationary."""

    rest_translation: float = 1e-4
    """[m]"""

    rest_px: float = 2.0
    """Motion of points below which the camera counts as stationary more and more."""


EXACT_CALIBRATION = CalibrationUncertainty(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
"""Uncertainty of a rig whose calibration is exact."""


def calibration_covariance(
    errors: CalibrationUncertainty, T_ck_ck1: Array, dt: float, displacement_px: float
) -> Array:
    """(6, 6) to add to Eq. 6, left, [rho, phi].

    `dt` is the time between the keyframes [s], `displacement_px` how far points moved in the image.
    """
    twist = se3_log(T_ck_ck1)
    # Both keyframes have a timestamp of their own.
    relative = errors.proportion**2 + 2.0 * (errors.jitter_s / dt) ** 2
    moving = 1.0 - np.exp(-displacement_px / errors.rest_px)
    change = moving * errors.offset_s * dt
    translation = (
        relative * (twist[:3] @ twist[:3])
        + (change * errors.acceleration) ** 2
        + errors.rest_translation**2
    )
    rotation = (
        relative * (twist[3:] @ twist[3:])
        + (change * errors.angular_acceleration) ** 2
        + errors.rest_rotation**2
    )
    return np.diag([translation] * 3 + [rotation] * 3)
