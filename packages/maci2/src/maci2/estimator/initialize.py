"""Initialization from a short window (the paper's Fig. 4, both workflows), before its verdict:
rotations and gyroscope bias (Eq. 8), closed form, joint optimization (Eq. 9), outliers.

Initialization and calibration are one problem with different free parameters, solved by
`solve_motion`. An assumption that the solution shows not to hold is replaced, and the solution goes
on from where it was:

    clock of the camera moved       keyframes are moved to their new instants
    a relative pose is an outlier   robust losses, which come after squares where scale or clock are
                                    free: an error of these makes every pose look like an outlier
    chi-square too large            measurements are noisier than stated and are weighed down;
                                    priors, which nothing has contradicted, keep their weight
"""

import time
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from maci2.calibration_prior import UNKNOWN
from maci2.errors import MeasurementError
from maci2.estimator.factors import IMU, IMU_TAIL, places, vertical_factor
from maci2.estimator.initial_guess import (
    LARGEST_OFFSET_S,
    OFFSET_STD_S,
    RotationAlignment,
    align_rotations,
    on_imu_clock,
    start_values,
)
from maci2.estimator.measurements import Measurements, Spans, integrate_spans, with_motion_only
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
    CameraMotions,
    Free,
    GaussianPrior,
    Indices,
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
from maci2.estimator.solver import (
    Covariance,
    Solution,
    SolverOptions,
    camera_squares,
    covariance,
    solve,
)
from maci2.geometry.gaussian import chi2_quantile
from maci2.geometry.se3 import se3
from maci2.imu import BiasPrior, ImuMeasurements, integrate_between, require_samples
from maci2.types import NS, Array, Mask, Stamps

if TYPE_CHECKING:
    from maci2.vision import RelativePoses

VISUAL_LIMIT = chi2_quantile(6, 0.999) ** 0.5
"""Root of the 99.9 % quantile of chi-square with 6 degrees of freedom: a visual residual beyond it
is more likely an outlier than noise."""

HUBER = Loss("huber", VISUAL_LIMIT)

CHI2_LEVEL = 0.999
"""Quantile of chi-square above which the stated noise is too small."""

SETTLED = 1.05
"""Chi-square per degree of freedom below which weights are no longer changed."""

MAX_ROUNDS = 16
"""Largest number of changed assumptions."""

REANCHOR_ABOVE_S = 3e-4
"""Change of the time offset [s] after which keyframes are moved to their new times: up to here,
constant rate and force extrapolate to a microradian. A change within the offset's standard
deviation moves none: where the motion hardly determines an offset, other samples give another one,
and keyframes would follow their noise without end."""

RELINEARIZE_ABOVE = 1e-7
"""Second-order error of the bias correction [rad] above which samples are integrated again: a
thousandth of a gyroscope's noise over a relative pose."""

ANY_SCALE = 1.0
"""Standard deviation of the prior of the logarithm of a scale of which nothing is stated."""

CLOCK_STD_S = 0.001
"""Prior of the time offset while extrinsics and scale are freed for their test [s]: the clocks are
then taken as stated, and the pull against this prior measures the offset."""


