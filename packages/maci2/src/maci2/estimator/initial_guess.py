"""Initial guesses in closed form: clock, rotations and gyroscope bias (Eq. 8), then velocities,
gravity and lever arm, which are linear once rotations are known.

Position rows give each velocity as a function of gravity; put into the velocity rows they leave,
for two neighbouring steps,

    u_k+1 - u_k - R_k beta_k = (dt_k + dt_k+1) / 2 g,    u_k = (p_k+1 - p_k - R_k alpha_k) / dt_k

so gravity is a mean, and with an unknown lever arm a small least-squares problem.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from maci2.calibration_prior import UNKNOWN
from maci2.errors import MeasurementError
from maci2.estimator.measurements import Spans
from maci2.estimator.normal_equations import eliminate, inverse_spd
from maci2.estimator.problem import SolverConfig
from maci2.geometry.se3 import se3_inv, se3_mul, so3_log_stack
from maci2.geometry.so3 import norm3, product, product_t, so3_exp, so3_jl_inv, so3_jr, so3_log
from maci2.imu import BiasPrior, ImuMeasurements, Preintegrated, Rule, preintegrate
from maci2.jit import kernel
from maci2.types import Array

if TYPE_CHECKING:
    from maci2.vision import RelativePoses

LARGEST_OFFSET_S = 0.1
"""Largest time offset to either side [s]; samples must reach that far beyond the keyframes."""

OFFSET_STD_S = UNKNOWN.camera_clock_s
"""Standard deviation of the prior of a time offset that is estimated [s]."""

GRID_S = 0.004
"""Spacing of the time offsets that rotations are compared at [s]."""

MAX_ITERATIONS = 30
STEP_TOLERANCE = 1e-7
"""Largest entry of the last step [rad/s, rad]; each step is a thousandth of the one before."""

UNKNOWNS = 6
"""Number of unknowns: bias and rotation."""

ROW = 3 + UNKNOWNS + 1
"""Columns of a row block: covariance, derivatives, residual."""


class RotationAlignment(NamedTuple):
    """Alignment of the rotations of vision and gyroscope."""

    bias_gyro: Array
    """(3,) [rad/s]"""

    R_b_c: Array
    """(3, 3), as given or as estimated."""

    cov: Array
    """(6, 6) of [bias, rotation (left)]; the rotation block is zero where it was given."""

    residuals: Array
    """(m, 3) residuals [rad]."""

    cost: float
    """Sum of squared whitened residuals."""


def align_rotations(
    pre: Preintegrated,
    vision: "RelativePoses",
    R_b_c: Array,
    prior: BiasPrior,
    estimate_rotation: bool,
) -> RotationAlignment:
    """Minimise Eq. 8 from the given rotation and the bias that `pre` was integrated with."""
    delta_bg, R_b_c, cov, residuals, cost = _align(
        pre.gamma,
        pre.D_bg,
        pre.cov,
        vision.Ts_ck_ck1,
        vision.covs_T_ck_ck1,
        np.ascontiguousarray(R_b_c),
        prior.mean_gyro - pre.bias_gyro,
        prior.info_gyro,
        estimate_rotation,
    )
    if not estimate_rotation:
        cov[3:6, 3:6] = 0.0
    return RotationAlignment(pre.bias_gyro + delta_bg, R_b_c, cov, residuals, cost)


def rotation_from_rates(pre: Preintegrated, vision: "RelativePoses") -> Array:
    """Extrinsic rotation R_b_c without initial guess, by registration of the two sets of mean
    rotation rates.

    A constant gyroscope bias shifts one set as a whole, so it drops out with the centroids. Steps
    that vision did not measure are skipped.
    """
    measured = vision.measured
    if not measured.any():
        return np.eye(3)
    rotations = (pre.gamma[measured], vision.Ts_ck_ck1[measured, :3, :3])
    rates_b, rates_c = (so3_log_stack(Rs) / pre.dt[measured, None] for Rs in rotations)
    spread = (rates_b - rates_b.mean(axis=0)).T @ (rates_c - rates_c.mean(axis=0))
    U, _, Vt = np.linalg.svd(spread)
    return np.asarray(U @ np.diag([1.0, 1.0, np.linalg.det(U @ Vt)]) @ Vt)


@kernel
def gyro_residual(
    R_ck_ck1: Array, gamma: Array, gamma_D_bg: Array, R_b_c: Array, delta_bg: Array
) -> tuple[Array, Array, Array]:
    """Difference between the gyroscope's rotation and vision's, r (3,) [rad], right of gamma.

    Also its derivatives by the gyroscope bias and by R_b_c (left). The inverse of the measured
    R_ck_ck1 stands between the extrinsics. Of larger matrices the upper left 3x3 is read.
    """
    phi_bg = np.zeros(3)
    for i in range(3):
        for j in range(3):
            phi_bg[i] += gamma_D_bg[i, j] * delta_bg[j]
    gamma_hat = product(gamma, so3_exp(phi_bg))
    r = so3_log(product(R_b_c, product_t(R_ck_ck1, product_t(R_b_c, gamma_hat))))
    J_l_inv = so3_jl_inv(r)
    # J_r^-1 is the transpose of J_l^-1.
    r_D_bg = product_t(J_l_inv, product(so3_jr(phi_bg), gamma_D_bg))
    right = product(gamma_hat, J_l_inv)
    r_D_theta = np.empty((3, 3))
    for i in range(3):
        for j in range(3):
            r_D_theta[i, j] = J_l_inv[i, j] - right[j, i]
    return r, r_D_bg, r_D_theta


@kernel
def _align(
    gamma: Array,
    D_bg: Array,
    cov_imu: Array,
    Ts_ck_ck1: Array,
    covs_T: Array,
    R_b_c: Array,
    mean_bg: Array,
    info_bg: Array,
    estimate_rotation: bool,
) -> tuple[Array, Array, Array, Array, float]:
    delta_bg, step = np.zeros(3), np.empty(6)
    residuals = np.empty((len(gamma), 3))
    # Of each step [cov | J | r], and of all [J | r]' cov^-1 [J | r].
    rows, H = np.empty((3, ROW)), np.empty((UNKNOWNS + 1, UNKNOWNS + 1))
    cov, cost = np.empty((UNKNOWNS, UNKNOWNS)), 0.0
    for _ in range(MAX_ITERATIONS):
        H.fill(0.0)
        for i in range(3):
            away = mean_bg[i] - delta_bg[i]
            H[i, i] += info_bg[i]
            H[i, UNKNOWNS] -= info_bg[i] * away
            H[UNKNOWNS, UNKNOWNS] += info_bg[i] * away**2
            # A rotation about which nothing is known lies within half a turn.
            H[3 + i, 3 + i] += 1.0 / np.pi**2 if estimate_rotation else 1.0
        for k in range(len(gamma)):
            r, J_bg, J_theta = gyro_residual(Ts_ck_ck1[k], gamma[k], D_bg[k], R_b_c, delta_bg)
            _residual_covariance(product_t(gamma[k], R_b_c), covs_T[k], cov_imu[k], rows)
            for i in range(3):
                residuals[k, i] = rows[i, ROW - 1] = r[i]
                for j in range(3):
                    rows[i, 3 + j] = J_bg[i, j]
                    rows[i, 6 + j] = J_theta[i, j] if estimate_rotation else 0.0
            _add_weighted(rows, H)
        cost = H[UNKNOWNS, UNKNOWNS]
        cov = inverse_spd(H, UNKNOWNS)
        largest = 0.0
        for i in range(UNKNOWNS):
            step[i] = 0.0
            for j in range(UNKNOWNS):
                step[i] -= cov[i, j] * H[j, UNKNOWNS]
            largest = max(largest, abs(step[i]))
        for i in range(3):
            delta_bg[i] += step[i]
        if estimate_rotation:
            R_b_c = product(so3_exp(step[3:6]), R_b_c)
        if largest < STEP_TOLERANCE:
            break
    return delta_bg, R_b_c, cov, residuals, cost


@kernel
def _residual_covariance(R_bk1_ck: Array, cov_T: Array, cov_imu: Array, rows: Array) -> None:
    """rows[:, 0:3] = covariance of the residual: vision's, rotated, plus the gyroscope's.

    J_r(r) r = r, so the residual is weighed by the noise itself: paper_notes, note 11.
    """
    for i in range(3):
        for j in range(3):
            total = cov_imu[i, j]
            for k in range(3):
                for m in range(3):
                    total += R_bk1_ck[i, k] * cov_T[3 + k, 3 + m] * R_bk1_ck[j, m]
            rows[i, j] = total


@kernel
def _add_weighted(rows: Array, H: Array) -> None:
    """H += X' cov^-1 X from rows [cov | X]."""
    if not eliminate(rows):
        H.fill(np.nan)
    for i in range(UNKNOWNS + 1):
        for j in range(UNKNOWNS + 1):
            for k in range(3):
                H[i, j] += rows[k, 3 + i] * rows[k, 3 + j]


