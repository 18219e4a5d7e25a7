"""Initialization from a short window (the paper's Fig. 4, both workflows), before its verdict:
rotations and gyroscope bias (Eq. 8), closed form, joint optimization (Eq. 9), outliers.

Position rows give each velocity as a function of gravity; put into the velocity rows they leave,
for two neighbouring steps,

    u_k+1 - u_k - R_k beta_k = (dt_k + dt_k+1) / 2 g,    u_k = (p_k+1 - p_k - R_k alpha_k) / dt_k

so gravity is a mean, and with an unknown lever arm a small least-squares problem.
"""

import time
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from maci2.calibration_prior import UNKNOWN
from maci2.errors import MeasurementError
from maci2.estimator.camera_imu import (
    HUBER,
    OFFSET_STD_S,
    Solved,
    camera_motions,
    on_imu_clock,
    solve_motion,
    with_loss,
)
from maci2.estimator.factors import IMU, IMU_TAIL, Spans, places, vertical_factor
from maci2.estimator.measurements import integrate_spans, with_motion_only
from maci2.estimator.outliers import (
    choose_motions,
    inlier_poses,
    resolved,
    suspicious,
    with_choice,
    without,
)
from maci2.estimator.problem import (
    BIAS_ACC,
    BIAS_GYRO,
    CAMERA,
    CAMERA_CLOCK,
    SCALE,
    SHARED,
    STATE,
    Free,
    GaussianPrior,
    Loss,
    Problem,
    Shared,
    SolverConfig,
    States,
    shared_parameters,
)
from maci2.estimator.results import (
    Posterior,
    SolveReport,
    VIState,
    first_camera_guess,
    state_and_posterior,
)
from maci2.estimator.rotation_alignment import RotationAlignment, align_rotations
from maci2.estimator.solver import Covariance, Solution, SolverOptions, covariance, evaluated
from maci2.geometry.se3 import se3, se3_inv, se3_mul
from maci2.geometry.so3 import product, product_t
from maci2.imu import (
    BiasPrior,
    ImuMeasurements,
    Preintegrated,
    integrate_between,
    require_samples,
)
from maci2.jit import kernel
from maci2.types import Array, Mask, Stamps

if TYPE_CHECKING:
    from maci2.vision import RelativePoses

RELINEARIZE_ABOVE = 1e-7
"""Second-order error of the bias correction [rad] above which samples are integrated again: a
thousandth of a gyroscope's noise over a relative pose."""

ANY_SCALE = 1.0
"""Standard deviation of the prior of the logarithm of a scale of which nothing is stated."""

CLOCK_STD_S = 0.001
"""Prior of the time offset while extrinsics and scale are freed for their test [s]: the clocks are
then taken as stated, and the pull against this prior measures the offset."""

TEST_DECREMENT = 0.04
"""Decrease of the cost at which a solution ends that only tests stated constants: no unknown moves
by more than a fifth of a standard deviation."""


class SolvedWindow(NamedTuple):
    """Solution and the measurements it was computed from."""

    vision: "RelativePoses"
    """Relative poses that were used, on the IMU's clock."""

    all_poses: "RelativePoses"
    """The same with those that were rejected as outliers."""

    rotations: RotationAlignment
    state: VIState
    posterior: Posterior | None
    report: SolveReport
    solved: Solved

    @property
    def spans(self) -> Spans | None:
        """Samples integrated between the keyframes; None where those have been moved since."""
        solution = self.solved.solution
        is_moved = solution.problem.stamps_ns is not self.state.stamps_ns
        return None if is_moved else solution.measurements.spans

    def with_rejected(self, inliers: Mask, all_poses: "RelativePoses") -> "SolvedWindow":
        """The solution with the report of its outliers."""
        outliers = tuple(map(int, np.flatnonzero(~inliers)))
        report = replace(self.report, rejected=len(outliers), rejected_poses=outliers)
        return self._replace(report=report, all_poses=all_poses)


