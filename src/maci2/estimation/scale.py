"""A scale error that all visual steps share.

A trajectory that is 3 % too long is too long in every step: no covariance of single steps can say
so.
"""

from dataclasses import replace

from maci2.estimation.config import SolverConfig
from maci2.estimation.levenberg_marquardt import Variables
from maci2.estimation.profile_likelihood import Prior, Solution, profile, widened
from maci2.estimation.solve import solve
from maci2.imu import ImuMeasurements, Preintegrated
from maci2.vision import RelativePoses

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
    if vision.std_scale == 0.0:
        return solve(imu, vision, pre, start, config, extrinsics)

    def at(scale: float, robust: bool = config.robust) -> Solution:
        chosen = replace(config, robust=robust)
        return solve(imu, scaled(vision, scale), pre, start, chosen, extrinsics)

    # A scale far off makes every step look like an outlier: squares first, robust losses then.
    prior = Prior(1.0, vision.std_scale)
    step = min(prior.std, WIDEST)
    rough = profile(lambda scale: at(scale, robust=False), 1.0, step, prior)
    fine = profile(at, rough.best if rough else 1.0, step, prior)
    if fine is None:
        return at(1.0)

    state, posterior, report = at(fine.best)
    std_scale = fine.std(prior, report.inflation)
    cost = report.cost + prior.cost(fine.best)
    report = replace(report, cost=cost, scale=fine.best, std_scale=std_scale)
    return state, posterior and widened(posterior, fine, std_scale), report


def scaled(vision: RelativePoses, scale: float) -> RelativePoses:
    """The same motion, longer or shorter."""
    Ts_ck_ck1 = vision.Ts_ck_ck1.copy()
    Ts_ck_ck1[:, :3, 3] *= scale
    return replace(vision, Ts_ck_ck1=Ts_ck_ck1)
