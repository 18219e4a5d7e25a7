"""A rotation of the camera that something else has measured: where points are looked for, and a
witness for the motion that matches tell."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from maci2.geometry import so3_log
from maci2.geometry.gaussian import chi2_quantile, nees
from maci2.types import Array
from maci2.vision.two_frame import PinholePair

AGREEMENT_CHI2 = chi2_quantile(3, 0.999)
"""Squared Mahalanobis norm up to which a rotation agrees: 99.9 % of chi-square with 3 dof."""

SURE_CHI2 = chi2_quantile(3, 0.95)
"""The same where other things are told, too, or a wrong one would do harm: 95 %."""


@dataclass(frozen=True)
class PredictedRotation:
    """Rotation of the camera from one image to another, known before they are looked at."""

    R_ck_ck1: Array
    """(3, 3) takes directions from camera k+1 to camera k."""

    cov: Array
    """(3, 3) left perturbation [rad^2]."""

    by_shared: Array = field(default_factory=lambda: np.empty((3, 0)))
    """(3, m) how a left perturbation depends on errors that all predictions of a source share (a
    bias, say), each in units of its standard deviation; `cov` includes them."""

    def agrees(self, R_ck_ck1: Array, cov: Array, limit: float = AGREEMENT_CHI2) -> bool:
        """Whether a measured rotation with covariance (3, 3), left, may be the same."""
        phi = so3_log(np.ascontiguousarray(R_ck_ck1 @ self.R_ck_ck1.T))
        return bool(nees(phi, self.cov + cov) < limit)


RotationPredictor = Callable[[int, int], PredictedRotation | None]
"""Prediction between two timestamps [ns]; None where there is none."""


def no_prediction(start_ns: int, end_ns: int) -> PredictedRotation | None:
    """The predictor of who knows nothing."""
    return None


def homography(predicted: PredictedRotation | None, camera: PinholePair) -> Array | None:
    """(3, 3) takes pixels of image k to where a rotation alone moves them in image k+1; None where
    no rotation is predicted."""
    if predicted is None:
        return None
    K = np.array(
        [[camera.focal, 0.0, camera.center[0]], [0.0, camera.focal, camera.center[1]], [0, 0, 1.0]]
    )
    return np.asarray(K @ predicted.R_ck_ck1.T @ np.linalg.inv(K), np.float64)


def carried(H: Array | None, uv: Array) -> Array:
    """(n, 2) pixels moved by a homography; where they are without one."""
    if H is None:
        return uv
    p = np.column_stack([uv, np.ones(len(uv))]) @ H.T
    # Beyond 84 deg off the axis a point is nowhere near the image; it must not come back mirrored.
    return np.asarray(p[:, :2] / np.maximum(p[:, 2:], 0.1), np.float64)