def shifted(vision: "RelativePoses", offset_s: float) -> "RelativePoses":
    """The same motion, delayed on the IMU's clock by an offset: t_imu = t_camera + offset, as in
    Kalibr."""
    return replace(vision, stamps_ns=vision.stamps_ns + round(offset_s * 1e9))


def on_imu_clock(
    imu: ImuMeasurements,
    vision: "RelativePoses",
    config: SolverConfig,
    R_b_c: Array | None = None,
) -> tuple["RelativePoses", float]:
    """Vision shifted by a first estimate of the time offset, and that estimate; unchanged if the
    offset is not to be estimated."""
    if not config.estimate_time_offset:
        return vision, 0.0
    vision = _with_margin(imu, vision)
    offset_s = coarse_time_offset(imu, vision, config.rule, R_b_c)
    return shifted(vision, offset_s), offset_s


def _with_margin(imu: ImuMeasurements, vision: "RelativePoses") -> "RelativePoses":
    """Keyframes that stay inside the samples for every offset within the bound."""
    margin_ns = round((LARGEST_OFFSET_S + GRID_S) * 1e9)
    first, last = int(imu.stamps_ns[0]) + margin_ns, int(imu.stamps_ns[-1]) - margin_ns
    inside = (vision.stamps_ns >= first) & (vision.stamps_ns <= last)
    if inside.all():
        return vision
    if inside.sum() < 2:
        raise MeasurementError(
            f"{imu.source}: samples cover {imu.stamps_ns[0]}..{imu.stamps_ns[-1]} ns, needed "
            f"{LARGEST_OFFSET_S:g} s beyond the keyframes to look for a time offset; give a longer "
            "recording or take the offset as known."
        )
    kept = np.flatnonzero(inside)
    return vision.part(int(kept[0]), int(kept[-1]))


