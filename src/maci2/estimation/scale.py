"""A scale error that all relative poses share.

A trajectory that is 3 % too long is too long in every relative pose: no covariance of single ones
can say so. The unknown is one over the scale: chi-square is a parabola in it, since the measured
motion, noise and all, is compared with the estimated one over the scale.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from maci2.estimation.config import SolverConfig
from maci2.estimation.levenberg_marquardt import Variables
from maci2.estimation.profile_likelihood import Prior, Profile, Solution, profile, widened
from maci2.estimation.results import Posterior, VIState
from maci2.estimation.solve import solve
from maci2.imu import ImuMeasurements, Preintegrated, preintegrate
from maci2.vision import RelativePoses

WIDEST = 0.02
"""Relative scales to either side at which the cost is evaluated: near enough for a parabola."""

ANY_SCALE = Prior(1.0, 1.0)
"""Prior of one over a scale that is to be measured, whatever was stated."""


class MeasuredScale(NamedTuple):
    """True translation over the measured one, as accelerations show it."""

    scale: float
    std: float


def solve_with_scale(
    imu: ImuMeasurements,
    vision: RelativePoses,
    pre: Preintegrated,
    start: Variables,
    config: SolverConfig,
    extrinsics: bool,
) -> Solution:
    """`solve`, with the scale of the camera's motion one more unknown where it is in doubt."""
    if vision.std_scale == 0.0:
        return solve(imu, vision, pre, start, config, extrinsics)

    def at(inverse: float, robust: bool = config.robust) -> Solution:
        chosen = replace(config, robust=robust)
        return solve(imu, scaled(vision, 1.0 / inverse), pre, start, chosen, extrinsics)

    # A scale far off makes every pose look like an outlier: squares first, robust losses then.
    prior = Prior(1.0, vision.std_scale)
    step = min(prior.std, WIDEST)
    rough = profile(lambda inverse: at(inverse, robust=False), 1.0, step, prior)
    middle = rough.best if rough else 1.0
    fine = profile(at, middle, step, _of_inverse(prior, middle))
    if fine is None:
        return at(1.0)

    state, posterior, report = at(fine.best)
    std = fine.std(_of_inverse(prior, fine.best), report.inflation)
    report = replace(
        report,
        cost=report.cost + prior.cost(1.0 / fine.best),
        scale=1.0 / fine.best,
        std_scale=std / fine.best**2,
    )
    return state, posterior and widened(posterior, fine, std), report


def _of_inverse(prior: Prior, inverse: float) -> Prior:
    """The prior of a scale as one of its inverse, to first order around `inverse`."""
    away = 1.0 / inverse - prior.mean
    return Prior(inverse + away * inverse**2, prior.std * inverse**2)


class FreedConstants(NamedTuple):
    """What a window says where extrinsics and scale are unknowns too, whatever was stated."""

    state: VIState
    """Solution with the extrinsics that fit best."""

    posterior: Posterior
    """Its covariance: of gravity and velocities where nothing that was stated is believed."""

    scale: MeasuredScale
    dof: int
    inflation: float
    """Factor on the stated covariances that fits the residuals; 1 where they fit as stated."""


def free_constants(
    imu: ImuMeasurements, vision: RelativePoses, state: VIState, config: SolverConfig
) -> FreedConstants | None:
    """Solve a window anew with extrinsics and scale free; None where it says too little for that.

    A scale with a stated spread keeps it.
    """
    at = _with_free_extrinsics(imu, vision, state, config)
    prior = Prior(1.0, vision.std_scale) if vision.std_scale > 0.0 else ANY_SCALE
    found = profile(at, 1.0, WIDEST, prior)
    if found is None or found.best <= 0.0:
        return None
    freed, posterior, report = at(found.best)
    if posterior is None or not report.converged:
        return None
    std = found.std(prior, report.inflation)
    scale = _measured(found, prior, report.inflation)
    return FreedConstants(
        freed, widened(posterior, found, std), scale, report.dof, report.inflation
    )


def _measured(found: Profile, prior: Prior, inflation: float) -> MeasuredScale:
    return MeasuredScale(1.0 / found.best, found.std(prior, inflation) / found.best**2)


def _with_free_extrinsics(
    imu: ImuMeasurements, vision: RelativePoses, state: VIState, config: SolverConfig
) -> Callable[[float], Solution]:
    """Solution at one over a scale, begun at a state that is solved."""
    vision = replace(vision, stamps_ns=state.stamps_ns)
    gyro_bias, acc_bias = state.gyro_bias_residual, state.acc_bias_residual
    pre = preintegrate(imu, vision.stamps_ns, gyro_bias, acc_bias, config.rule)
    start = Variables(
        state.Ts_c0_b, state.velocity_b, state.gravity_c0, gyro_bias, acc_bias, state.T_b_c
    )
    # Squares: robust losses would take the scale's error for outliers.
    squares = replace(config, robust=False)
    return lambda inverse: solve(imu, scaled(vision, 1.0 / inverse), pre, start, squares, True)


def scaled(vision: RelativePoses, scale: float) -> RelativePoses:
    """The same motion, longer or shorter, and its noise with it: a shorter motion that kept its
    noise would fit better whatever was measured."""
    Ts_ck_ck1, covs = vision.Ts_ck_ck1.copy(), vision.covs_T_ck_ck1.copy()
    Ts_ck_ck1[:, :3, 3] *= scale
    covs[:, :3, :] *= scale
    covs[:, :, :3] *= scale
    return replace(vision, Ts_ck_ck1=Ts_ck_ck1, covs_T_ck_ck1=covs)
