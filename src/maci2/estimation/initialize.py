"""Initialization from a short window (the paper's Fig. 4, both workflows)."""

import time
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from maci2.boundary import as_transform, require_type
from maci2.estimation.config import DEFAULT_CONFIG, SolverConfig
from maci2.estimation.confirmation import Evidence
from maci2.estimation.freed_constants import free_constants
from maci2.estimation.initial_guess import start_values
from maci2.estimation.motion_choice import choose_motions, with_choice
from maci2.estimation.outlier_rejection import inlier_poses, resolved, suspicious, without
from maci2.estimation.problem import Variables
from maci2.estimation.results import InitResult, Posterior, SolveReport, VIState
from maci2.estimation.rotation_alignment import RotationAlignment, align_rotations
from maci2.estimation.time_offset import on_imu_clock, solve_with_offset
from maci2.estimation.verdict import (
    DEFAULT_LIMITS,
    InitLimits,
    judge_initialization,
    require_window,
)
from maci2.imu import ImuMeasurements, Preintegrated, integrate_between, require_samples
from maci2.premises import (
    Premises,
    samples_contradicted,
    window_premises,
    with_window_samples,
)
from maci2.types import Array, Mask
from maci2.vision import RelativePoses


def initialize(
    imu: ImuMeasurements,
    vision: RelativePoses,
    T_b_c: Array,
    config: SolverConfig | None = None,
    limits: InitLimits | None = None,
    premises: Premises | None = None,
) -> InitResult:
    """Estimate gravity, velocities, biases and poses over the keyframes of `vision`.

    Workflow (a), learned IMU: `imu` has corrected samples with learned variances and a narrow prior
    of the remaining bias. Workflow (b), raw IMU: data-sheet variances, gyroscope bias unknown.

    Args:
        imu: IMU measurements from `raw_model`, `datasheet_model` or `ImuModel.measure`; they must
            cover the keyframes.
        vision: relative poses of at least four keyframes, with covariances.
        T_b_c: (4, 4) pose in the body of the camera frame that `vision` refers to.
        config: choices of the solver.
        limits: largest errors that the verdict `ok` allows.
        premises: evidence about the constants gathered so far (`PremiseEvidence`); without it, only
            this window tests them. Extrinsics and scale that are neither confirmed nor contradicted
            are accepted and listed in `verdict.taken_as_given`; an `ok` then depends on them.
            `InitLimits(trust_constants=False)` makes such a result `weak`.

    Returns:
        State, posterior covariance, report and verdict. A window that cannot be solved raises
        nothing; its verdict is `failed`, with reasons.

    Raises:
        MeasurementError: an argument has the wrong type or shape, T_b_c is not rigid, or there are
            too few keyframes.
        DatasetError: the samples do not cover the keyframes or have a gap.
    """
    T_b_c = as_transform(T_b_c, "T_b_c")
    config, limits = config or DEFAULT_CONFIG, limits or DEFAULT_LIMITS
    require_arguments(imu, vision, config)
    require_type(limits, InitLimits, "limits", "InitLimits()")
    require_window(imu, vision)

    solved = solve_window(imu, vision, T_b_c, config)
    if premises is not None:
        evidence = Evidence(with_window_samples(premises, imu))
    else:
        evidence = _window_evidence(imu, solved, T_b_c, config)
    return judge_initialization(
        solved.state,
        solved.posterior,
        solved.report,
        solved.vision,
        solved.rotations,
        imu.bias_prior,
        limits,
        evidence,
        config.gravity_norm,
    )


def solve_window(
    imu: ImuMeasurements, vision: RelativePoses, T_b_c: Array, config: SolverConfig
) -> "SolvedWindow":
    """Estimate of `initialize` before its verdict: motions chosen, outliers rejected, Eq. 9."""
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


def _window_evidence(
    imu: ImuMeasurements, solved: "SolvedWindow", T_b_c: Array, config: SolverConfig
) -> Evidence:
    """Evidence of the window about the constants."""
    report, freed = solved.report, None
    if solved.posterior is not None and report.converged:
        freed = free_constants(imu, solved.vision, solved.state, config, solved.pre)
        if report.rejected:
            # Wrong constants make poses look like outliers: others may explain all of them.
            of_all = free_constants(imu, solved.all_poses, solved.state, config, solved.pre)
            if of_all is not None and of_all.inflation <= report.inflation:
                freed = of_all
    # Wrong axes fit worse than the stated noise; where nothing does, no others can fit better.
    misfit = report.inflation > 1.0
    if freed is not None and not misfit and not report.rejected:
        return Evidence(None, True, freed, tuple(samples_contradicted(imu)))
    premises = window_premises(imu, solved.vision, T_b_c, config.rule, misfit)
    return Evidence(premises, True, freed)


def require_arguments(imu: ImuMeasurements, vision: RelativePoses, config: SolverConfig) -> None:
    """Raise unless the arguments are measurements, not raw samples or images."""
    require_type(
        imu, ImuMeasurements, "imu", "raw_model(samples, noise) or a learned model makes them"
    )
    require_type(vision, RelativePoses, "vision", "RelativePoses(stamps_ns, Ts_ck_ck1, covs)")
    require_type(config, SolverConfig, "config", "SolverConfig()")


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