class Solved(NamedTuple):
    """A solved motion."""

    solution: Solution
    offset_s: float
    """Time on the IMU's clock less time on the camera's, as far as states have been moved by it
    [s]; the clock of the solution is the rest."""

    first: Solution
    """The solution with the noise as stated."""

    iterations: int
    solves: int
    inflation: float

    @property
    def stamps_ns(self) -> Stamps:
        """(n,) keyframes on the IMU's clock."""
        rest_s = float(self.solution.shared.scalars[CAMERA_CLOCK])
        stamps_ns = self.solution.problem.stamps_ns
        return stamps_ns if rest_s == 0.0 else stamps_ns + round(rest_s * NS)

    def answer(
        self, imu: ImuMeasurements, exactly: bool = False
    ) -> tuple[VIState, Posterior | None, SolveReport]:
        """State, its covariance and the outcome of the optimization, with scale and time offset
        where they were free; `exactly` as in `covariance`."""
        solution, free = self.solution, self.solution.problem.free
        posterior = determined_covariance(solution, exactly)
        scalars = solution.shared.scalars
        scale, std_scale, std_offset_s = float(np.exp(scalars[SCALE])), np.nan, np.nan
        if posterior is not None and (free.scale or free.camera_clock):
            cov = posterior.of(slice(SCALE, CAMERA_CLOCK + 1))
            std_scale, std_offset_s = scale * float(cov[0, 0] ** 0.5), float(cov[1, 1] ** 0.5)
        offset_s = self.offset_s + float(scalars[CAMERA_CLOCK])
        report = SolveReport(
            solution.converged,
            self.first.cost,
            solution.dof,
            self.iterations,
            0.0,
            self.inflation,
            scale=scale if free.scale else None,
            std_scale=std_scale if free.scale else None,
            time_offset_s=offset_s if free.camera_clock else None,
            std_time_offset_s=std_offset_s if free.camera_clock else None,
            solves=self.solves,
        )
        return *state_and_posterior(solution, posterior, imu, self.stamps_ns), report


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
    vision, offset_s = on_imu_clock(imu, vision, config, T_b_c[:3, :3])
    choice = choose_motions(imu, vision, T_b_c, config)
    solved = _solve(imu, choice.vision, T_b_c, config, offset_s)
    if config.robust and suspicious(solved.report):
        solved = _without_outliers(imu, choice.vision, T_b_c, config, offset_s, solved)
    report = replace(solved.report, solve_ms=1e3 * (time.perf_counter() - began))
    return solved._replace(
        report=report if choice.vision is vision else with_choice(report, choice)
    )


def _solve(
    imu: ImuMeasurements,
    vision: "RelativePoses",
    T_b_c: Array,
    config: SolverConfig,
    offset_s: float,
) -> SolvedWindow:
    """Gyroscope bias from rotations, initial guess in closed form, joint solve (Eq. 9), without the
    vertical of earlier samples where the window contradicts it."""
    prior, stamps_ns = imu.bias_prior, vision.stamps_ns
    require_samples(imu, stamps_ns)
    pre = integrate_between(imu, stamps_ns, prior.mean_gyro, prior.mean_acc, config.rule, True)
    rotations = align_rotations(pre, vision, T_b_c[:3, :3], prior, False)
    bias_gyro = rotations.bias_gyro if config.estimate_gyro_bias else prior.mean_gyro
    bias = np.empty((len(stamps_ns) - 1, 6))
    bias[:, :3], bias[:, 3:] = bias_gyro, prior.mean_acc
    spans = integrate_spans(imu, stamps_ns[:-1], stamps_ns[1:], bias, config.rule)

    Ts_c0_b, v_b, g_c0 = start_values(spans, vision, T_b_c, config.gravity_norm)
    guess = first_camera_guess(Ts_c0_b, v_b, g_c0, bias_gyro, prior.mean_acc, T_b_c)
    problem = window_problem(imu, vision, config, offset_s)
    options = SolverOptions(config.max_iterations, reintegrate_above=RELINEARIZE_ABOVE)
    before = with_motion_only(problem, spans)
    solved = solve_motion(problem, *guess, offset_s, config.robust, options, before=before)

    state, posterior, report = solved.answer(imu)
    report = replace(report, vertical_chi2=_vertical_chi2(solved))
    if report.vertical_rejected:
        alone = _solve(imu, vision, T_b_c, replace(config, tracked_vertical=False), offset_s)
        total = report.solves + alone.report.solves
        report = replace(alone.report, vertical_chi2=report.vertical_chi2, solves=total)
        return alone._replace(report=report)
    vision = _at(vision, state.stamps_ns)
    return SolvedWindow(vision, vision, rotations, state, posterior, report, solved)


