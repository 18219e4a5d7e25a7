"""Errors that all points of a step share, and that more points do not average out.

Eq. 6 knows match errors only. A calibrated rig also errs in the direction and the scale of every
motion it measures (lens, baseline, where the camera sits on the body) and in its stamps. These act
on the pose itself: an isotropic part that grows with the motion, a small one that remains at rest.
The numbers are plausible in practice but were chosen after looking at the errors of the two real
clips in docs/research/vision.md; with them a step of 0.2 s in gentle flight has a floor of
0.014 deg and 0.8 mm.
"""

from dataclasses import dataclass

import numpy as np

from maci2.lie import se3_log
from maci2.types import Array


@dataclass(frozen=True)
class CalibrationUncertainty:
    """How far a measured calibration can be trusted: standard deviations per axis."""

    proportion: float = 0.005
    """Of the motion: baseline and focal length to half a percent, axes of the camera to 0.3 deg."""

    jitter_s: float = 0.0005
    """Of one stamp against the next: exposures of changing length."""

    offset_s: float = 0.004
    """Of all stamps together: half an exposure of 8 ms, the start of which was taken for its
    middle. A constant velocity hides it; a change of velocity within the step does not."""

    acceleration: float = 1.0
    """[m/s^2] of a camera that is carried or flown, per axis."""

    angular_acceleration: float = 0.3
    """[rad/s^2]"""

    rest_rotation: float = 9e-5
    """[rad] 0.005 deg, 0.04 px: what pixel locking and a mount that trembles leave at rest."""

    rest_translation: float = 1e-4
    """[m]"""

    rest_px: float = 2.0
    """Motion of points over a step below which the camera counts as at rest more and more."""


EXACT_CALIBRATION = CalibrationUncertainty(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
"""Of a rig whose calibration is exact."""


def calibration_covariance(
    errors: CalibrationUncertainty, T_ck_ck1: Array, dt: float, displacement_px: float
) -> Array:
    """(6, 6) to add to Eq. 6, left, [rho, phi].

    `dt` is the length of the step [s], `displacement_px` how far its points moved in the image.
    """
    twist = se3_log(T_ck_ck1)
    # Both ends of the step have a stamp of their own.
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