def coarse_time_offset(
    imu: ImuMeasurements, vision: "RelativePoses", rule: Rule, R_b_c: Array | None = None
) -> float:
    """Offset at which rotations agree best [s]: Eq. 8 as a function of the offset, with its prior.
    Without `R_b_c` the rotation of the camera is estimated at each offset."""
    if not vision.measured.any():
        return 0.0
    prior = imu.bias_prior
    offsets = np.arange(-LARGEST_OFFSET_S, LARGEST_OFFSET_S + GRID_S / 2.0, GRID_S)
    misfits = (offsets / OFFSET_STD_S) ** 2
    for k, offset_s in enumerate(offsets):
        stamps_ns = shifted(vision, float(offset_s)).stamps_ns
        pre = preintegrate(imu, stamps_ns, prior.mean_gyro, prior.mean_acc, rule)
        start = rotation_from_rates(pre, vision) if R_b_c is None else R_b_c
        misfits[k] += align_rotations(pre, vision, start, prior, R_b_c is None).cost
    best = int(np.argmin(misfits))
    return float(offsets[best] + GRID_S * _lowest(misfits[best - 1 : best + 2]))


def _lowest(misfits: Array) -> float:
    """Place of the minimum of the parabola through values at -1, 0 and 1, the least of which is
    that at 0; 0 at an end of the grid."""
    if len(misfits) < 3:
        return 0.0
    curvature = misfits[0] + misfits[2] - 2.0 * misfits[1]
    return float(0.5 * (misfits[0] - misfits[2]) / curvature) if curvature > 0.0 else 0.0


@kernel
def chained_poses(Ts_ck_ck1: Array) -> Array:
    """(n, 4, 4) camera poses T_c0_ck from the n - 1 relative poses."""
    Ts_c0_c = np.empty((len(Ts_ck_ck1) + 1, 4, 4))
    Ts_c0_c[0] = np.eye(4)
    for k in range(len(Ts_ck_ck1)):
        Ts_c0_c[k + 1] = se3_mul(Ts_c0_c[k], Ts_ck_ck1[k])
    return Ts_c0_c


def start_values(
    pre: "Preintegrated | Spans", vision: "RelativePoses", T_b_c: Array, gravity_norm: float
) -> tuple[Array, Array, Array]:
    """Body poses T_c0_b, body velocities, and gravity of the given norm.

    Rotations are the gyroscope's, whose bias is known by now and which drifts less than vision's
    over many steps; translations are vision's.
    """
    start: tuple[Array, Array, Array] = _start_values(
        pre.dt, pre.gamma, pre.beta, pre.alpha, vision.Ts_ck_ck1, T_b_c, gravity_norm
    )
    return start


