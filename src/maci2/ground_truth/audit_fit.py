"""Solving an audit's chain: noise levels, errors that last, rows that jump."""

from dataclasses import dataclass, replace

import numpy as np

from maci2.estimator.problem import Problem
from maci2.estimator.residuals import Residuals, ResidualsByKind, solve_with_noise
from maci2.estimator.solver import Covariance, Solution, covariance, solve
from maci2.ground_truth.accelerations import AccelerationFit
from maci2.ground_truth.audit_problem import (
    FIRST_STD_P,
    FIRST_STD_R,
    AuditProblem,
)
from maci2.imu import ImuMeasurements

LONGEST_ERROR_S = 5.0
"""Errors that last longer count as constants or as motion."""

FEWEST_BLOCKS = 8
CHANCE = 4.0
"""Standard deviations of a block's variance that chance explains."""

MOST_IMU_FACTOR = 100.0

NEAR = 1.1
"""Factors of the IMU's variances this near to one leave them as they are."""

GYRO, ACC_BY_AXIS = [0, 1, 2], ([3, 6], [4, 7], [5, 8])
"""Rows of an IMU residual that show the noise of the gyroscope, and of each accelerometer axis:
each row is whitened given those before it."""

ROUNDS = 8
"""Noise levels are settled after fewer; later rounds move them by a percent."""


@dataclass(frozen=True)
class NoiseLevel:
    """How far a kind of measurement scatters."""

    std: float
    """Standard deviation of one row and one axis [m] or [rad]."""

    lasting_rows: float
    """Rows over which an error lasts: 1 for white noise. Variances were scaled by it, so that
    posterior covariances count independent errors only."""


@dataclass(frozen=True)
class ImuFactors:
    """Variance of the IMU's errors over what was expected of them, by data sheet and vibration; by
    the data sheet alone for the gyroscope beside a smoothed truth."""

    gyro: float
    acc: tuple[float, float, float]
    """Each axis."""

    @property
    def differ(self) -> bool:
        """Somewhere they are far from one."""
        return bool(np.abs(np.log([self.gyro, *self.acc])).max() > np.log(NEAR))

    def scaled(self, imu: ImuMeasurements) -> ImuMeasurements:
        """The measurements with their variances times the factors."""
        return replace(
            imu, var_gyro=self.gyro * imu.var_gyro, var_acc=np.array(self.acc) * imu.var_acc
        )


@dataclass(frozen=True)
class AuditFit:
    """The solved chain and what its residuals say."""

    problem: Problem
    solution: Solution
    posterior: Covariance
    residuals: ResidualsByKind
    """Residuals with the noise found, errors that last not yet scaled."""

    position: NoiseLevel
    orientation: NoiseLevel | None
    imu_factors: ImuFactors
    accelerations: AccelerationFit | None


def fit_audit(start: AuditProblem) -> AuditFit:
    """Noise levels first; then the final solution with errors weighed by how long they last."""
    problem = start.problem
    first = solve_with_noise(
        problem, start.states, start.shared, max_rounds=ROUNDS, least_factor=start.least_factor
    )
    noise = (first.position_factor, first.orientation_factor)
    imu_factors = _imu_factors(first.residuals.imu, start)
    if imu_factors.differ:
        # The IMU is noisier or better than expected: ask for the capture's noise again.
        first = solve_with_noise(
            replace(first.problem, imu=imu_factors.scaled(first.problem.imu)),
            first.solution.states,
            first.solution.shared,
            max_rounds=ROUNDS,
            least_factor=start.least_factor / min(noise),
        )
        noise = (noise[0] * first.position_factor, noise[1] * first.orientation_factor)
    lasting_p = lasting_rows(first.residuals.positions, _rate(first.problem.positions))
    lasting_r = lasting_rows(first.residuals.orientations, _rate(first.problem.orientations))
    problem = _weighed_down(first.problem, lasting_p, lasting_r)
    solution = solve(problem, first.solution.states, first.solution.shared)
    orientation = None
    if problem.orientations is not None:
        orientation = NoiseLevel(FIRST_STD_R * np.sqrt(noise[1]), lasting_r)
    return AuditFit(
        problem,
        solution,
        covariance(solution),
        first.residuals,
        NoiseLevel(FIRST_STD_P * np.sqrt(noise[0]), lasting_p),
        orientation,
        imu_factors,
        start.accelerations,
    )


def _imu_factors(residuals: Residuals, start: AuditProblem) -> ImuFactors:
    """What the residuals show, apart or of all together."""
    if not start.sensors_apart:
        factor = float(np.clip(residuals.variance_factor, 1.0, MOST_IMU_FACTOR))
        return ImuFactors(factor, (factor, factor, factor))
    shown = [residuals.variance_factor_of(rows) for rows in (GYRO, *ACC_BY_AXIS)]
    known = np.where(np.isfinite(shown), shown, 1.0)
    gyro, x, y, z = np.clip(known, start.least_imu_factors, MOST_IMU_FACTOR).tolist()
    return ImuFactors(gyro, (x, y, z))


def _rate(measured: object) -> float:
    stamps_ns = getattr(measured, "stamps_ns", None)
    return 1.0 if stamps_ns is None else 1e9 / float(np.median(np.diff(stamps_ns)))


def _weighed_down(problem: Problem, by_p: float, by_r: float) -> Problem:
    p, r = problem.positions, problem.orientations
    return replace(
        problem,
        positions=None if p is None else replace(p, covs=by_p * p.covs),
        orientations=None if r is None else replace(r, covs=by_r * r.covs),
    )


def lasting_rows(residuals: Residuals, rate_hz: float) -> float:
    """Over how many rows an error lasts: variance of means of blocks against that of white noise.

    The largest over blocks of up to `LONGEST_ERROR_S`; 1 where chance explains it.
    """
    if not len(residuals.white):
        return 1.0
    white = np.where(residuals.outliers[:, None], 0.0, residuals.white)
    white = white - white.mean(axis=0)
    variance = float(np.mean(white**2))
    longest, length = 1.0, 2
    while length <= LONGEST_ERROR_S * rate_hz and len(white) // length >= FEWEST_BLOCKS:
        count = len(white) // length
        means = white[: count * length].reshape(count, length, -1).mean(axis=1)
        ratio = length * float(np.mean(means**2)) / max(variance, 1e-300)
        chance = CHANCE * np.sqrt(2.0 / (3.0 * count))
        longest = max(longest, ratio if ratio > 1.0 + chance else 1.0)
        length *= 2
    return longest