def solve_window(
    imu: ImuMeasurements, vision: "RelativePoses", T_b_c: Array, config: SolverConfig
) -> SolvedWindow:
    """Gravity, velocities, biases and poses of a window, before its verdict."""
    began = time.perf_counter()
    vision, offset_s = on_imu_clock(imu, vision, config)
    choice = choose_motions(imu, vision, T_b_c, config) if any(vision.motions) else None
    vision = choice.vision if choice else vision
    solved = _solve(imu, vision, T_b_c, config, offset_s)
    if config.robust and suspicious(solved.report):
        inliers = inlier_poses(imu, vision, T_b_c, config)
        again = _solve(imu, without(vision, inliers), T_b_c, config, offset_s)
        total = solved.report.solves + again.report.solves
        if resolved(solved.report, again.report, inliers, vision.measured):
            solved = again.with_rejected(inliers, vision)
        solved = solved._replace(report=replace(solved.report, solves=total))
    report = replace(solved.report, solve_ms=1e3 * (time.perf_counter() - began))
    return solved._replace(report=with_choice(report, choice) if choice else report)


def _solve(
    imu: ImuMeasurements,
    vision: "RelativePoses",
    T_b_c: Array,
    config: SolverConfig,
    offset_s: float,
) -> SolvedWindow:
    """Solution without the vertical of earlier samples where the window contradicts it."""
    solved = _solve_with(imu, vision, T_b_c, config, offset_s)
    if not solved.report.vertical_rejected:
        return solved
    alone = replace(config, tracked_vertical=False)
    again = _solve_with(imu, vision, T_b_c, alone, offset_s)
    report = replace(
        again.report,
        vertical_chi2=solved.report.vertical_chi2,
        solves=solved.report.solves + again.report.solves,
    )
    return again._replace(report=report)


def _solve_with(
    imu: ImuMeasurements,
    vision: "RelativePoses",
    T_b_c: Array,
    config: SolverConfig,
    offset_s: float,
) -> SolvedWindow:
    """Gyroscope bias from rotations, initial guess in closed form, joint solve (Eq. 9)."""
    prior, stamps_ns = imu.bias_prior, vision.stamps_ns
    require_samples(imu, stamps_ns)
    pre = integrate_between(imu, stamps_ns, prior.mean_gyro, prior.mean_acc, config.rule, True)
    rotations = align_rotations(pre, vision, T_b_c[:3, :3], prior, False)
    bias_gyro = rotations.bias_gyro if config.estimate_gyro_bias else prior.mean_gyro
    bias = np.empty((len(stamps_ns) - 1, 6))
    bias[:, :3], bias[:, 3:] = bias_gyro, prior.mean_acc
    spans = integrate_spans(imu, stamps_ns[:-1], stamps_ns[1:], bias, config.rule)

    Ts_c0_b, v_b, g_c0 = start_values(spans, vision, T_b_c, config.gravity_norm)
    states, shared = first_camera_guess(Ts_c0_b, v_b, g_c0, bias_gyro, prior.mean_acc, T_b_c)
    problem = window_problem(imu, vision, config, offset_s)
    options = SolverOptions(config.max_iterations, reintegrate_above=RELINEARIZE_ABOVE)
    before = with_motion_only(problem, spans)
    solved = solve_motion(problem, states, shared, offset_s, config.robust, options, before=before)
    return _result(imu, vision, rotations, solved)


def _result(
    imu: ImuMeasurements, vision: "RelativePoses", rotations: RotationAlignment, solved: Solved
) -> SolvedWindow:
    cov = window_covariance(solved)
    state, posterior = state_and_posterior(solved.solution, cov, imu, solved.stamps_ns)
    report = replace(solved.report(cov), vertical_chi2=_vertical_chi2(solved))
    vision = _at(vision, state.stamps_ns)
    return SolvedWindow(vision, vision, rotations, state, posterior, report, solved)


def _at(vision: "RelativePoses", stamps_ns: Stamps) -> "RelativePoses":
    return vision if vision.stamps_ns is stamps_ns else replace(vision, stamps_ns=stamps_ns)


def window_covariance(solved: Solved) -> Covariance | None:
    """Covariance of a window; None where some direction is not determined at all."""
    try:
        return covariance(solved.solution, exactly=False)
    except MeasurementError:
        return None