def _without_outliers(
    imu: ImuMeasurements,
    vision: "RelativePoses",
    T_b_c: Array,
    config: SolverConfig,
    offset_s: float,
    solved: SolvedWindow,
) -> SolvedWindow:
    """The window solved again without relative poses that contradict the IMU, where there are some
    and that explains the misfit."""
    inliers = inlier_poses(imu, vision, T_b_c, config)
    if inliers.all():
        return solved
    again = _solve(imu, without(vision, inliers), T_b_c, config, offset_s)
    total = solved.report.solves + again.report.solves
    if resolved(solved.report, again.report, inliers, vision.measured):
        solved = again.with_rejected(inliers, vision)
    return solved._replace(report=replace(solved.report, solves=total))


def _at(vision: "RelativePoses", stamps_ns: Stamps) -> "RelativePoses":
    return vision if vision.stamps_ns is stamps_ns else replace(vision, stamps_ns=stamps_ns)


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
    std, T_b_c0 = np.zeros(SHARED), None
    std[SCALE], std[CAMERA_CLOCK] = vision.std_scale, OFFSET_STD_S * config.estimate_time_offset
    if T_b_c is not None:
        # A rotation about which nothing is known lies within half a turn.
        std[CAMERA] = np.repeat([UNKNOWN.lever_m, np.pi], 3)
        std[SCALE], std[CAMERA_CLOCK] = vision.std_scale or ANY_SCALE, CLOCK_STD_S
        T_b_c0 = se3(np.ascontiguousarray(T_b_c[:3, :3]), np.zeros(3))
    nominal = shared_parameters(
        T_b_c=T_b_c0, gravity_norm=config.gravity_norm, camera_clock_s=-offset_s
    )
    free = Free(
        gravity=True,
        gravity_norm=not config.gravity_on_sphere,
        bias_gyro=config.estimate_gyro_bias,
        bias_acc=config.estimate_acc_bias,
    )
    free, prior = free_with_prior(imu.bias_prior, nominal, std, free)
    first_ns = int(vision.stamps_ns[0])
    return Problem(
        imu,
        vision.stamps_ns,
        free=free,
        camera=(camera_motions(vision, np.arange(len(vision) - 1)),),
        vertical=imu.vertical_at(first_ns) if config.tracked_vertical else None,
        priors=(prior,),
        first_pose_fixed=True,
        rule=config.rule,
        imu_weights=(
            "identity" if config.imu_identity else "full" if config.imu_cross_terms else "blocks"
        ),
        longest_span_s=np.inf,
    )


def free_with_prior(
    biases: BiasPrior, nominal: Shared, std: Array, free: Free = Free()
) -> tuple[Free, GaussianPrior]:
    """Constants of a camera that are free, and the prior of them and of the first biases.

    `std` (24,) are standard deviations of the shared parameters about the nominal ones: zero takes
    one as known, infinity says that nothing is.
    """
    is_free, info = (std > 0.0).tolist(), np.zeros(STATE + SHARED)
    info[BIAS_GYRO], info[BIAS_ACC] = biases.std_gyro**-2.0, biases.std_acc**-2.0
    if any(is_free):
        camera, scale, clock = any(is_free[CAMERA]), is_free[SCALE], is_free[CAMERA_CLOCK]
        free = replace(free, camera=camera, scale=scale, camera_clock=clock)
        info[STATE:][is_free] = std[is_free] ** -2.0
    mean_gyro, mean_acc = biases.mean_gyro[None], biases.mean_acc[None]
    state = States(np.eye(4)[None], np.zeros((1, 3)), mean_gyro, mean_acc)
    return free, GaussianPrior(0, state, nominal, np.diag(info))


def camera_motions(vision: "RelativePoses", used: Indices, loss: Loss = Loss()) -> CameraMotions:
    """Some relative poses as motions over two keyframes each. Those that were not measured have the
    covariance of any motion."""
    covs = vision.covs_T_ck_ck1[used]
    return CameraMotions(used, vision.Ts_ck_ck1[used], covs, loss, checked=True)


