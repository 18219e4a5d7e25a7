"""Closed forms on given poses: static, linear, Kimera-VIO's and the analytic solution."""

from functools import partial

import numpy as np

from maci2.imu import ALPHA, BETA, GAMMA, Preintegrated
from maci2.types import Array
from maci2_lab.baselines.alignment import (
    corrected,
    fit_gyro_bias,
    logs,
    motion_rows,
    raw_motion,
    rotation_errors,
    rotation_errors_D_bias,
    solve_on_sphere,
    solve_rows,
    tangent_basis,
    velocities_between,
    with_norm,
)
from maci2_lab.baselines.segment import Answer, Initializer, Segment


def static(segment: Segment) -> Answer:
    """Static initialization: the device is assumed to be stationary, as in OKVIS2 (in Basalt from
    one sample).

    Gravity is opposite to the mean accelerometer between the first two keyframes, velocity and both
    biases are zero, poses are vision's. It accepts everything: it shows what "just start" costs.
    """
    inside = (segment.raw.stamps_ns >= segment.stamps_ns[0]) & (
        segment.raw.stamps_ns <= segment.stamps_ns[1]
    )
    force_b = segment.raw.acc[inside].mean(axis=0)
    Ts_c0_b = segment.Ts_c0_b()
    gravity_c0 = with_norm(-Ts_c0_b[0, :3, :3] @ force_b, segment.gravity_norm)
    zeros = np.zeros(3)
    state = segment.state(gravity_c0, np.zeros((len(Ts_c0_b), 3)), zeros, zeros, Ts_c0_b)
    return Answer(True, "", state)


EUROC_ACC_BIAS = (-0.0207, 0.1169, 0.0642)
"""Accelerometer bias of EuRoC's ADIS16448 [m/s^2]: mean over MH_01, MH_05, V2_01 and V2_03, the
paper's training sequences, of the mean that each one's ground truth states."""


def linear(segment: Segment) -> Answer:
    """Linear stereo alignment, without accelerometer bias or with a known one.

    Gyroscope bias from rotations, then velocities and gravity of known norm from linear rows with
    equal weights: the plainest method that uses what a stereo camera gives. With the constant bias
    it is what knowledge of the sensor is worth without a network: the mark that a learned IMU model
    has to beat.
    """
    return align_linearly(segment, np.zeros(3))


def const_bias(acc_bias: tuple[float, float, float]) -> Initializer:
    """Linear alignment with a constant, known accelerometer bias."""
    return partial(align_linearly, acc_bias=np.array(acc_bias))


def align_linearly(segment: Segment, acc_bias: Array) -> Answer:
    """Velocities and gravity in one solve."""
    Ts_c0_b = segment.Ts_c0_b()
    Rs_c0_b = Ts_c0_b[:, :3, :3]
    pre = raw_motion(segment)
    gyro_bias = fit_gyro_bias(pre, logs(rotation_errors(pre.gamma, Rs_c0_b)))
    pre = raw_motion(segment, gyro_bias, acc_bias)
    steps_c0 = np.diff(Ts_c0_b[:, :3, 3], axis=0)
    rows, right = motion_rows(pre.dt, pre.beta, pre.alpha, Rs_c0_b, steps_c0)
    x = solve_on_sphere(rows.T @ rows, rows.T @ right, slice(-3, None), segment.gravity_norm)
    state = segment.state(x[-3:], x[:-3].reshape(-1, 3), gyro_bias, acc_bias, Ts_c0_b)
    return Answer(True, "", state)


MAX_ROTATION_RESIDUAL = 5e-2
"""Largest norm of the sum of the rotation residuals after removal of the bias [rad]."""

KIMERA_NORM_ERROR = 0.1
"""Largest error of the norm of gravity as a free vector [m/s^2]."""

REFINEMENTS = 4


def kimera(segment: Segment) -> Answer:
    """Kimera-VIO's online gravity alignment (Rosinol et al., ICRA 2020).

    VINS-Mono's linear alignment without scale, on body poses and with unit weights. Two habits of
    the released code are kept: the gyroscope bias is taken off the preintegrated motion to first
    order, and the refinement on the sphere improves velocities only: gravity returned, and checked,
    is that of the first, free solution. The refinement keeps its first tangent basis.
    """
    Ts_c0_b = segment.Ts_c0_b()
    Rs_c0_b = Ts_c0_b[:, :3, :3]
    pre = raw_motion(segment)
    gyro_bias = fit_gyro_bias(pre, logs(rotation_errors(pre.gamma, Rs_c0_b)))
    gamma, beta, alpha = corrected(pre, gyro_bias, np.zeros(3))
    residual = float(np.linalg.norm(logs(rotation_errors(gamma, Rs_c0_b)).sum(axis=0)))

    steps_c0 = np.diff(Ts_c0_b[:, :3, 3], axis=0)
    rows, right = motion_rows(pre.dt, beta, alpha, Rs_c0_b, steps_c0)
    gravity_c0 = solve_rows(rows, right)[-3:]
    velocity_b = _refined_velocities(rows, right, with_norm(gravity_c0, segment.gravity_norm))
    norm_error = abs(float(np.linalg.norm(gravity_c0)) - segment.gravity_norm)
    reason = _kimera_rejection(residual, norm_error)
    state = segment.state(gravity_c0, velocity_b, gyro_bias, np.zeros(3), Ts_c0_b)
    return Answer(not reason, reason, state)


