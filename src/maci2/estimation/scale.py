"""Scale error common to all relative poses.

A trajectory that is 3 % too long is too long in every relative pose: no covariance of single ones
can say so. The unknown is one over the scale: chi-square is a parabola in it, since the measured
motion, noise and all, is compared with the estimated one over the scale.
"""

from dataclasses import replace

from maci2.estimation.config import SolverConfig
from maci2.estimation.problem import Variables
from maci2.estimation.profile_likelihood import Prior, Solution, profile, widened
from maci2.estimation.solve import solve
from maci2.imu import ImuMeasurements, Preintegrated
from maci2.vision import RelativePoses

WIDEST = 0.02
"""Relative scale differences at which the cost is evaluated, small enough for a parabola."""


def solve_with_scale(
    imu: ImuMeasurements,
    vision: RelativePoses,
    pre: Preintegrated,
    start: Variables,
    config: SolverConfig,
    extrinsics: bool,
) -> Solution:
    """Run `solve` with the scale of camera motion as one more unknown if it is uncertain."""
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
    """Prior of the inverse scale, to first order around `inverse`."""
    away = 1.0 / inverse - prior.mean
    return Prior(inverse + away * inverse**2, prior.std * inverse**2)


def scaled(vision: RelativePoses, scale: float) -> RelativePoses:
    """The same motion scaled together with its noise; a shorter motion with the same noise would
    always fit better."""
    Ts_ck_ck1, covs = vision.Ts_ck_ck1.copy(), vision.covs_T_ck_ck1.copy()
    Ts_ck_ck1[:, :3, 3] *= scale
    covs[:, :3, :] *= scale
    covs[:, :, :3] *= scale
    return replace(vision, Ts_ck_ck1=Ts_ck_ck1, covs_T_ck_ck1=covs)
