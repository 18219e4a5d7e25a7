"""Profile likelihood: one more unknown around a solver that does not have it.

The problem is solved at three values of the unknown. The cost's parabola over them gives the best
value and its variance; the way the solutions move gives what that variance does to every state. At
the optimum this is the joint solution: the cost of the others' best answer is what is profiled.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from maci2.estimation.results import Posterior, SolveReport, VIState
from maci2.lie import se3_inv, se3_log
from maci2.types import Array

Solution = tuple[VIState, Posterior | None, SolveReport]


@dataclass(frozen=True)
class Prior:
    """Gaussian prior of the unknown."""

    mean: float
    std: float

    def cost(self, value: float) -> float:
        return ((value - self.mean) / self.std) ** 2


@dataclass(frozen=True)
class Profile:
    """Chi-square as a function of the unknown, with the solutions it was evaluated at."""

    best: float
    """Value that minimizes it, prior included."""

    curvature: float
    """Second derivative of chi-square, without the prior."""

    low: VIState
    high: VIState
    width: float
    """Difference of the unknown between low and high."""

    def std(self, prior: Prior, inflation: float) -> float:
        """Standard deviation of the unknown, with measurement covariances inflated by a factor."""
        return float((self.curvature / 2.0 / inflation + prior.std**-2.0) ** -0.5)


def profile(
    at: Callable[[float], Solution], middle: float, step: float, prior: Prior
) -> Profile | None:
    """Solve at `middle` and at `step` to either side; None if one of them does not converge."""
    solutions = [at(value) for value in (middle - step, middle, middle + step)]
    if not all(report.converged for _, _, report in solutions):
        return None
    low, centre, high = (report.cost for _, _, report in solutions)
    slope = (high - low) / (2.0 * step)
    # Robust losses may bend the cost downwards where the data say little.
    curvature = max((high - 2.0 * centre + low) / step**2, 0.0)
    # Chi-square is twice the negative log likelihood.
    information = curvature / 2.0 + prior.std**-2.0
    away = (slope / 2.0 + (middle - prior.mean) / prior.std**2) / information
    return Profile(middle - away, curvature, solutions[0][0], solutions[2][0], 2.0 * step)


def widened(posterior: Posterior, over: Profile, std: float) -> Posterior:
    """Add the covariance that the unknown's variance causes in the states."""
    low, high, factor = over.low, over.high, std / over.width

    def with_spread(cov: Array, moved: Array) -> Array:
        moved = factor * moved
        # What is given, not estimated, has no covariance and gets none.
        free = cov.any(axis=(-2, -1), keepdims=True)
        return np.where(free, cov + moved[..., :, None] * moved[..., None, :], cov)

    return Posterior(
        gravity_c0=with_spread(posterior.gravity_c0, high.gravity_c0 - low.gravity_c0),
        Ts_c0_b=with_spread(posterior.Ts_c0_b, _moved(low.Ts_c0_b, high.Ts_c0_b)),
        velocity_b=with_spread(posterior.velocity_b, high.velocity_b - low.velocity_b),
        gyro_bias=with_spread(
            posterior.gyro_bias, high.gyro_bias_residual - low.gyro_bias_residual
        ),
        acc_bias=with_spread(posterior.acc_bias, high.acc_bias_residual - low.acc_bias_residual),
        T_b_c=with_spread(posterior.T_b_c, _moved(low.T_b_c[None], high.T_b_c[None])[0]),
    )


def _moved(Ts_low: Array, Ts_high: Array) -> Array:
    """(n, 6) left difference [rho, phi] of two stacks of poses."""
    return np.array(
        [se3_log(T_high @ se3_inv(T_low)) for T_low, T_high in zip(Ts_low, Ts_high, strict=True)]
    )