def solve_motion(
    problem: Problem,
    states: States,
    shared: Shared,
    offset_s: float,
    robust: bool,
    options: SolverOptions,
    reanchor_above_s: float = REANCHOR_ABOVE_S,
    before: Measurements | None = None,
) -> Solved:
    """Minimize from an initial guess, with keyframes that `offset_s` has been added to already;
    see the table above. Losses of the problem's motions are chosen here."""
    squares_first = problem.free.scale or problem.free.camera_clock
    problem = with_loss(problem, HUBER if robust and not squares_first else Loss())
    iterations, solves, first = 0, 0, None
    for _ in range(MAX_ROUNDS):
        solution = solve(problem, states, shared, options, before)
        iterations, solves = iterations + solution.iterations, solves + solution.solves
        states, shared, before = solution.states, solution.shared, None
        clock_s, cost = float(shared.scalars[CAMERA_CLOCK]), solution.cost
        outside = abs(offset_s + clock_s) > LARGEST_OFFSET_S
        if outside or not solution.converged or not np.isfinite(cost):
            solution = replace(solution, converged=solution.converged and not outside)
            break
        if abs(clock_s) > reanchor_above_s and _has_moved(solution, clock_s):
            problem, shared = _on_moved_clock(problem, shared, clock_s)
            offset_s += clock_s
            continue
        before = solution.measurements
        if robust and problem.camera[0].loss.kind == "none":
            squares = camera_squares(before, solution.unknowns)
            # Where no pose is farther off than noise, robust losses have the optimum of squares.
            if squares.max(initial=0.0) > VISUAL_LIMIT**2:
                problem = with_loss(problem, HUBER)
                continue
        inflation, dof = problem.inflation, solution.dof
        first = first or solution
        if cost <= (_largest_chi2(dof) if inflation == 1.0 else SETTLED * dof):
            break
        problem, before = replace(problem, inflation=inflation * cost / dof), None
    return Solved(solution, offset_s, first or solution, iterations, solves, problem.inflation)


def with_loss(problem: Problem, loss: Loss) -> Problem:
    """The problem with another loss of the camera's motions."""
    if problem.camera[0].loss == loss:
        return problem
    return replace(problem, camera=tuple(replace(stack, loss=loss) for stack in problem.camera))


def determined_covariance(solution: Solution, exactly: bool = True) -> Covariance | None:
    """Covariances, `exactly` as in `covariance`; None where some direction is not determined."""
    try:
        return covariance(solution, exactly)
    except MeasurementError:
        return None


def _has_moved(solution: Solution, clock_s: float) -> bool:
    """Whether the clock has moved by more than its standard deviation."""
    cov = determined_covariance(solution, exactly=False)
    return cov is None or clock_s**2 > float(cov.shared[CAMERA_CLOCK, CAMERA_CLOCK])


@lru_cache(maxsize=64)
def _largest_chi2(dof: int) -> float:
    return chi2_quantile(dof, CHI2_LEVEL)


def _on_moved_clock(problem: Problem, shared: Shared, clock_s: float) -> tuple[Problem, Shared]:
    """States at later instants; the clock and its priors count from there."""
    stamps_ns = problem.stamps_ns + round(clock_s * NS)
    vertical = problem.vertical and problem.imu.vertical_at(int(stamps_ns[0]))
    priors = tuple(
        replace(prior, shared=_earlier(prior.shared, clock_s)) for prior in problem.priors
    )
    problem = replace(problem, stamps_ns=stamps_ns, vertical=vertical, priors=priors)
    return problem, _earlier(shared, clock_s)


def _earlier(shared: Shared, clock_s: float) -> Shared:
    scalars = shared.scalars.copy()
    scalars[CAMERA_CLOCK] -= clock_s
    return shared._replace(scalars=scalars)


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
