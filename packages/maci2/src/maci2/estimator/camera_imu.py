"""Solution of a camera's and an IMU's motion, on one clock and with noise that explains it.

Initialization and calibration are this problem with different free parameters. An assumption that
the solution shows not to hold is replaced, and the solution goes on from where it was:

    clock of the camera moved       keyframes are moved to their new instants
    a relative pose is an outlier   robust losses, which come after squares where scale or clock are
                                    free: an error of these makes every pose look like an outlier
    chi-square too large            measurements are noisier than stated and are weighed down;
                                    priors, which nothing has contradicted, keep their weight
"""

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from maci2.calibration_prior import UNKNOWN
from maci2.errors import MeasurementError
from maci2.estimator.measurements import Measurements
from maci2.estimator.problem import (
    CAMERA_CLOCK,
    SCALE,
    CameraMotions,
    Loss,
    Problem,
    Shared,
    SolverConfig,
    States,
)
from maci2.estimator.results import SolveReport
from maci2.estimator.solver import (
    Covariance,
    Solution,
    SolverOptions,
    camera_squares,
    solve,
)
from maci2.geometry.gaussian import chi2_quantile
from maci2.geometry.so3 import so3_log
from maci2.imu import ImuMeasurements, Rule, preintegrate
from maci2.types import NS, Array, Stamps

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

LARGEST_OFFSET_S = 0.1
"""Largest time offset to either side [s]; samples must reach that far beyond the keyframes."""

OFFSET_STD_S = UNKNOWN.camera_clock_s
"""Standard deviation of the prior of a time offset that is estimated [s]."""

REANCHOR_ABOVE_S = 3e-4
"""Change of the time offset [s] after which keyframes are moved to their new times: up to here,
constant rate and force extrapolate to a microradian."""

GRID_S = 0.004


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

    def report(self, covariance: Covariance | None) -> SolveReport:
        """Outcome of the optimization, with scale and time offset where they were free."""
        solution, free = self.solution, self.solution.problem.free
        scalars = solution.shared.scalars
        scale = float(np.exp(scalars[SCALE]))
        offset_s = self.offset_s + float(scalars[CAMERA_CLOCK])
        std_scale = std_offset_s = float("nan")
        if covariance is not None and (free.scale or free.camera_clock):
            cov = covariance.of(slice(SCALE, CAMERA_CLOCK + 1))
            std_scale, std_offset_s = scale * float(cov[0, 0] ** 0.5), float(cov[1, 1] ** 0.5)
        return SolveReport(
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
        if abs(clock_s) > reanchor_above_s:
            problem, shared = _on_moved_clock(problem, shared, clock_s)
            offset_s += clock_s
            continue
        before = solution.measurements
        if robust and problem.camera[0].loss.kind == "none" and _has_outliers(solution):
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


def _has_outliers(solution: Solution) -> bool:
    """Whether some relative pose is farther off than noise explains. Where none is, the optimum of
    squares is that of robust losses, too."""
    squares = camera_squares(solution.measurements, solution.unknowns)
    return bool(squares.max(initial=0.0) > VISUAL_LIMIT**2)


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


def camera_motions(vision: "RelativePoses", all_of_them: bool) -> tuple[CameraMotions, ...]:
    """Relative poses as motions over two keyframes each; those that were not measured, whose
    covariance is that of any motion, only with `all_of_them`."""
    if all_of_them:
        index = np.arange(len(vision) - 1)
        return (CameraMotions(index, vision.Ts_ck_ck1, vision.covs_T_ck_ck1, checked=True),)
    index = np.flatnonzero(vision.measured)
    Ts_ck_ck1, covs = vision.Ts_ck_ck1[index], vision.covs_T_ck_ck1[index]
    return (CameraMotions(index, Ts_ck_ck1, covs, checked=True),)


def shifted(vision: "RelativePoses", offset_s: float) -> "RelativePoses":
    """The same motion, delayed on the IMU's clock by an offset: t_imu = t_camera + offset, as in
    Kalibr."""
    return replace(vision, stamps_ns=vision.stamps_ns + round(offset_s * 1e9))


def on_imu_clock(
    imu: ImuMeasurements, vision: "RelativePoses", config: SolverConfig
) -> tuple["RelativePoses", float]:
    """Vision shifted by a first estimate of the time offset, and that estimate; unchanged if the
    offset is not to be estimated."""
    if not config.estimate_time_offset:
        return vision, 0.0
    vision = _with_margin(imu, vision)
    offset_s = coarse_time_offset(imu, vision, config.rule)
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


def coarse_time_offset(imu: ImuMeasurements, vision: "RelativePoses", rule: Rule) -> float:
    """Offset at which rotation angles agree best [s]; angles do not depend on the extrinsics.

    A gyroscope bias changes angles a little; its part along the rotation is fitted as one number.
    """
    turned_c = np.array(
        [np.linalg.norm(so3_log(np.ascontiguousarray(T[:3, :3]))) for T in vision.Ts_ck_ck1]
    )
    measured = vision.measured
    if not measured.any():
        return 0.0
    prior = imu.bias_prior
    offsets = np.arange(-LARGEST_OFFSET_S, LARGEST_OFFSET_S + GRID_S / 2.0, GRID_S)
    misfits = []
    for offset_s in offsets:
        stamps_ns = shifted(vision, float(offset_s)).stamps_ns
        pre = preintegrate(imu, stamps_ns, prior.mean_gyro, prior.mean_acc, rule)
        turned_b = np.array([np.linalg.norm(so3_log(gamma)) for gamma in pre.gamma])
        misfits.append(_misfit((turned_b - turned_c)[measured], pre.dt[measured]))
    best = int(np.argmin(misfits))
    return float(offsets[best] + GRID_S * _lowest(np.array(misfits[best - 1 : best + 2])))


def _lowest(misfits: Array) -> float:
    """Place of the minimum of the parabola through values at -1, 0 and 1, the least of which is
    that at 0; 0 at an end of the grid."""
    if len(misfits) < 3:
        return 0.0
    curvature = misfits[0] + misfits[2] - 2.0 * misfits[1]
    return float(0.5 * (misfits[0] - misfits[2]) / curvature) if curvature > 0.0 else 0.0


def _misfit(difference: Array, dt: Array) -> float:
    rate = difference @ dt / (dt @ dt)
    return float(np.sum((difference - rate * dt) ** 2))


def scaled(vision: "RelativePoses", scale: float) -> "RelativePoses":
    """The same motion scaled together with its noise; a shorter motion with the same noise would
    always fit better."""
    Ts_ck_ck1, covs = vision.Ts_ck_ck1.copy(), vision.covs_T_ck_ck1.copy()
    Ts_ck_ck1[:, :3, 3] *= scale
    covs[:, :3, :] *= scale
    covs[:, :, :3] *= scale
    return replace(vision, Ts_ck_ck1=Ts_ck_ck1, covs_T_ck_ck1=covs)
