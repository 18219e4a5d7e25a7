"""The analytic solution of Zuniga-Noel et al. (RA-L 2021).

Gyroscope bias from rotations, weighed by preintegration's covariance. Velocities are eliminated
over three neighbouring keyframes, which leaves scale, accelerometer bias and gravity:

    [(c_3 - c_2) / dt_23 - (c_2 - c_1) / dt_12] s + [A J_12 - B J_23 - R_1 V_12] b_a
        - (dt_12 + dt_23) / 2 g = B alpha_23 - A alpha_12 + R_1 beta_12 + lever arm,
    A = R_1 / dt_12,  B = R_2 / dt_23,

with c camera positions and J, V the derivatives of alpha, beta by b_a. Gravity has its norm. Scale
stays an unknown, as in the original, though vision here is metric.
"""

import numpy as np

from maci2.baselines.alignment import (
    corrected,
    logs,
    raw_motion,
    rotation_errors,
    rotation_errors_D_bias,
)
from maci2.baselines.segment import Answer, Segment
from maci2.baselines.sphere import solve_on_sphere
from maci2.imu import ALPHA, BETA, GAMMA, Preintegrated
from maci2.types import Array

ACC_BIAS_INFORMATION = 1e5
"""Information of the prior b_a = 0 [(m/s^2)^-2]: 3 mm/s^2, which all but pins it."""

MIN_SCALE = 1e-3
MAX_NORM_ERROR = 1e-3
"""Accepted error of the norm of gravity, relative."""

MAX_ITERATIONS = 20
STEP_TOLERANCE = 1e-12

SCALE, ACC_BIAS, GRAVITY = slice(0, 1), slice(1, 4), slice(4, 7)


def analytic(segment: Segment) -> Answer:
    """Closed form, except for the gyroscope bias."""
    Ts_c0_c, Ts_c0_b = segment.Ts_c0_c(), segment.Ts_c0_b()
    Rs_c0_b = Ts_c0_b[:, :3, :3]
    gyro_bias = weighted_gyro_bias(raw_motion(segment), Rs_c0_b)
    pre = raw_motion(segment, gyro_bias)

    p_c0_c, lever_c0 = Ts_c0_c[:, :3, 3], -Rs_c0_b @ segment.T_b_c[:3, 3]
    H, b = normal_equations(pre, Rs_c0_b, p_c0_c, lever_c0)
    x = solve_on_sphere(H, b, GRAVITY, segment.gravity_norm)
    scale, acc_bias, gravity_c0 = float(x[0]), x[ACC_BIAS], x[GRAVITY]

    Ts = Ts_c0_b.copy()
    Ts[:, :3, 3] = scale * p_c0_c + lever_c0
    velocity_b = _velocities(pre, Ts, acc_bias, gravity_c0)
    norm_error = abs(float(np.linalg.norm(gravity_c0)) / segment.gravity_norm - 1.0)
    reason = _rejection(scale, norm_error)
    return Answer(
        not reason, reason, segment.state(gravity_c0, velocity_b, gyro_bias, acc_bias, Ts)
    )


def weighted_gyro_bias(pre: Preintegrated, Rs_c0_b: Array) -> Array:
    """Gyroscope bias by Gauss-Newton on the weighted |Log(gamma(b_g)' R_k' R_k+1)|^2."""
    D = pre.D_bg[:, GAMMA]
    info = np.linalg.inv(pre.cov[:, GAMMA, GAMMA])
    bias = np.zeros(3)
    for _ in range(MAX_ITERATIONS):
        gamma, _, _ = corrected(pre, bias, np.zeros(3))
        errors = logs(rotation_errors(gamma, Rs_c0_b))
        J = rotation_errors_D_bias(errors, D, bias)
        H = np.einsum("kji,kjl,klm->im", J, info, J)
        step = -np.linalg.solve(H, np.einsum("kji,kjl,kl->i", J, info, errors))
        bias = bias + step
        if np.abs(step).max() < STEP_TOLERANCE:
            break
    return bias


def normal_equations(
    pre: Preintegrated, Rs_c0_b: Array, p_c0_c: Array, lever_c0: Array
) -> tuple[Array, Array]:
    """H (7, 7) and b (7,) of [s, b_a, g] over all triples, with the prior of b_a."""
    H, b = np.zeros((7, 7)), np.zeros(7)
    H[ACC_BIAS, ACC_BIAS] = ACC_BIAS_INFORMATION * np.eye(3)
    for k in range(len(pre.dt) - 1):
        row, right, cov = _triple(pre, Rs_c0_b, p_c0_c, lever_c0, k)
        weighed = np.linalg.solve(cov, np.column_stack([row, right]))
        H += row.T @ weighed[:, :7]
        b += row.T @ weighed[:, 7]
    return H, b


def _triple(
    pre: Preintegrated, Rs_c0_b: Array, p_c0_c: Array, lever_c0: Array, k: int
) -> tuple[Array, Array, Array]:
    """Row (3, 7), right side and covariance of keyframes k, k + 1, k + 2."""
    dt_12, dt_23 = pre.dt[k], pre.dt[k + 1]
    R_1 = Rs_c0_b[k]
    A, B = R_1 / dt_12, Rs_c0_b[k + 1] / dt_23
    row = np.empty((3, 7))
    row[:, 0] = _velocity_change(p_c0_c, dt_12, dt_23, k)
    by_bias = pre.D_ba
    row[:, ACC_BIAS] = A @ by_bias[k, ALPHA] - B @ by_bias[k + 1, ALPHA] - R_1 @ by_bias[k, BETA]
    row[:, GRAVITY] = -0.5 * (dt_12 + dt_23) * np.eye(3)
    right = B @ pre.alpha[k + 1] - A @ pre.alpha[k] + R_1 @ pre.beta[k]
    right -= _velocity_change(lever_c0, dt_12, dt_23, k)
    cov = A @ pre.cov[k, ALPHA, ALPHA] @ A.T + B @ pre.cov[k + 1, ALPHA, ALPHA] @ B.T
    cov += R_1 @ pre.cov[k, BETA, BETA] @ R_1.T
    return row, right, cov


def _velocity_change(p: Array, dt_12: float, dt_23: float, k: int) -> Array:
    return (p[k + 2] - p[k + 1]) / dt_23 - (p[k + 1] - p[k]) / dt_12


def _velocities(pre: Preintegrated, Ts_c0_b: Array, acc_bias: Array, gravity_c0: Array) -> Array:
    """(n, 3) from each position row, the last from its velocity row; each in its body."""
    Rs, p, dt = Ts_c0_b[:, :3, :3], Ts_c0_b[:, :3, 3], pre.dt[:, None]
    _, beta, alpha = corrected(pre, np.zeros(3), acc_bias)
    moved = np.einsum("kij,kj->ki", Rs[:-1], alpha)
    v_c0 = (np.diff(p, axis=0) - moved) / dt - 0.5 * dt * gravity_c0
    last = v_c0[-1] + pre.dt[-1] * gravity_c0 + Rs[-2] @ beta[-1]
    return np.einsum("kji,kj->ki", Rs, np.vstack([v_c0, last]))


def _rejection(scale: float, norm_error: float) -> str:
    if scale < MIN_SCALE:
        return f"the scale comes out as {scale:.4f}, needed at least {MIN_SCALE:g}"
    if not norm_error <= MAX_NORM_ERROR:
        return (
            f"gravity's norm is off by {100 * norm_error:.2g} %, allowed {100 * MAX_NORM_ERROR:g}"
        )
    return ""
