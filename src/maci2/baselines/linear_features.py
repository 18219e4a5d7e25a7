"""Initial velocity, gravity and points in one linear system (Dong-Si and Mourikis, IROS 2012).

With rotations by the gyroscope, a point X in the first body appears at (x, y) in the camera at k if

    [1 0 -x; 0 1 -y] (R_cb R_k0 (X - v_0 t - g t^2 / 2 - alpha_k) - R_cb p_bc - offset) = 0,

which is linear in X, v_0 and g. Points are eliminated one by one; gravity has its norm.
"""

from dataclasses import dataclass

import numpy as np

from maci2.baselines.bundle_factors import Observations
from maci2.baselines.integrated_motion import IntegratedMotion
from maci2.baselines.sphere import solve_on_sphere
from maci2.baselines.stages import stage
from maci2.types import Array


@dataclass(frozen=True)
class LinearFeatures:
    """The solution, in the first body."""

    v0_b0: Array
    gravity_b0: Array
    points_b0: Array
    """(p, 3) [m]"""


@stage("closed form")
def solve_features(
    seen: Observations, motion: IntegratedMotion, gravity_norm: float
) -> LinearFeatures:
    """Least squares with equally weighted rows."""
    by_point, by_motion, right = feature_rows(seen, motion)
    V = _sum(by_point, by_point)
    W = _sum(by_point, by_motion)
    b_points = _sum(by_point, right)
    V_inv = np.linalg.inv(V)
    H = _sum(by_motion, by_motion).sum(axis=0)
    b = _sum(by_motion, right).sum(axis=0)[:, 0]
    eliminated = np.swapaxes(W, 1, 2) @ V_inv
    H = H - (eliminated @ W).sum(axis=0)
    b = b - (eliminated @ b_points).sum(axis=0)[:, 0]
    x = solve_on_sphere(H, b, slice(3, 6), gravity_norm)
    points_b0 = (V_inv @ (b_points - (W @ x)[:, :, None]))[:, :, 0]
    return LinearFeatures(x[:3], x[3:], points_b0)


def feature_rows(seen: Observations, motion: IntegratedMotion) -> tuple[Array, Array, Array]:
    """Rows (p, r, 3) by the point, (p, r, 6) by [v_0, g], right sides (p, r, 1); zero where a
    point is not seen."""
    R_c_b = seen.T_b_c[:3, :3].T
    lever_c = R_c_b @ seen.T_b_c[:3, 3]
    by_camera = np.zeros((*seen.xy.shape, 3))
    by_camera[..., 0, 0] = by_camera[..., 1, 1] = seen.seen
    by_camera[..., 2] = -seen.xy
    by_point = by_camera @ (R_c_b @ np.swapaxes(motion.Rs_b0_b, 1, 2))
    t = motion.t[:, None, None]
    by_motion = np.concatenate([-t * by_point, -0.5 * t**2 * by_point], axis=-1)
    shifts = np.stack([seen.offsets, 0.0 * seen.offsets, 0.0 * seen.offsets], axis=1) + lever_c
    right = (by_point @ motion.alpha[:, :, None])[..., 0]
    right = right + np.einsum("cpkij,cj->cpki", by_camera, shifts)
    return _by_point(by_point), _by_point(by_motion), _by_point(right[..., None])


def _by_point(rows: Array) -> Array:
    """(c, p, n, 2, d) -> (p, 2 c n, d)."""
    c, p, n, two, d = rows.shape
    return np.moveaxis(rows, 1, 0).reshape(p, c * n * two, d)


def _sum(a: Array, b: Array) -> Array:
    return np.asarray(np.swapaxes(a, 1, 2) @ b, np.float64)
