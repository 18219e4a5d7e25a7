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
from maci2.calibration.noise_windows import compose_windows
from maci2.estimator.problem import POSITION, ROTATION, VELOCITY, Problem
from maci2.estimator.residuals import WhitenedFactors, whitened_factors
from maci2.estimator.solver import IMU, Solution, covariance, normal_equations
from maci2.gaussian import square_root_information
from maci2.types import Array

LEAST_SHOWN = 1e-3
"""Share of an error's variance that must show in a direction for it to be scored there."""

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
    """Errors of the IMU over windows of one length, one from every state."""

    windows: int
    parts: dict[str, PartNees]
    """Rotation, velocity, position."""

    correlation: Array
    """(lags,) autocorrelation of the whitened errors of rotation and velocity, from one window to
    the next one after it on."""

    expected: Array
    """(lags,) the same for white noise of all measurements: the states follow errors, so that what
    is left of them is not white."""

    chance: float
    """Standard deviation of their difference where all noise is white."""


def consistency(
    problem: Problem, solution: Solution, steps: int = 1, lags: int = 10
) -> Consistency:
    """Scores of a solved chain over windows of `steps` IMU factors each.

    Windows of several factors are scored on the chain of all states between: measurements inside
    a window then meet states of their own, not what the IMU alone carries to them.
    """
    posterior = covariance(solution)
    kinds = [IMU, *other_kinds(problem)]
    rows = [whitened_factors(solution, posterior, kind) for kind in kinds]
    windows = compose_windows(problem.stamps_ns, solution, posterior, rows[0], steps)
    e = windows.errors(rows[0].r)
    parts = {
        name: _part(e[:, block], windows.cov_shown[:, block, block], windows.cov[:, block, block])
        for name, block in PARTS.items()
    }
    white = square_root_information(windows.cov[::steps])

    def correlation(r: Array) -> Array:
        return _correlation(np.einsum("kij,kj->ki", white, windows.errors(r)[::steps]), lags)

    drawn = np.array([correlation(r) for r in _white_residuals(rows, solution)])
    chance = float(np.sqrt((1.0 + 1.0 / DRAWS) * drawn.var(axis=0, ddof=1).mean()))
    return Consistency(len(e), parts, correlation(rows[0].r), drawn.mean(axis=0), chance)


def _white_residuals(rows: list[WhitenedFactors], solution: Solution) -> Iterator[Array]:
    """Residuals of the IMU that white noise of all measurements leaves, drawn several times."""
    rng, system = np.random.default_rng(0), normal_equations(solution)
    for _ in range(DRAWS):
        noise = [rng.standard_normal(one.r.shape) for one in rows]
        moves = [moved_by(one, q, system) for one, q in zip(rows, noise, strict=True)]
        states, shared = (np.sum(part, axis=0) for part in zip(*moves, strict=True))
        yield noise[0] - predicted_by(rows[0], (states, shared))


def _part(e: Array, cov_shown: Array, cov: Array) -> PartNees:
    """Mean square over all directions of which enough shows, each in its standard deviations."""
    white = square_root_information(cov)
    share, directions = np.linalg.eigh(white @ cov_shown @ np.swapaxes(white, 1, 2))
    squares = np.einsum("kji,kjl,kl->ki", directions, white, e) ** 2
    scored = share > LEAST_SHOWN
    nees = float(np.mean(squares[scored] / share[scored])) if scored.any() else None
    trace = [np.trace(c, axis1=1, axis2=2).sum() for c in (cov_shown, cov)]
    return PartNees(nees, float(trace[0] / trace[1]))


def _correlation(r: Array, lags: int) -> Array:
    """Mean over rotation and velocity, each component with its own variance."""
    r, n = r[:, :6], len(r)
    scaled = (r - r.mean(axis=0)) / np.maximum(r.std(axis=0), 1e-300)
    kept = min(lags, max(n - 2, 0))
    return np.array([float(np.mean(scaled[lag:] * scaled[:-lag])) for lag in range(1, kept + 1)])