def window_problem(
    imu: ImuMeasurements,
    vision: "RelativePoses",
    config: SolverConfig,
    offset_s: float = 0.0,
    T_b_c: Array | None = None,
) -> Problem:
    """The joint problem of a window (Eq. 9), in the frame of the first camera.

    With `T_b_c` the constants of the rig are free, too: extrinsics, which begin there, the scale of
    vision and the time offset.
    """
    clock_std_s = CLOCK_STD_S if T_b_c is not None else OFFSET_STD_S
    free = Free(
        gravity=True,
        gravity_norm=not config.gravity_on_sphere,
        camera=T_b_c is not None,
        scale=T_b_c is not None or vision.std_scale > 0.0,
        camera_clock=T_b_c is not None or config.estimate_time_offset,
        bias_gyro=config.estimate_gyro_bias,
        bias_acc=config.estimate_acc_bias,
    )
    prior, info = imu.bias_prior, np.zeros(STATE + SHARED)
    if free.bias_gyro:
        info[BIAS_GYRO] = prior.info_gyro
    if free.bias_acc:
        info[BIAS_ACC] = prior.info_acc
    shared = info[STATE:]
    if free.scale:
        shared[SCALE] = (vision.std_scale or ANY_SCALE) ** -2.0
    if free.camera_clock:
        shared[CAMERA_CLOCK] = clock_std_s**-2.0
    if T_b_c is not None:
        # A rotation about which nothing is known lies within half a turn.
        shared[CAMERA] = np.repeat([UNKNOWN.lever_m, np.pi], 3) ** -2.0
    mean = shared_parameters(
        T_b_c=None if T_b_c is None else se3(np.ascontiguousarray(T_b_c[:3, :3]), np.zeros(3)),
        gravity_norm=config.gravity_norm,
        camera_clock_s=-offset_s,
    )
    biases = States(np.eye(4)[None], np.zeros((1, 3)), prior.mean_gyro[None], prior.mean_acc[None])
    stamps_ns = vision.stamps_ns
    return Problem(
        imu,
        stamps_ns,
        free=free,
        camera=camera_motions(vision, all_of_them=True),
        vertical=imu.vertical_at(int(stamps_ns[0])) if config.tracked_vertical else None,
        priors=(GaussianPrior(0, biases, mean, np.diag(info)),),
        first_pose_fixed=True,
        rule=config.rule,
        imu_weights=(
            "identity" if config.imu_identity else "full" if config.imu_cross_terms else "blocks"
        ),
        longest_span_s=np.inf,
    )


def window_at(
    imu: ImuMeasurements,
    vision: "RelativePoses",
    state: VIState,
    config: SolverConfig,
    inflation: float,
    scale: float | None = None,
) -> Solution:
    """A window's problem at a known state, for its covariance and residuals. Without `scale` vision
    is taken as metric."""
    vision = _at(vision, state.stamps_ns)
    if scale is None and vision.std_scale > 0.0:
        vision = replace(vision, std_scale=0.0)
    states, shared = _guess_at(state)
    shared.scalars[SCALE] = np.log(scale or 1.0)
    problem = replace(window_problem(imu, vision, config), inflation=inflation)
    loss = HUBER if config.robust else Loss()
    return evaluated(with_loss(problem, loss), states, shared)


def _guess_at(state: VIState) -> tuple[States, Shared]:
    return first_camera_guess(
        state.Ts_c0_b,
        state.velocity_b,
        state.gravity_c0,
        state.gyro_bias_residual,
        state.acc_bias_residual,
        state.T_b_c,
    )


def solve_with_free_constants(
    imu: ImuMeasurements,
    vision: "RelativePoses",
    state: VIState,
    config: SolverConfig,
    spans: Spans | None = None,
) -> tuple[VIState, Posterior | None, SolveReport]:
    """A window solved again with extrinsics, scale and clock free, from a solution that took them
    as stated; `spans` are the samples integrated between its keyframes, where they are at hand.

    Squares, for robust losses would take the scale's error for outliers, and more steps, for what a
    window hardly shows lies at the end of a long valley.
    """
    states, shared = _guess_at(state)
    problem = window_problem(imu, _at(vision, state.stamps_ns), config, T_b_c=state.T_b_c)
    options = SolverOptions(
        4 * config.max_iterations, decrement=TEST_DECREMENT, reintegrate_above=RELINEARIZE_ABOVE
    )
    # Clocks are nearly as stated, and samples may end with the keyframes.
    before = None if spans is None else with_motion_only(problem, spans)
    solved = solve_motion(problem, states, shared, 0.0, False, options, np.inf, before)
    cov = window_covariance(solved)
    found, posterior = state_and_posterior(solved.solution, cov, imu, solved.stamps_ns)
    return found, posterior, solved.report(cov)


