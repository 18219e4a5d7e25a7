"""Shared parts of baselines: gyroscope bias from rotations, linear rows of velocity and gravity.

With poses given, motion is linear in velocities v_k (each in its body) and gravity g in c0:

    position    dt v_k + dt^2 / 2 R_k' g                 = R_k' (p_k+1 - p_k) - alpha_k
    velocity    R_k' R_k+1 v_k+1 - v_k - dt R_k' g       = beta_k
"""

import numpy as np

from maci2.baselines.segment import Segment
from maci2.imu import ALPHA, BETA, GAMMA, Preintegrated, preintegrate
from maci2.lie import so3_exp, so3_jl_inv, so3_jr, so3_log
from maci2.types import Array

SCALE_UNIT = 100.0
"""Factor on the unknown scale, for columns of similar size."""


def raw_motion(
    segment: Segment, gyro_bias: Array | None = None, acc_bias: Array | None = None
) -> Preintegrated:
    """Raw samples between keyframes, preintegrated with these biases removed."""
    return preintegrate(segment.raw, segment.stamps_ns, gyro_bias, acc_bias)


def rotation_errors(gamma: Array, Rs_c0_b: Array) -> Array:
    """(m, 3, 3) rotation residual gamma' R_k' R_k+1."""
    return _transposed(gamma) @ _transposed(Rs_c0_b[:-1]) @ Rs_c0_b[1:]


def logs(rotations: Array) -> Array:
    """(m, 3) rotation vectors."""
    return np.array([so3_log(np.ascontiguousarray(R)) for R in rotations])


def quaternion_vectors(rotations: Array) -> Array:
    """(m, 3) twice the vector part of each unit quaternion: the rotation vector, to first order."""
    phi = logs(rotations)
    half = 0.5 * np.linalg.norm(phi, axis=1, keepdims=True)
    return phi * np.sinc(half / np.pi)


def rotation_errors_D_bias(errors: Array, D_bg: Array, bias: Array) -> Array:
    """(m, 3, 3) derivative of Log(Exp(D b)' gamma' R_k' R_k+1) by the gyroscope bias b, one for
    all steps (3,) or one each (m, 3).

    Exp(-J_r(D b) D db) stands left of the error.
    """
    turns = _times(D_bg, bias)
    return np.array(
        [
            -so3_jl_inv(r) @ so3_jr(turn) @ D
            for r, turn, D in zip(errors, turns, np.ascontiguousarray(D_bg), strict=True)
        ]
    )


def fit_gyro_bias(pre: Preintegrated, errors: Array) -> Array:
    """(3,) least squares of D_bg db = errors with equal weights, one linear solve."""
    D = pre.D_bg[:, GAMMA]
    return np.linalg.solve(np.einsum("kji,kjl->il", D, D), np.einsum("kji,kj->i", D, errors))


def corrected(pre: Preintegrated, bg: Array, ba: Array) -> tuple[Array, Array, Array]:
    """gamma, beta, alpha with biases removed to first order, as a filter's cache gives them; biases
    are common (3,) or one per interval (m, 3)."""
    turns = np.array([so3_exp(phi) for phi in _times(pre.D_bg[:, GAMMA], bg)])
    beta = pre.beta + _times(pre.D_bg[:, BETA], bg) + _times(pre.D_ba[:, BETA], ba)
    alpha = pre.alpha + _times(pre.D_bg[:, ALPHA], bg) + _times(pre.D_ba[:, ALPHA], ba)
    return pre.gamma @ turns, beta, alpha


def motion_rows(
    dt: Array, beta: Array, alpha: Array, Rs_c0_b: Array, steps_c0: Array
) -> tuple[Array, Array]:
    """Rows (6 m, 3 n + 3) of the unknowns [v_0 .. v_n-1, g] and their right sides.

    `steps_c0` (m, 3) are the known parts of p_k+1 - p_k in c0 [m].
    """
    m = len(dt)
    rows, right = np.zeros((m, 6, 3 * m + 6)), np.empty((m, 6))
    for k in range(m):
        R_bk_c0 = Rs_c0_b[k].T
        here, after = slice(3 * k, 3 * k + 3), slice(3 * k + 3, 3 * k + 6)
        rows[k, 0:3, here] = dt[k] * np.eye(3)
        rows[k, 0:3, -3:] = 0.5 * dt[k] ** 2 * R_bk_c0
        rows[k, 3:6, here] = -np.eye(3)
        rows[k, 3:6, after] = R_bk_c0 @ Rs_c0_b[k + 1]
        rows[k, 3:6, -3:] = -dt[k] * R_bk_c0
        right[k, 0:3] = R_bk_c0 @ steps_c0[k] - alpha[k]
        right[k, 3:6] = beta[k]
    return rows.reshape(6 * m, -1), right.reshape(6 * m)


def scaled_motion_rows(
    pre: Preintegrated, Rs_c0_b: Array, p_c0_c: Array, p_b_c: Array
) -> tuple[Array, Array]:
    """Rows of [v_0 .. v_n-1, g, 100 s]: the body moves by s (p_ck1 - p_ck) minus the lever arm."""
    lever_c0 = -np.diff(Rs_c0_b @ p_b_c, axis=0)
    rows, right = motion_rows(pre.dt, pre.beta, pre.alpha, Rs_c0_b, lever_c0)
    steps_b = np.einsum("kji,kj->ki", Rs_c0_b[:-1], np.diff(p_c0_c, axis=0))
    by_scale = np.concatenate([-steps_b / SCALE_UNIT, np.zeros_like(steps_b)], axis=1)
    return np.column_stack([rows, by_scale.ravel()]), right


def tangent_basis(gravity: Array) -> Array:
    """(3, 2) directions perpendicular to gravity: the first towards z, or x if z is parallel."""
    along = gravity / np.linalg.norm(gravity)
    aside = np.array([0.0, 0.0, 1.0])
    if abs(along[2]) == 1.0:
        aside = np.array([1.0, 0.0, 0.0])
    first = aside - along * (along @ aside)
    first /= np.linalg.norm(first)
    return np.stack([first, np.cross(along, first)], axis=1)


def with_norm(vector: Array, norm: float) -> Array:
    """Vector with the same direction and this norm."""
    return vector * (norm / np.linalg.norm(vector))


def solve_rows(rows: Array, right: Array) -> Array:
    """Least squares through the normal equations, as all of the originals do."""
    return np.asarray(np.linalg.solve(rows.T @ rows, rows.T @ right), dtype=np.float64)


def _times(D: Array, bias: Array) -> Array:
    """(m, 3) products of (m, 3, 3) with one vector or one each."""
    return np.asarray((D @ bias[..., None])[..., 0], np.float64)


def _transposed(rotations: Array) -> Array:
    return np.swapaxes(rotations, -1, -2)