def _refined_velocities(rows: Array, right: Array, gravity_c0: Array) -> Array:
    norm = float(np.linalg.norm(gravity_c0))
    across = tangent_basis(gravity_c0)
    J = np.column_stack([rows[:, :-3], rows[:, -3:] @ across])
    x = np.empty(J.shape[1])
    for _ in range(REFINEMENTS):
        x = solve_rows(J, right - rows[:, -3:] @ gravity_c0)
        gravity_c0 = with_norm(gravity_c0 + across @ x[-2:], norm)
    return x[:-2].reshape(-1, 3)


def _kimera_rejection(residual: float, norm_error: float) -> str:
    if residual > MAX_ROTATION_RESIDUAL:
        return (
            f"rotations of vision and gyroscope differ by {residual:.3f} rad in sum, allowed "
            f"{MAX_ROTATION_RESIDUAL:g}"
        )
    if norm_error > KIMERA_NORM_ERROR:
        return f"gravity's norm is off by {norm_error:.2f} m/s^2, allowed {KIMERA_NORM_ERROR:g}"
    return ""


ACC_BIAS_INFORMATION = 1e5
"""Information of the prior b_a = 0 [(m/s^2)^-2]: 3 mm/s^2, which all but pins it."""

MIN_SCALE = 1e-3
ANALYTIC_NORM_ERROR = 1e-3
"""Accepted error of the norm of gravity, relative."""

MAX_ITERATIONS = 20
STEP_TOLERANCE = 1e-12

SCALE, ACC_BIAS, GRAVITY = slice(0, 1), slice(1, 4), slice(4, 7)


def analytic(segment: Segment) -> Answer:
    """The analytic solution of Zuniga-Noel et al. (RA-L 2021).

    Gyroscope bias from rotations, weighed by preintegration's covariance. Velocities are eliminated
    over three neighbouring keyframes, which leaves scale, accelerometer bias and gravity:

        [(c_3 - c_2) / dt_23 - (c_2 - c_1) / dt_12] s + [A J_12 - B J_23 - R_1 V_12] b_a
            - (dt_12 + dt_23) / 2 g = B alpha_23 - A alpha_12 + R_1 beta_12 + lever arm,
        A = R_1 / dt_12,  B = R_2 / dt_23,

    with c camera positions and J, V the derivatives of alpha, beta by b_a. Gravity has its norm.
    Scale stays an unknown, as in the original, though vision here is metric.
    """
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
    velocity_c0 = velocities_between(pre, Ts, acc_bias, gravity_c0)
    velocity_b = np.einsum("kji,kj->ki", Rs_c0_b, velocity_c0)
    norm_error = abs(float(np.linalg.norm(gravity_c0)) / segment.gravity_norm - 1.0)
    reason = _analytic_rejection(scale, norm_error)
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
    dt_12, dt_23 = pre.dt[:-1, None], pre.dt[1:, None]

    def velocity_change(p: Array) -> Array:
        steps = np.diff(p, axis=0)
        return np.asarray(steps[1:] / dt_23 - steps[:-1] / dt_12)

    R_1 = Rs_c0_b[:-2]
    A, B = R_1 / dt_12[:, :, None], Rs_c0_b[1:-1] / dt_23[:, :, None]
    rows = np.empty((len(R_1), 3, 7))
    rows[:, :, 0] = velocity_change(p_c0_c)
    J, V = pre.D_ba[:, ALPHA], pre.D_ba[:, BETA]
    rows[:, :, ACC_BIAS] = A @ J[:-1] - B @ J[1:] - R_1 @ V[:-1]
    rows[:, :, GRAVITY] = -0.5 * (dt_12 + dt_23)[:, :, None] * np.eye(3)
    right = B @ pre.alpha[1:, :, None] - A @ pre.alpha[:-1, :, None] + R_1 @ pre.beta[:-1, :, None]
    right -= velocity_change(lever_c0)[:, :, None]
    cov = np.zeros((len(R_1), 3, 3))
    for M, of_step in (
        (A, pre.cov[:-1, ALPHA, ALPHA]),
        (B, pre.cov[1:, ALPHA, ALPHA]),
        (R_1, pre.cov[:-1, BETA, BETA]),
    ):
        cov += M @ of_step @ np.swapaxes(M, 1, 2)
    weighed = np.linalg.solve(cov, np.concatenate([rows, right], axis=2))
    sums = np.einsum("kij,kil->jl", rows, weighed)
    H, b = sums[:, :7], sums[:, 7]
    H[ACC_BIAS, ACC_BIAS] += ACC_BIAS_INFORMATION * np.eye(3)
    return H, b


def _analytic_rejection(scale: float, norm_error: float) -> str:
    if scale < MIN_SCALE:
        return f"the scale comes out as {scale:.4f}, needed at least {MIN_SCALE:g}"
    if not norm_error <= ANALYTIC_NORM_ERROR:
        return (
            f"gravity's norm is off by {100 * norm_error:.2g} %, allowed "
            f"{100 * ANALYTIC_NORM_ERROR:g}"
        )
    return ""