def _vertical_chi2(solved: Solved) -> float | None:
    """Squared distance of the vertical of earlier samples from what all else measures, with the
    noise as stated; None where there is none.

    With the derivative J of its whitened residual r and the posterior P, which has used it, r is
    spread as I - J P J' is. Where the others alone are noisier than stated, their part of the
    distance is.
    """
    solution = solved.first
    prior, s, b = solution.problem.vertical, solution.problem.state_size, solution.border
    if prior is None or not solution.converged:
        return None
    cov = covariance(solution)
    rows, place = np.zeros((3, s + IMU_TAIL)), places(solution.columns, IMU)
    vertical_factor(prior, solution.unknowns, rows)
    r, J = rows[:2, s], np.zeros((2, s + b))
    J[:, :s], J[:, s + place[1]] = rows[:2, :s], rows[:2, s + place[0]]
    spread = np.eye(2) - J @ cov.joints(np.zeros(1, dtype=np.int64), False)[0] @ J.T
    squared = float(r @ np.linalg.solve(spread, r))
    return squared / max(1.0, (solution.cost - squared) / max(solution.dof - 2, 1))


@kernel
def chained_poses(Ts_ck_ck1: Array) -> Array:
    """(n, 4, 4) camera poses T_c0_ck from the n - 1 relative poses."""
    n = len(Ts_ck_ck1) + 1
    Ts_c0_c = np.empty((n, 4, 4))
    T_c0_ck = np.eye(4)
    for k in range(n):
        for i in range(4):
            for j in range(4):
                Ts_c0_c[k, i, j] = T_c0_ck[i, j]
        if k < n - 1:
            T_c0_ck = se3_mul(T_c0_ck, Ts_ck_ck1[k])
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
    dt: Array,
    gamma: Array,
    beta: Array,
    alpha: Array,
    Ts_ck_ck1: Array,
    T_b_c: Array,
    gravity_norm: float,
) -> tuple[Array, Array, Array]:
    steps = Ts_ck_ck1.copy()
    for k in range(len(steps)):
        R_ck_ck1 = product_t(T_b_c, product(gamma[k], T_b_c))
        for i in range(3):
            for j in range(3):
                steps[k, i, j] = R_ck_ck1[i, j]
    Ts_c0_b, T_c_b = chained_poses(steps), se3_inv(T_b_c)
    for k in range(len(Ts_c0_b)):
        T_c0_bk = se3_mul(Ts_c0_b[k], T_c_b)
        for i in range(4):
            for j in range(4):
                Ts_c0_b[k, i, j] = T_c0_bk[i, j]
    v_b, g_c0 = _velocities_and_gravity(dt, beta, alpha, Ts_c0_b, gravity_norm)
    return Ts_c0_b, v_b, g_c0


@kernel
def _velocities_and_gravity(
    dt: Array, beta: Array, alpha: Array, Ts_c0_b: Array, gravity_norm: float
) -> tuple[Array, Array]:
    """Velocities (n, 3), each in its body, and gravity in c0, given poses."""
    m = len(dt)
    u, turned_beta = np.empty((m, 3)), np.empty((m, 3))
    g = np.zeros(3)
    for k in range(m):
        for i in range(3):
            R = Ts_c0_b[k, i]
            turned_alpha = R[0] * alpha[k, 0] + R[1] * alpha[k, 1] + R[2] * alpha[k, 2]
            turned_beta[k, i] = R[0] * beta[k, 0] + R[1] * beta[k, 1] + R[2] * beta[k, 2]
            u[k, i] = (Ts_c0_b[k + 1, i, 3] - Ts_c0_b[k, i, 3] - turned_alpha) / dt[k]
            if k > 0:
                g[i] += u[k, i] - u[k - 1, i] - turned_beta[k - 1, i]
    scale = gravity_norm / np.sqrt(g[0] * g[0] + g[1] * g[1] + g[2] * g[2])
    for i in range(3):
        g[i] *= scale
    v_b = np.zeros((m + 1, 3))
    for k in range(m + 1):
        for i in range(3):
            if k < m:
                v_c0 = u[k, i] - 0.5 * dt[k] * g[i]
            else:
                # No position row follows the last keyframe; the velocity row before it does.
                v_c0 = u[m - 1, i] + 0.5 * dt[m - 1] * g[i] + turned_beta[m - 1, i]
            for j in range(3):
                v_b[k, j] += Ts_c0_b[k, i, j] * v_c0
    return v_b, g


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