@kernel
def _start_values(
    dt: Array, gamma: Array, beta: Array, alpha: Array, Ts_ck_ck1: Array, T_b_c: Array, norm: float
) -> tuple[Array, Array, Array]:
    m, steps, T_c_b = len(dt), Ts_ck_ck1.copy(), se3_inv(T_b_c)
    for k in range(m):
        steps[k, :3, :3] = product_t(T_b_c, product(gamma[k], T_b_c))
    Ts_c0_b = chained_poses(steps)
    for k in range(m + 1):
        Ts_c0_b[k] = se3_mul(Ts_c0_b[k], T_c_b)
    u, beta_c0, g_c0 = np.zeros((m, 3)), np.zeros((m, 3)), np.zeros(3)
    for k in range(m):
        for i in range(3):
            alpha_c0 = 0.0
            for j in range(3):
                alpha_c0 += Ts_c0_b[k, i, j] * alpha[k, j]
                beta_c0[k, i] += Ts_c0_b[k, i, j] * beta[k, j]
            u[k, i] = (Ts_c0_b[k + 1, i, 3] - Ts_c0_b[k, i, 3] - alpha_c0) / dt[k]
            if k > 0:
                g_c0[i] += u[k, i] - u[k - 1, i] - beta_c0[k - 1, i]
    g_c0 *= norm / norm3(g_c0)
    v_b = np.zeros((m + 1, 3))
    for k in range(m + 1):
        for j in range(3):
            # No position row follows the last keyframe; the velocity row before it does.
            n = min(k, m - 1)
            v = u[n, j] - 0.5 * dt[n] * g_c0[j]
            if k == m:
                v += dt[n] * g_c0[j] + beta_c0[n, j]
            for i in range(3):
                v_b[k, i] += Ts_c0_b[k, j, i] * v
    return Ts_c0_b, v_b, g_c0


def lever_arm(pre: Preintegrated, vision: "RelativePoses", R_b_c: Array, prior: BiasPrior) -> Array:
    """Lever arm p_b_c without initial guess, together with gravity and accelerometer bias, by
    linear least squares.

    Where vision measured nothing the gyroscope rotates the frame, and no row tells the position.
    """
    measured = vision.measured
    steps = vision.Ts_ck_ck1.copy()
    steps[~measured, :3, :3] = (R_b_c.T @ pre.gamma @ R_b_c)[~measured]
    Ts_c0_c = chained_poses(steps)
    Q, q = Ts_c0_c[:, :3, :3], Ts_c0_c[:, :3, 3]
    R = Q[:-1] @ R_b_c.T
    dt = pre.dt[:, None]
    # u_k = known_k + by_lever_k p_c_b + by_bias_k b_a
    known = (np.diff(q, axis=0) - np.einsum("kij,kj->ki", R, pre.alpha)) / dt
    by_lever = np.diff(Q, axis=0) / dt[:, :, None]
    by_bias = -R @ pre.D_ba[:, 6:9] / dt[:, :, None]
    by_gravity = 0.5 * (pre.dt[:-1] + pre.dt[1:])[:, None, None] * np.eye(3)
    bias_rows = np.diff(by_bias, axis=0) - R[:-1] @ pre.D_ba[:-1, 3:6]
    rows = np.concatenate([-by_gravity, np.diff(by_lever, axis=0), bias_rows], axis=2)
    right = np.einsum("kij,kj->ki", R[:-1], pre.beta[:-1]) - np.diff(known, axis=0)
    both = measured[:-1] & measured[1:]
    rows, right = rows[both], right[both]

    variances = np.trace(vision.covs_T_ck_ck1[:, 0:3, 0:3], axis1=1, axis2=2)
    variance = variances[measured].mean() / 3.0 if measured.any() else variances.mean()
    noise = 2.0 * np.sqrt(variance) / pre.dt.mean()
    prior_rows = np.zeros((6, 9))
    prior_rows[0:3, 3:6] = np.eye(3) * noise / UNKNOWN.lever_m
    prior_rows[3:6, 6:9] = np.diag(noise / prior.std_acc)
    prior_right = np.concatenate([np.zeros(3), prior_rows[3:6, 6:9] @ prior.mean_acc])
    solution = np.linalg.lstsq(
        np.concatenate([rows.reshape(-1, 9), prior_rows]),
        np.concatenate([right.ravel(), prior_right]),
        rcond=None,
    )[0]
    return -R_b_c @ solution[3:6]
