"""Consistency of an IMU's noise over a horizon: what is left of the IMU's errors between states of
a chain, against what its noise and the reference allow.

The states follow the IMU as well as the reference, so that the error between two of them is not the
IMU's whole error: with C its covariance, G the derivatives and P the posterior of both states, the
covariance of the error that shows is C - G P G'. Nothing that IMU and states share is counted.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from maci2.calibration.noise_likelihood import moved_by, other_kinds, predicted_by
from maci2.chain import ChainProblem, ChainSolution, chain_posterior
from maci2.chain.chain_posterior import normal_equations
from maci2.chain.chain_state import POSITION, ROTATION, VELOCITY
from maci2.chain.whitened_factors import IMU, WhitenedFactors, whitened_factors
from maci2.types import Array

LEAST_SHOWN = 1e-3
"""Share of an error's least variance that must show for it to be scored."""

DRAWS = 12
"""Draws of white noise that tell what correlation to expect."""

PARTS = {"rotation": ROTATION, "velocity": VELOCITY, "position": POSITION}


@dataclass(frozen=True)
class PartNees:
    """Errors of one kind over one horizon."""

    nees: float | None
    """Mean per degree of freedom; None where the reference shows none of it."""

    shown: float
    """Share of the IMU's variance that shows against the reference."""


@dataclass(frozen=True)
class Consistency:
    """Errors of the IMU between neighbouring states."""

    windows: int
    parts: dict[str, PartNees]
    """Rotation, velocity, position."""

    correlation: Array
    """(lags,) autocorrelation of the whitened errors of rotation and velocity, from one state to
    the next on."""

    expected: Array
    """(lags,) the same for white noise of all measurements: the states follow errors, so that what
    is left of them is not white."""

    chance: float
    """Standard deviation of their difference where all noise is white."""


def consistency(problem: ChainProblem, solution: ChainSolution, lags: int = 10) -> Consistency:
    """Scores of a solved chain; the horizon is the distance of its states."""
    posterior = chain_posterior(solution)
    kinds = [IMU, *other_kinds(problem)]
    rows = [whitened_factors(solution, posterior, kind) for kind in kinds]
    factors = rows[0]
    white_inv = np.linalg.inv(solution.factors.ties.white)
    e = np.einsum("kij,kj->ki", white_inv, factors.r)
    left = np.eye(factors.r.shape[1]) - factors.projected
    cov_shown = white_inv @ left @ np.swapaxes(white_inv, 1, 2)
    cov: Array = np.asarray(white_inv @ np.swapaxes(white_inv, 1, 2), dtype=np.float64)
    parts = {
        name: _part(e[:, block], cov_shown[:, block, block], cov[:, block, block])
        for name, block in PARTS.items()
    }
    found = _correlation(factors.r, lags)
    drawn = np.array([_correlation(r, lags) for r in _white_residuals(rows, solution)])
    chance = float(np.sqrt((1.0 + 1.0 / DRAWS) * drawn.var(axis=0, ddof=1).mean()))
    return Consistency(len(e), parts, found, drawn.mean(axis=0), chance)


def _white_residuals(rows: list[WhitenedFactors], solution: ChainSolution) -> Iterator[Array]:
    """Residuals of the IMU that white noise of all measurements leaves, drawn several times."""
    rng, system = np.random.default_rng(0), normal_equations(solution)
    for _ in range(DRAWS):
        noise = [rng.standard_normal(one.r.shape) for one in rows]
        moves = [moved_by(one, q, system) for one, q in zip(rows, noise, strict=True)]
        states, border = (np.sum(part, axis=0) for part in zip(*moves, strict=True))
        yield noise[0] - predicted_by(rows[0], (states, border))


def _part(e: Array, cov_shown: Array, cov: Array) -> PartNees:
    cov_shown = 0.5 * (cov_shown + np.swapaxes(cov_shown, 1, 2))
    least = np.linalg.eigvalsh(cov_shown)[:, 0]
    scored = least > LEAST_SHOWN * np.linalg.eigvalsh(cov)[:, 0]
    trace = [np.trace(c, axis1=1, axis2=2).sum() for c in (cov_shown, cov)]
    nees = None
    if scored.any():
        solved = np.linalg.solve(cov_shown[scored], e[scored][..., None])[..., 0]
        nees = float(np.einsum("ki,ki->k", e[scored], solved).mean() / e.shape[1])
    return PartNees(nees, float(trace[0] / trace[1]))


def _correlation(r: Array, lags: int) -> Array:
    """Mean over rotation and velocity, each component with its own variance."""
    r, n = r[:, :6], len(r)
    scaled = (r - r.mean(axis=0)) / np.maximum(r.std(axis=0), 1e-300)
    kept = min(lags, max(n - 2, 0))
    return np.array([float(np.mean(scaled[lag:] * scaled[:-lag])) for lag in range(1, kept + 1)])
