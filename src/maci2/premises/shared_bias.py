"""The accelerometer's bias that all windows share, with nothing stated of it.

A window of a few seconds hardly tells a bias from a tilt of gravity and believes its prior. Over
many windows the body turns, and a bias turns with it while gravity does not. Few windows do not
show their model errors (a late clock, a camera that drifts), which a bias takes up as readily.
"""

from typing import NamedTuple

import numpy as np

from maci2.premises.robust_covariance import robust_covariance, shows_scatter
from maci2.premises.translation import LEAST, A, M, P, TranslationSums
from maci2.premises.translation import UNKNOWNS as PARTS
from maci2.types import Array

BIAS, ONE = slice(PARTS, PARTS + 3), PARTS + 3
"""Places of the bias and of the constant behind z."""


UNKNOWNS = 7
"""One over the scale, lever arm, bias."""


class SharedBias(NamedTuple):
    """Bias that the IMU model left in the accelerometer's samples, as all windows show it."""

    acc: Array
    """(3,) [m/s^2]"""

    cov: Array
    """(3, 3) [(m/s^2)^2], model errors included; wide along axes that motion does not show."""


def estimate_shared_bias(
    sums: TranslationSums, R_b_c: Array, p_b_c: Array, std_lever: float
) -> SharedBias | None:
    """Fit scale, lever arm and bias at once; axes and signs are taken as stated. None where there
    are too few windows to say how far off that may be."""
    if not shows_scatter(len(sums.dof), UNKNOWNS):
        return None
    B, c = np.zeros((ONE + 1, UNKNOWNS)), np.zeros(ONE + 1)
    B[A, 0], B[P, 1:4], B[BIAS, 4:7] = np.eye(3).ravel(), np.eye(3), np.eye(3)
    c[M], c[P], c[ONE] = R_b_c.ravel(), p_b_c, 1.0
    S = sums.shared_bias.sum(axis=0)
    information = B.T @ S @ B + np.diag([LEAST, *[std_lever**-2.0] * 3, *[LEAST] * 3])
    q = np.linalg.solve(information, -B.T @ S @ c)
    z = B @ q + c
    excess = max(float(z @ S @ z) / max(int(sums.dof.sum()), 1), 1.0)
    cov = robust_covariance(information, sums.shared_bias @ z @ B, excess)
    # Accelerations count as one over the scale, and so does their bias.
    inverse_scale = q[0] if abs(q[0]) > 1e-6 else 1e-6
    return SharedBias(q[4:7] / inverse_scale, cov[4:, 4:] / inverse_scale**2)
