"""Time offset between camera and IMU: t_imu = t_camera + offset, as in Kalibr."""

from dataclasses import replace
from functools import partial

import numpy as np

from maci2.calibration_prior import UNKNOWN
from maci2.errors import MeasurementError
from maci2.estimation.config import SolverConfig
from maci2.estimation.problem import Variables
from maci2.estimation.profile_likelihood import Prior, Solution, profile, widened
from maci2.estimation.scale import solve_with_scale
from maci2.imu import ImuMeasurements, Preintegrated, Rule, preintegrate
from maci2.lie import so3_log
from maci2.types import Array
from maci2.vision import RelativePoses

LARGEST_S = 0.1
"""Largest offset to either side [s]; samples must reach that far beyond the keyframes."""

PRIOR = Prior(0.0, UNKNOWN.camera_clock_s)
GRID_S = 0.004

ROUNDS = ((0.002, False), (0.0005, False), (0.0005, True))
"""Distance to either side of the offset at which the joint cost is evaluated [s], and whether with
robust losses: an offset of some milliseconds makes every pose of a fast motion look like an
outlier."""


def shifted(vision: RelativePoses, offset_s: float) -> RelativePoses:
    """The same motion, delayed on the IMU's clock by an offset."""
    return replace(vision, stamps_ns=vision.stamps_ns + round(offset_s * 1e9))


def on_imu_clock(
    imu: ImuMeasurements, vision: RelativePoses, config: SolverConfig
) -> tuple[RelativePoses, float]:
    """Vision shifted by a first estimate of the time offset, and that estimate; unchanged if the
    offset is not to be estimated."""
    if not config.estimate_time_offset:
        return vision, 0.0
    vision = _with_margin(imu, vision)
    offset_s = coarse_time_offset(imu, vision, config.rule)
    return shifted(vision, offset_s), offset_s


def _with_margin(imu: ImuMeasurements, vision: RelativePoses) -> RelativePoses:
    """Keyframes that stay inside the samples for every offset within the bound."""
    margin_ns = round((LARGEST_S + GRID_S) * 1e9)
    first, last = int(imu.stamps_ns[0]) + margin_ns, int(imu.stamps_ns[-1]) - margin_ns
    inside = (vision.stamps_ns >= first) & (vision.stamps_ns <= last)
    if inside.all():
        return vision
    if inside.sum() < 2:
        raise MeasurementError(
            f"{imu.source}: samples cover {imu.stamps_ns[0]}..{imu.stamps_ns[-1]} ns, needed "
            f"{LARGEST_S:g} s beyond the keyframes to look for a time offset; give a longer "
            "recording or take the offset as known."
        )
    kept = np.flatnonzero(inside)
    return vision.part(int(kept[0]), int(kept[-1]))


def coarse_time_offset(imu: ImuMeasurements, vision: RelativePoses, rule: Rule) -> float:
    """Offset at which rotation angles agree best [s]; angles do not depend on the extrinsics.

    A gyroscope bias does a little; its part along the rotation is fitted as one number.
    """
    turned_c = np.array(
        [np.linalg.norm(so3_log(np.ascontiguousarray(T[:3, :3]))) for T in vision.Ts_ck_ck1]
    )
    measured = vision.measured
    if not measured.any():
        return 0.0
    prior = imu.bias_prior
    offsets = np.arange(-LARGEST_S, LARGEST_S + GRID_S / 2.0, GRID_S)
    misfits = []
    for offset_s in offsets:
        stamps_ns = shifted(vision, float(offset_s)).stamps_ns
        pre = preintegrate(imu, stamps_ns, prior.mean_gyro, prior.mean_acc, rule)
        turned_b = np.array([np.linalg.norm(so3_log(gamma)) for gamma in pre.gamma])
        misfits.append(_misfit((turned_b - turned_c)[measured], pre.dt[measured]))
    return float(offsets[int(np.argmin(misfits))])


def _misfit(difference: Array, dt: Array) -> float:
    rate = difference @ dt / (dt @ dt)
    return float(np.sum((difference - rate * dt) ** 2))


def solve_with_offset(
    imu: ImuMeasurements,
    vision: RelativePoses,
    pre: Preintegrated,
    start: Variables,
    config: SolverConfig,
    extrinsics: bool,
    coarse_s: float,
) -> Solution:
    """`solve_with_scale` with the time offset as one more unknown, if it is to be estimated.

    The timestamps of `vision` and `pre` have been shifted by `coarse_s` already.
    """
    if not config.estimate_time_offset:
        return solve_with_scale(imu, vision, pre, start, config, extrinsics)

    def at(offset_s: float, robust: bool = config.robust) -> Solution:
        chosen = replace(config, robust=robust)
        later = shifted(vision, offset_s - coarse_s)
        pre = preintegrate(imu, later.stamps_ns, start.bg, start.ba, config.rule)
        return solve_with_scale(imu, later, pre, start, chosen, extrinsics)

    best_s, found = coarse_s, None
    for step_s, robust in ROUNDS:
        tried = profile(partial(at, robust=robust and config.robust), best_s, step_s, PRIOR)
        if tried is None or abs(tried.best) > LARGEST_S:
            break
        best_s, found = tried.best, tried
    state, posterior, report = at(best_s)
    std_s = found.std(PRIOR, report.inflation) if found else PRIOR.std
    cost = report.cost + PRIOR.cost(best_s)
    report = replace(report, cost=cost, time_offset_s=best_s, std_time_offset_s=std_s)
    return state, widened(posterior, found, std_s) if posterior and found else posterior, report
