"""How noisy measurements are, from their own residuals: variance components of a chain.

A residual is smaller than its noise, since the estimate follows the noise. Of d residuals with
covariance W'W = cov^-1, the estimate takes trace(W J P J' W'), P the posterior: what is left is
their redundancy, and sum of squares over redundancy is the factor on the variance (maximum
likelihood with this correction, iterated).
"""

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from maci2.chain.chain_measurements import (
    ChainProblem,
    MarkerOrientations,
    MarkerPositions,
)
from maci2.chain.chain_posterior import ChainPosterior, chain_posterior
from maci2.chain.chain_solver import ChainConfig, ChainSolution, solve_chain
from maci2.chain.chain_state import Border, States
from maci2.chain.whitened_factors import WhitenedFactors, whitened_factors
from maci2.gaussian import chi2_quantile
from maci2.types import Array

Measured = TypeVar("Measured", MarkerPositions, MarkerOrientations)

OUTLIER_LEVEL = 0.999
"""Residuals beyond this quantile of chi-square say nothing about the noise."""

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
    """(m, d) share of each that the estimate did not follow."""

    @property
    def squares(self) -> Array:
        return np.asarray(np.sum(self.white**2, axis=1))

    @property
    def outliers(self) -> NDArray[np.bool_]:
        """(m,) beyond what noise explains."""
        return np.asarray(self.squares > chi2_quantile(self.white.shape[1], OUTLIER_LEVEL))

    @property
    def variance_factor(self) -> float:
        """Variance that the residuals show, over the stated one; NaN without redundancy."""
        return self.variance_factor_of(slice(None))

    def variance_factor_of(self, columns: slice | list[int]) -> float:
        """The same of some of the d."""
        inside = ~self.outliers
        redundancy = float(self.redundancy[inside][:, columns].sum())
        squares = float(np.sum(self.white[inside][:, columns] ** 2))
        return squares / redundancy if redundancy > 1.0 else np.nan


@dataclass(frozen=True)
class ChainResiduals:
    """Residuals of every kind, at the optimum."""

    imu: Residuals
    camera: Residuals
    positions: Residuals
    orientations: Residuals


def chain_residuals(solution: ChainSolution, posterior: ChainPosterior) -> ChainResiduals:
    """Whitened residuals and their redundancies."""
    kinds = (whitened_factors(solution, posterior, kind) for kind in range(4))
    return ChainResiduals(*(Residuals(each.r, _redundancy(each)) for each in kinds))


def _redundancy(factors: WhitenedFactors) -> Array:
    """(m, d) share of each residual that the estimate did not follow; none without weight."""
    followed = np.diagonal(factors.projected, axis1=1, axis2=2)
    return np.asarray(factors.weighted - followed)


ROUGHLY = ChainConfig(decrement=1e-2)
"""Enough for noise levels: a step that lowers the cost by less moves nothing by more than 0.1
standard deviations. Robust losses take twenty steps more from there to the last digit."""


@dataclass(frozen=True)
class NoiseSolution:
    """A chain solved together with the noise of its marker measurements."""

    solution: ChainSolution
    posterior: ChainPosterior
    residuals: ChainResiduals
    problem: ChainProblem
    """The problem with the noise found."""

    position_factor: float
    """Variance of positions over the one stated; 1 where there are none."""

    orientation_factor: float
    """Likewise."""


def solve_with_noise(
    problem: ChainProblem,
    states: States,
    border: Border,
    config: ChainConfig = ROUGHLY,
    max_rounds: int = 12,
    least_factor: float = LEAST_FACTOR,
) -> NoiseSolution:
    """Alternate between the chain and the noise levels of marker positions and orientations.

    `least_factor`: smallest variance to end at, over the one stated.
    """
    position_factor = orientation_factor = 1.0
    for _ in range(max_rounds):
        solution = solve_chain(problem, states, border, config)
        posterior = chain_posterior(solution)
        residuals = chain_residuals(solution, posterior)
        states, border = solution.states, solution.border
        by_position = _factor(residuals.positions, least_factor / position_factor)
        by_orientation = _factor(residuals.orientations, least_factor / orientation_factor)
        if max(abs(np.log(by_position)), abs(np.log(by_orientation))) < SETTLED:
            break
        position_factor *= by_position
        orientation_factor *= by_orientation
        problem = replace(
            problem,
            positions=_scaled(problem.positions, by_position),
            orientations=_scaled(problem.orientations, by_orientation),
        )
    return NoiseSolution(
        solution, posterior, residuals, problem, position_factor, orientation_factor
    )


def _factor(residuals: Residuals, least: float) -> float:
    """Factor to apply next; 1 where the residuals cannot say."""
    found = residuals.variance_factor
    if len(residuals.white) and residuals.outliers.mean() > 0.5:
        # Far too small a noise makes everything an outlier: grow first.
        found = float(np.median(residuals.squares)) / residuals.white.shape[1]
    return max(found, least) if np.isfinite(found) else 1.0


def _scaled(measured: Measured | None, factor: float) -> Measured | None:
    return None if measured is None else replace(measured, covs=factor * measured.covs)
