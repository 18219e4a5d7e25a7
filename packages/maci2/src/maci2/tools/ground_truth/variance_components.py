"""Noise of a capture's measurements, estimated from their residuals: variance components.

A residual is smaller than its noise, since the estimate follows the noise. Sum of squares over
redundancy (`whitened_factors`) is the factor on the variance: maximum likelihood with this
correction, iterated.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from maci2.estimator.factors import CAMERA, IMU, ORIENTATIONS, POSITIONS
from maci2.estimator.problem import MarkerMeasurements, Problem, Shared, States
from maci2.estimator.residuals import whitened_factors
from maci2.estimator.solver import Covariance, Solution, SolverOptions, covariance, solve
from maci2.geometry.gaussian import chi2_quantile
from maci2.types import Array, Mask

OUTLIER_LEVEL = 0.999
"""Residuals beyond this quantile of chi-square are not used to measure the noise."""

SETTLED = 0.01
"""Relative change of a variance below which noise levels are settled."""

LEAST_FACTOR = 1e-8
"""Measurements more exact than this share of the stated variance are taken as that exact."""


@dataclass(frozen=True)
class Residuals:
    """Whitened residuals of one kind of measurement."""

    white: Array
    """(m, d) in standard deviations of the stated noise, as a robust loss does not see them."""

    redundancy: Array
    """(m, d) share of each that the estimate did not follow; none without weight (a gap of the
    IMU)."""

    @property
    def squares(self) -> Array:
        return np.asarray(np.sum(self.white**2, axis=1))

    @property
    def outliers(self) -> Mask:
        """(m,) beyond what noise explains."""
        return np.asarray(self.squares > chi2_quantile(self.white.shape[1], OUTLIER_LEVEL))

    @property
    def variance_factor(self) -> float:
        """Variance that the residuals show, over the stated one; NaN without redundancy."""
        return self.variance_factor_of(slice(None))

    def variance_factor_of(self, columns: slice | list[int]) -> float:
        """Variance factor of some of the d."""
        inside = ~self.outliers
        redundancy = float(self.redundancy[inside][:, columns].sum())
        squares = float(np.sum(self.white[inside][:, columns] ** 2))
        return squares / redundancy if redundancy > 1.0 else np.nan


class ResidualsByKind(NamedTuple):
    """Residuals of every kind, at the optimum."""

    imu: Residuals
    camera: Residuals
    positions: Residuals
    orientations: Residuals


def residuals_of(solution: Solution, posterior: Covariance) -> ResidualsByKind:
    """Whitened residuals and their redundancies."""
    kinds = (
        whitened_factors(solution, posterior, kind)
        for kind in (IMU, CAMERA, POSITIONS, ORIENTATIONS)
    )
    return ResidualsByKind(*(Residuals(each.white, each.redundancy) for each in kinds))


ROUGHLY = SolverOptions(decrement=1e-2)
"""Enough for noise levels: a step that lowers the cost by less moves nothing by more than 0.1
standard deviations. Robust losses take twenty steps more from there to the last digit."""


@dataclass(frozen=True)
class NoiseSolution:
    """A problem solved together with the noise of its marker measurements."""

    solution: Solution
    posterior: Covariance
    residuals: ResidualsByKind
    problem: Problem
    """The problem with the estimated noise."""

    position_factor: float
    """Variance of positions over the one stated; 1 where there are none."""

    orientation_factor: float
    """Variance of orientations over the one stated."""


def solve_with_noise(
    problem: Problem,
    states: States,
    shared: Shared,
    options: SolverOptions = ROUGHLY,
    max_rounds: int = 12,
    least_factor: float = LEAST_FACTOR,
) -> NoiseSolution:
    """Alternate between the problem and the noise levels of marker positions and orientations.

    `least_factor`: smallest variance to end at, over the one stated.
    """
    factors = np.ones(2)
    for _ in range(max_rounds):
        solution = solve(problem, states, shared, options)
        posterior = covariance(solution)
        residuals = residuals_of(solution, posterior)
        states, shared = solution.states, solution.shared
        changes = [
            _factor(residuals.positions, least_factor / factors[0]),
            _factor(residuals.orientations, least_factor / factors[1]),
        ]
        if np.abs(np.log(changes)).max() < SETTLED:
            break
        factors *= changes
        problem = replace(
            problem,
            positions=_scaled(problem.positions, changes[0]),
            orientations=_scaled(problem.orientations, changes[1]),
        )
    return NoiseSolution(solution, posterior, residuals, problem, *factors.tolist())


def _factor(residuals: Residuals, least: float) -> float:
    """Factor to apply next; 1 where the residuals do not determine it."""
    factor = residuals.variance_factor
    if len(residuals.white) and residuals.outliers.mean() > 0.5:
        # Far too small a noise makes everything an outlier: grow first.
        factor = float(np.median(residuals.squares)) / residuals.white.shape[1]
    return max(factor, least) if np.isfinite(factor) else 1.0


def _scaled(measured: MarkerMeasurements | None, factor: float) -> MarkerMeasurements | None:
    return None if measured is None else replace(measured, covs=factor * measured.covs)
