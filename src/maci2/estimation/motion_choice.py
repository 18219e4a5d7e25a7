"""Choice among candidate motions of the camera with the help of the IMU.

If matches support two motions, that of the camera lies on the straight line that the IMU predicts
through all relative poses of a window (`outlier_rejection`); that of a moving object, or of a
repetitive wall matched one period off, does not. An object with constant velocity lies on a line,
too: if two lines have equally many poses, no motion is selected.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from maci2.estimation.config import SolverConfig
from maci2.estimation.outlier_rejection import (
    GAP,
    NEEDED,
    FallingLine,
    Mask,
    common_gyro_bias,
    falling_line,
    largest_set,
    line_distances,
    rotation_distances,
    velocity_limits,
    without,
)
from maci2.estimation.results import SolveReport
from maci2.imu import ImuMeasurements, Preintegrated, preintegrate
from maci2.types import Array
from maci2.vision import RelativePoses

WINDOW = 12
"""Relative poses that are looked at together: with more of them a bias wanders off its line."""


class MotionChoice(NamedTuple):
    """Relative poses with what the IMU decided."""

    vision: RelativePoses
    """Poses that were decided are the motion chosen, with its covariance, and in doubt no more."""

    second: Mask
    """(m,) where the motion of fewer matches was chosen."""

    rejected: Mask
    """(m,) where none of the motions agrees with the IMU: nothing is known of these poses."""


def choose_motions(
    imu: ImuMeasurements, vision: RelativePoses, T_b_c: Array, config: SolverConfig
) -> MotionChoice:
    """Select a motion for each ambiguous relative pose where the IMU can decide; others are
    unchanged."""
    second, rejected = np.zeros((2, len(vision) - 1), dtype=bool)
    if not config.robust or not any(vision.motions):
        return MotionChoice(vision, second, rejected)
    Ts, covs = vision.Ts_ck_ck1.copy(), vision.covs_T_ck_ck1.copy()
    motions = list(vision.motions)
    windows = max(round(len(second) / WINDOW), 1)
    for some in np.array_split(np.arange(len(second)), windows):
        first = int(some[0])
        chosen = _chosen(imu, vision.part(first, int(some[-1]) + 1), T_b_c, config)
        for k, which in chosen.items():
            motions[first + k] = ()
            if which is None:
                rejected[first + k] = True
                continue
            motion = vision.motions[first + k][which]
            Ts[first + k], covs[first + k] = motion.T_ck_ck1, motion.cov_T_ck_ck1
            second[first + k] = which > 0
    decided = replace(vision, Ts_ck_ck1=Ts, covs_T_ck_ck1=covs, motions=tuple(motions))
    return MotionChoice(without(decided, ~rejected), second, rejected)


def with_choice(report: SolveReport, choice: MotionChoice) -> SolveReport:
    """The report of a solution with these motions."""
    rejected = tuple(sorted({*report.rejected_poses, *map(int, np.flatnonzero(choice.rejected))}))
    return replace(
        report,
        rejected=len(rejected),
        rejected_poses=rejected,
        second_motions=int(choice.second.sum()),
    )


def _chosen(
    imu: ImuMeasurements, vision: RelativePoses, T_b_c: Array, config: SolverConfig
) -> dict[int, int | None]:
    """Pose in doubt -> its motion that the IMU chooses, None where it contradicts all of them, of
    one window."""
    doubted = np.array([len(some) > 1 for some in vision.motions])
    if not doubted.any() or vision.measured.sum() <= NEEDED:
        return {}
    first, last = int(vision.stamps_ns[0]), int(vision.stamps_ns[-1])
    imu, prior = imu.between(first, last), imu.bias_prior
    most = max(len(some) for some in vision.motions)
    layers = [_layer(vision, which) for which in range(most)]
    pre = preintegrate(imu, vision.stamps_ns, prior.mean_gyro, prior.mean_acc, config.rule)
    bias_gyro = common_gyro_bias(pre, layers[0], T_b_c)
    turned = [rotation_distances(pre, layer, T_b_c, bias_gyro) for layer in layers]
    pre = preintegrate(imu, vision.stamps_ns, bias_gyro, prior.mean_acc, config.rule)
    line, limit = _stacked(pre, layers, T_b_c)
    told = np.array([[len(some) > which for some in vision.motions] for which in range(1, most)])
    usable = np.concatenate([vision.measured, told.ravel()]) & (np.concatenate(turned) < 1.0)
    pose = np.tile(np.arange(len(doubted)), most)
    best = largest_set(line, limit, prior.std_acc, config.gravity_norm, usable, pose)
    rest = largest_set(line, limit, prior.std_acc, config.gravity_norm, usable & ~best, pose)
    held, others = (len(np.unique(pose[points])) for points in (best, rest))
    half = 0.5 * vision.measured.sum()
    if held <= max(half, NEEDED) or others > half:
        return {}
    chosen: dict[int, int | None] = {}
    for k in np.flatnonzero(doubted):
        along = line_distances(line, limit, prior.std_acc, best & (pose != k))
        count = len(vision.motions[k])
        away = np.maximum(along.reshape(most, -1)[:count, k], [one[k] for one in turned[:count]])
        which = int(np.argmin(away))
        if np.delete(away, which).min() > GAP and not 1.0 <= away[which] <= GAP:
            chosen[int(k)] = which if away[which] < 1.0 else None
    return chosen


def _layer(vision: RelativePoses, which: int) -> RelativePoses:
    """One motion of every pose: that `which` where it is in doubt, else the only one."""
    Ts, covs = vision.Ts_ck_ck1.copy(), vision.covs_T_ck_ck1.copy()
    for k, some in enumerate(vision.motions):
        if some:
            motion = some[min(which, len(some) - 1)]
            Ts[k], covs[k] = motion.T_ck_ck1, motion.cov_T_ck_ck1
    return replace(vision, Ts_ck_ck1=Ts, covs_T_ck_ck1=covs)


def _stacked(
    pre: Preintegrated, layers: list[RelativePoses], T_b_c: Array
) -> tuple[FallingLine, Array]:
    """The points of all layers with their limits."""
    lines = [falling_line(pre, layer, T_b_c) for layer in layers]
    limits = [velocity_limits(pre, layer) for layer in layers]
    columns = (np.concatenate(parts) for parts in zip(*lines, strict=True))
    return FallingLine(*columns), np.concatenate(limits)
