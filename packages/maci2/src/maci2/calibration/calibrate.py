"""Calibration with its verdict: pose of the camera on the IMU, from motion alone."""

import time
from dataclasses import replace

from maci2.calibration.position_delay import one_instant, position_delay
from maci2.consistency import (
    CalibrationLimits,
    judge_calibration,
    mounting_checks,
    require_arguments,
    window_constants,
)
from maci2.consistency.verdict import MeasuredScale
from maci2.errors import OptionError
from maci2.estimator import CalibrationResult, SolverConfig
from maci2.estimator.calibrate import (
    NOTHING_KNOWN,
    MountingPrior,
    calibration_covariance,
    calibration_progress,
    frame_covariance,
    measured_scale,
    solve_from_nothing,
    with_frame,
)
from maci2.estimator.outliers import with_choice
from maci2.estimator.problem import DEFAULT_CONFIG
from maci2.estimator.results import state_and_posterior
from maci2.imu import ImuMeasurements
from maci2.validation import require_type
from maci2.vision import RelativePoses


def calibrate(
    imu: ImuMeasurements,
    vision: RelativePoses,
    config: SolverConfig | None = None,
    limits: CalibrationLimits | None = None,
    mounting: MountingPrior | None = None,
) -> CalibrationResult:
    """Estimate the extrinsics T_b_c of the camera of `vision`, with all states of the motion.

    First the rotation (Eq. 8, which needs neither gravity nor velocities), then the lever arm in
    closed form, then everything jointly (Eq. 9), with biases as the random walks of `imu`.

    Args:
        imu: IMU measurements from `raw_model`, `datasheet_model` or `ImuModel.measure`; they must
            cover the keyframes.
        vision: relative poses of at least four keyframes, with covariances; rotation about two
            axes or more makes the extrinsics observable.
        config: choices of the solver; gravity has its known norm and both biases are estimated.
        limits: largest errors of the extrinsics that the verdict `ok` allows.
        mounting: prior of the extrinsics, for motion that does not determine all of them; none by
            default.

    Returns:
        State with `T_b_c`, posterior covariance, report and verdict, whose reasons name the axes
        that are not observable and the motion that would help. Biases are those at the last
        keyframe.

    Raises:
        MeasurementError: an argument has the wrong type, or there are too few keyframes.
        OptionError: the configuration has a choice that only `initialize` supports.
        DatasetError: the samples do not cover the keyframes or have a gap.
    """
    began = time.perf_counter()
    config, limits = config or DEFAULT_CONFIG, limits or CalibrationLimits()
    mounting = mounting or NOTHING_KNOWN
    require_arguments(imu, vision, config)
    _require_choices(config)
    require_type(limits, CalibrationLimits, "limits", "CalibrationLimits()")

    solved, choice, aligned = solve_from_nothing(imu, vision, mounting, config)
    vision, solution = choice.vision, solved.solution
    cov = calibration_covariance(solution)
    frame = frame_covariance(vision.std_frame, solution.shared.T_b_c)
    state, posterior = state_and_posterior(solution, cov, imu, solved.stamps_ns)
    if posterior is not None:
        posterior = with_frame(posterior, frame, state.T_b_c)
    scale = measured_scale(vision, solved)
    progress = calibration_progress(solved, frame)
    report = replace(solved.report(cov), solve_ms=1e3 * (time.perf_counter() - began))
    report = with_choice(report, choice)
    constants = window_constants(imu, vision, state.T_b_c, config.rule, False)
    checks = [one_instant(position_delay(imu, solution))]
    if posterior is not None:
        checks += mounting_checks(mounting, state.T_b_c, posterior.T_b_c)
    return judge_calibration(
        state,
        posterior,
        report,
        vision,
        aligned,
        limits,
        scale and MeasuredScale(*scale),
        constants,
        progress,
        checks,
    )


def _require_choices(config: SolverConfig) -> None:
    """Raise where the configuration asks for what a chain of states does not have."""
    fixed = {
        "gravity_on_sphere": True,
        "estimate_gyro_bias": True,
        "estimate_acc_bias": True,
        "imu_cross_terms": True,
        "imu_identity": False,
        "rule": "midpoint",
    }
    for name, needed in fixed.items():
        if getattr(config, name) != needed:
            raise OptionError(
                f"SolverConfig.{name} is {getattr(config, name)!r}, needed {needed!r} for "
                "`calibrate`; only `initialize` knows the other."
            )
