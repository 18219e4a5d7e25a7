"""Solution of a short window: motions chosen, outliers rejected, Eq. 8, closed form, Eq. 9."""

import time
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from maci2.estimation.config import SolverConfig
from maci2.estimation.initial_guess import start_values
from maci2.estimation.motion_choice import choose_motions, with_choice
from maci2.estimation.outlier_rejection import inlier_poses, resolved, suspicious, without
from maci2.estimation.problem import Variables
from maci2.estimation.results import Posterior, SolveReport, VIState
from maci2.estimation.rotation_alignment import RotationAlignment, align_rotations
from maci2.estimation.time_offset import on_imu_clock, solve_with_offset
from maci2.imu import ImuMeasurements, Preintegrated, integrate_between, require_samples
from maci2.types import Array, Mask
from maci2.vision import RelativePoses


def solve_window(
    imu: ImuMeasurements, vision: RelativePoses, T_b_c: Array, config: SolverConfig
) -> "SolvedWindow":
    """Estimate of `maci2.initialize` before its verdict."""
    began = time.perf_counter()
    vision, offset_s = on_imu_clock(imu, vision, config)
    choice = choose_motions(imu, vision, T_b_c, config) if any(vision.motions) else None
    vision = choice.vision if choice else vision
    solved = _solve(imu, vision, T_b_c, config, offset_s)
    if config.robust and suspicious(solved.report):
        inliers = inlier_poses(imu, vision, T_b_c, config)
        again = _solve(imu, without(vision, inliers), T_b_c, config, offset_s)
        if resolved(solved.report, again.report, inliers, vision.measured):
            solved = again.with_rejected(inliers, vision)
    report = replace(solved.report, solve_ms=1e3 * (time.perf_counter() - began))
    return solved._replace(report=with_choice(report, choice) if choice else report)


class SolvedWindow(NamedTuple):
    """Solution and the measurements it was computed from."""

    vision: RelativePoses
    """Relative poses that were used, on the IMU's clock."""

    all_poses: RelativePoses
    """The same with those that were rejected as outliers."""

    pre: Preintegrated
    rotations: RotationAlignment
    state: VIState
    posterior: Posterior | None
    report: SolveReport

    def with_rejected(self, inliers: Mask, all_poses: RelativePoses) -> "SolvedWindow":
        """The solution with the report of its outliers."""
        outliers = tuple(map(int, np.flatnonzero(~inliers)))
        report = replace(self.report, rejected=len(outliers), rejected_poses=outliers)
        return self._replace(report=report, all_poses=all_poses)


def _solve(
    imu: ImuMeasurements, vision: RelativePoses, T_b_c: Array, config: SolverConfig, offset_s: float
) -> SolvedWindow:
    """Solution without the vertical of earlier samples where the window contradicts it."""
    solved = _solve_with(imu, vision, T_b_c, config, offset_s)
    if not solved.report.vertical_rejected:
        return solved
    alone = replace(config, tracked_vertical=False)
    again = _solve_with(imu, vision, T_b_c, alone, offset_s)
    report = replace(again.report, vertical_chi2=solved.report.vertical_chi2)
    return again._replace(report=report)


def _solve_with(
    imu: ImuMeasurements, vision: RelativePoses, T_b_c: Array, config: SolverConfig, offset_s: float
) -> SolvedWindow:
    """Gyroscope bias from rotations, initial guess in closed form, joint solve (Eq. 9)."""
    prior, stamps_ns = imu.bias_prior, vision.stamps_ns
    require_samples(imu, stamps_ns)
    pre = integrate_between(imu, stamps_ns, prior.mean_gyro, prior.mean_acc, config.rule, True)
    rotations = align_rotations(pre, vision, T_b_c[:3, :3], prior, False)
    bias_gyro = rotations.bias_gyro if config.estimate_gyro_bias else prior.mean_gyro
    pre = integrate_between(imu, stamps_ns, bias_gyro, prior.mean_acc, config.rule)

    Ts_c0_b, v_b, g_c0 = start_values(pre, vision, T_b_c, config.gravity_norm)
    start = Variables(Ts_c0_b, v_b, g_c0, bias_gyro, prior.mean_acc, T_b_c)
    solution = solve_with_offset(
        imu, vision, pre, start, config, extrinsics=False, coarse_s=offset_s
    )
    return SolvedWindow(vision, vision, pre, rotations, *solution)
