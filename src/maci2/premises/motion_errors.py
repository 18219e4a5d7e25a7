"""Errors that no constant of the rig explains: a late accelerometer, a camera that drifts.

Both show only where all windows are asked at once. A drift that keeps its direction in the camera
turns with the body, and no acceleration does so; one that keeps its direction in the world is a
velocity to any IMU, and nothing tells it.
"""

from typing import NamedTuple

import numpy as np

from maci2.premises.robust_covariance import robust_covariance, shows_scatter
from maci2.premises.translation import (
    DELAY,
    DRIFT,
    LEAST,
    UNKNOWNS,
    A,
    M,
    P,
    TranslationSums,
)
from maci2.types import Array

FITTED = 8
"""One over the scale, lever arm, drift, delay."""

FREE_DRIFT_STD = 1.0
"""Spread of the drift while it is estimated, one axis [m/s]."""

FREE_DELAY_STD_S = 0.1
"""Spread of the delay while it is estimated [s]."""


class MotionErrors(NamedTuple):
    """What all windows show of the accelerometer's delay and of the camera's drift."""

    delay_s: float
    """Time by which the accelerometer is behind gyroscope and camera [s]."""

    var_delay: float
    drift_b: Array
    """(3,) what the camera's translations have in excess, along the body's axes [m/s]."""

    cov_drift_b: Array


def estimate_motion_errors(
    sums: TranslationSums, R_b_c: Array, p_b_c: Array, std_lever: float
) -> MotionErrors | None:
    """Fit scale, lever arm, drift and delay at once; axes and signs are taken as stated. None where
    there are too few windows to say how far off that may be."""
    if not shows_scatter(len(sums.dof), FITTED):
        return None
    B, c = np.zeros((UNKNOWNS, FITTED)), np.zeros(UNKNOWNS)
    B[A, 0], B[P, 1:4], B[DRIFT, 4:7], B[DELAY, 7] = np.eye(3).ravel(), np.eye(3), np.eye(3), 1.0
    c[M], c[P] = R_b_c.ravel(), p_b_c
    stds = [LEAST**-0.5, *[std_lever] * 3, *[FREE_DRIFT_STD] * 3, FREE_DELAY_STD_S]
    S = sums.S.sum(axis=0)
    information = B.T @ S @ B + np.diag(np.array(stds) ** -2.0)
    q = np.linalg.solve(information, -B.T @ S @ c)
    z = B @ q + c
    excess = max(float(z @ S @ z) / max(int(sums.dof.sum()), 1), 1.0)
    cov = robust_covariance(information, sums.S @ z @ B, excess)
    # Accelerations count as one over the scale, and so does their change with time.
    inverse_scale = q[0] if abs(q[0]) > 1e-6 else 1e-6
    return MotionErrors(
        float(q[7] / inverse_scale), float(cov[7, 7] / inverse_scale**2), q[4:7], cov[4:7, 4:7]
    )
