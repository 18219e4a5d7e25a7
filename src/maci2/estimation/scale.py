"""A scale error that all visual steps share.

A trajectory that is 3 % too long is too long in every step: no covariance of single steps can say
so. The joint problem is solved at three scales; the cost's parabola over them gives the scale and
its variance, and the way the solutions move gives what that variance does to every state.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from maci2.estimation.optimize import Variables
from maci2.estimation.solve import solve
from maci2.estimation.state import Posterior, SolverConfig, SolveReport, VIState
from maci2.gaussian import Array
from maci2.imu import ImuMeasurements, Preintegrated
from maci2.lie import se3_inv, se3_log
from maci2.vision import RelativePoses

Solution = tuple[VIState, Posterior | None, SolveReport]

WIDEST = 0.02
"""Scales to either side at which the cost is looked at: near enough for a parabola."""


def solve_with_scale(
    imu: ImuMeasurements,
    vision: RelativePoses,
    pre: Preintegrated,
    start: Variables,
    config: SolverConfig,
    extrinsics: bool,
) -> Solution:
    """`solve`, with the scale of the camera's motion one more unknown where it is in doubt."""
    std = vision.std_scale
    if std == 0.0:
        return solve(imu, vision, pre, start, config, extrinsics)

    def at(scale: float, robust: bool = config.robust) -> Solution:
        chosen = replace(config, robust=robust)
        return solve(imu, scaled(vision, scale), pre, start, chosen, extrinsics)

    # A scale far off makes every step look like an outlier: squares first, robust losses then.
    rough = _parabola(lambda scale: at(scale, robust=False), 1.0, std)
    fine = _parabola(at, rough.best if rough else 1.0, std)
    if fine is None:
        return at(1.0)

    state, posterior, report = at(fine.best)
    cost = report.cost + ((fine.best - 1.0) / std) ** 2
    std_scale = float((fine.curvature / 2.0 / report.inflation + std**-2.0) ** -0.5)
    report = replace(report, cost=cost, scale=fine.best, std_scale=std_scale)
    if posterior is None:
        return state, None, report
    return state, _widened(posterior, fine, std_scale), report


@dataclass(frozen=True)
class _Parabola:
    """Chi-square over the scale, and the solutions it was drawn through."""

    best: float
    """Where it is least, prior included."""

    curvature: float
    """Without the prior."""

    low: VIState
    high: VIState
    width: float
    """In scale, from low to high."""


def _parabola(at: Callable[[float], Solution], middle: float, std: float) -> _Parabola | None:
    step = min(std, WIDEST)
    solutions = [at(scale) for scale in (middle - step, middle, middle + step)]
    if not all(report.converged for _, _, report in solutions):
        return None
    low, centre, high = (report.cost for _, _, report in solutions)
    slope = (high - low) / (2.0 * step)
    # Robust losses may bend the cost downwards where the data say little.
    curvature = max((high - 2.0 * centre + low) / step**2, 0.0)
    # Chi-square is twice the negative log likelihood.
    away = (slope / 2.0 + (middle - 1.0) / std**2) / (curvature / 2.0 + std**-2.0)
    return _Parabola(middle - away, curvature, solutions[0][0], solutions[2][0], 2.0 * step)


def scaled(vision: RelativePoses, scale: float) -> RelativePoses:
    """The same motion, longer or shorter."""
    Ts_ck_ck1 = vision.Ts_ck_ck1.copy()
    Ts_ck_ck1[:, :3, 3] *= scale
    return replace(vision, Ts_ck_ck1=Ts_ck_ck1)


def _widened(posterior: Posterior, over: _Parabola, std_scale: float) -> Posterior:
    """Add what the states do while the scale moves by its standard deviation."""
    low, high, factor = over.low, over.high, std_scale / over.width

    def with_spread(cov: Array, moved: Array) -> Array:
        moved = factor * moved
        # What is given, not estimated, has no covariance and gets none.
        free = cov.any(axis=(-2, -1), keepdims=True)
        return np.where(free, cov + moved[..., :, None] * moved[..., None, :], cov)

    return Posterior(
        gravity_c0=with_spread(posterior.gravity_c0, high.gravity_c0 - low.gravity_c0),
        Ts_c0_b=with_spread(posterior.Ts_c0_b, _moved(low.Ts_c0_b, high.Ts_c0_b)),
        velocity_b=with_spread(posterior.velocity_b, high.velocity_b - low.velocity_b),
        gyro_bias=with_spread(posterior.gyro_bias, high.gyro_bias - low.gyro_bias),
        acc_bias=with_spread(posterior.acc_bias, high.acc_bias - low.acc_bias),
        T_b_c=with_spread(posterior.T_b_c, _moved(low.T_b_c[None], high.T_b_c[None])[0]),
    )


def _moved(Ts_low: Array, Ts_high: Array) -> Array:
    """(n, 6) left difference [rho, phi] of two stacks of poses."""
    return np.array(
        [se3_log(T_high @ se3_inv(T_low)) for T_low, T_high in zip(Ts_low, Ts_high, strict=True)]
    )
