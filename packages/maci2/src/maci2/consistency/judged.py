"""Initialization from a short window (the paper's Fig. 4, both workflows): solve, then judge."""

from dataclasses import replace

from maci2.consistency.evidence import (
    MeasuredConstants,
    free_constants,
    window_constants,
)
from maci2.consistency.tests import dead_channels, sample_rate
from maci2.consistency.verdict import InitLimits, judge_initialization
from maci2.errors import MeasurementError
from maci2.estimator.initialize import SolvedWindow, solve_window
from maci2.estimator.problem import DEFAULT_CONFIG, SolverConfig
from maci2.estimator.results import InitResult
from maci2.imu import ImuMeasurements
from maci2.types import Array
from maci2.validation import as_transform, require_type
from maci2.vision import RelativePoses

DEFAULT_LIMITS = InitLimits()

MIN_KEYFRAMES = 4
MIN_SAMPLES_PER_STEP = 4
"""Fewer samples between keyframes make the preintegration covariance singular."""


def initialize(
    imu: ImuMeasurements,
    vision: RelativePoses,
    T_b_c: Array,
    config: SolverConfig | None = None,
    limits: InitLimits | None = None,
    constants: MeasuredConstants | None = None,
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
        constants: constants of the device measured so far (`maci2.consistency.Evidence`); without
            them, only this window tests the nominal ones. Extrinsics and scale that are neither
            confirmed nor contradicted are accepted and listed in `verdict.taken_as_given`; an `ok`
            then depends on them. `InitLimits(trust_constants=False)` makes such a result `weak`.

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
    solved = solve_window(imu, vision, T_b_c, config)
    if constants is None:
        constants, solves = _constants_of_window(imu, solved, T_b_c, config)
        report = replace(solved.report, solves=solved.report.solves + solves)
        solved = solved._replace(report=report)
    else:
        constants = constants.with_samples(imu)
    return judge_initialization(solved, imu.bias_prior, limits, constants, config.gravity_norm)


def require_arguments(imu: ImuMeasurements, vision: RelativePoses, config: SolverConfig) -> None:
    """Raise unless the arguments are measurements, not raw samples or images, of enough keyframes
    that are far enough apart for the IMU's rate."""
    require_type(
        imu, ImuMeasurements, "imu", "raw_model(samples, noise) or a learned model makes them"
    )
    require_type(vision, RelativePoses, "vision", "RelativePoses(stamps_ns, Ts_ck_ck1, covs)")
    require_type(config, SolverConfig, "config", "SolverConfig()")
    if len(vision) < MIN_KEYFRAMES:
        raise MeasurementError(
            f"the window has {len(vision)} keyframes, needed at least {MIN_KEYFRAMES}; give a "
            "longer window or more keyframes."
        )
    shortest_ns = int((vision.stamps_ns[1:] - vision.stamps_ns[:-1]).min())
    last = min(len(imu.stamps_ns), 1000) - 1
    period_ns = float(imu.stamps_ns[last] - imu.stamps_ns[0]) / last
    if shortest_ns < MIN_SAMPLES_PER_STEP * period_ns:
        raise MeasurementError(
            f"two keyframes are {shortest_ns / 1e6:.1f} ms apart but the IMU samples every "
            f"{period_ns / 1e6:.1f} ms; needed at least {MIN_SAMPLES_PER_STEP} samples between "
            "keyframes: take fewer keyframes."
        )


def _constants_of_window(
    imu: ImuMeasurements, solved: SolvedWindow, T_b_c: Array, config: SolverConfig
) -> tuple[MeasuredConstants, int]:
    """Constants measured by the window alone, and the number of solves it took."""
    report, freed, solves = solved.report, None, 0
    if solved.posterior is not None and report.converged:
        freed = free_constants(imu, solved.vision, solved.state, config, solved.spans)
        solves += freed.report.solves if freed is not None else 1
        if report.rejected:
            # Wrong constants make poses look like outliers: others may explain all of them.
            of_all = free_constants(imu, solved.all_poses, solved.state, config, solved.spans)
            solves += of_all.report.solves if of_all is not None else 1
            if of_all is not None and of_all.report.inflation <= report.inflation:
                freed = of_all
    # Wrong axes fit worse than the nominal noise; where nothing does, no others can fit better.
    misfit = report.inflation > 1.0
    if freed is not None and not misfit and not report.rejected:
        constants = MeasuredConstants(
            T_b_c,
            solved.vision.std_scale,
            dead_channels=dead_channels(imu),
            sample_rate=sample_rate(imu.stamps_ns, imu.rate_hz),
            is_complete=True,
            is_window=True,
        )
    else:
        constants = window_constants(imu, solved.vision, T_b_c, config.rule, misfit)
    return replace(constants, freed=freed), solves
