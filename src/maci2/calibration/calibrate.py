"""Pose of the camera on the IMU, from motion alone: no target, no guess."""

import time
from itertools import permutations, product

import numpy as np

from maci2.boundary import require_type
from maci2.calibration.calibration_problem import NOTHING_KNOWN, Guess, MountingPrior
from maci2.calibration.calibration_progress import calibration_progress
from maci2.calibration.calibration_solve import Solved, measured_scale, solve_calibration
from maci2.calibration.calibration_state import (
    calibrated_posterior,
    calibrated_state,
    first_guess,
    frame_covariance,
    solve_report,
)
from maci2.calibration.position_delay import one_instant, position_delay
from maci2.consistency import (
    CalibrationLimits,
    judge_calibration,
    mounting_checks,
    require_arguments,
    window_constants,
)
from maci2.errors import OptionError
from maci2.estimation import CalibrationResult, SolverConfig
from maci2.estimation.config import DEFAULT_CONFIG
from maci2.estimation.initial_guess import lever_arm, start_values
from maci2.estimation.motion_choice import MotionChoice, choose_motions, with_choice
from maci2.estimation.rotation_alignment import (
    RotationAlignment,
    align_rotations,
    rotation_from_rates,
)
from maci2.estimation.time_offset import on_imu_clock
from maci2.imu import ImuMeasurements, Preintegrated, preintegrate
from maci2.lie import se3
from maci2.vision import RelativePoses

ROTATION_KNOWN = np.deg2rad(1.0)
"""Rotations alone place the camera if no direction of R_b_c is less certain than this [rad]. Mere
noise, taken for rotation, looks like a few degrees."""

AXIS_ROTATIONS = [
    R
    for order in permutations(range(3))
    for signs in product((1.0, -1.0), repeat=3)
    if np.linalg.det(R := np.diag(signs)[list(order)]) > 0.0
]
"""The 24 rotations between two sets of axes."""


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
    vision = choice.vision
    found = solved.posterior()
    frame = frame_covariance(vision.std_frame, solved.solution.border.T_b_c)
    posterior = None if found is None else calibrated_posterior(solved, found, frame)
    scale = measured_scale(imu, vision, solved, mounting, config)
    progress = calibration_progress(solved, frame)
    report = solve_report(solved, found, 1e3 * (time.perf_counter() - began))
    report = with_choice(report, choice)
    state = calibrated_state(solved, imu)
    constants = window_constants(imu, vision, state.T_b_c, config.rule, False)
    checks = [one_instant(position_delay(imu, vision, solved, mounting, config))]
    if posterior is not None:
        checks += mounting_checks(mounting, state.T_b_c, posterior.T_b_c)
    return judge_calibration(
        state, posterior, report, vision, aligned, limits, scale, constants, progress, checks
    )


def solve_from_nothing(
    imu: ImuMeasurements, vision: RelativePoses, mounting: MountingPrior, config: SolverConfig
) -> tuple[Solved, MotionChoice, RotationAlignment]:
    """The solved chain, with vision on the IMU's clock and motions selected by the IMU, and the
    extrinsic rotation estimated from rotations alone."""
    vision, offset_s = on_imu_clock(imu, vision, config)
    solved, aligned = _solved(imu, vision, offset_s, mounting, config)
    # Extrinsics first: without them the IMU says nothing of a camera's motion.
    choice = choose_motions(imu, vision, solved.solution.border.T_b_c, config)
    if choice.vision is not vision:
        solved, aligned = _solved(imu, choice.vision, offset_s, mounting, config)
    return solved, choice, aligned


def _solved(
    imu: ImuMeasurements,
    vision: RelativePoses,
    offset_s: float,
    mounting: MountingPrior,
    config: SolverConfig,
) -> tuple[Solved, RotationAlignment]:
    """The chain solved with vision on the IMU's clock, and the estimate from rotations alone."""
    prior = imu.bias_prior
    pre = preintegrate(imu, vision.stamps_ns, prior.mean_gyro, prior.mean_acc, config.rule)
    R_b_c = rotation_from_rates(pre, vision)
    rough = align_rotations(pre, vision, R_b_c, prior, True)
    pre = preintegrate(imu, vision.stamps_ns, rough.bias_gyro, prior.mean_acc, config.rule)
    aligned = align_rotations(pre, vision, rough.R_b_c, prior, True)

    solutions = [
        solve_calibration(
            imu, vision, _guess(imu, vision, pre, start, config, offset_s), mounting, config
        )
        for start in _rotations_to_try(imu, vision, pre, aligned, mounting)
    ]
    best = min(solutions, key=lambda s: (not s.solution.converged, s.chi_square))
    return best, aligned


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


def _rotations_to_try(
    imu: ImuMeasurements,
    vision: RelativePoses,
    pre: Preintegrated,
    aligned: RotationAlignment,
    mounting: MountingPrior,
) -> list[RotationAlignment]:
    """One initial guess where rotations decide, or a prior; else one for each way the camera may be
    mounted, since accelerations may still tell them apart."""
    if np.isfinite(mounting.std[3:]).all():
        R_b_c = np.ascontiguousarray(mounting.T_b_c[:3, :3])
        return [align_rotations(pre, vision, R_b_c, imu.bias_prior, False)]
    if np.sqrt(np.linalg.eigvalsh(aligned.cov[3:6, 3:6])[-1]) < ROTATION_KNOWN:
        return [aligned]
    return [align_rotations(pre, vision, R, imu.bias_prior, True) for R in AXIS_ROTATIONS]


def _guess(
    imu: ImuMeasurements,
    vision: RelativePoses,
    pre: Preintegrated,
    start: RotationAlignment,
    config: SolverConfig,
    offset_s: float,
) -> Guess:
    T_b_c = se3(start.R_b_c, lever_arm(pre, vision, start.R_b_c, imu.bias_prior))
    Ts_c0_b, v_b, g_c0 = start_values(pre, vision, T_b_c, config.gravity_norm)
    mean_acc = np.asarray(imu.bias_prior.mean_acc, dtype=np.float64)
    return first_guess(
        vision.stamps_ns, offset_s, Ts_c0_b, v_b, g_c0, start.bias_gyro, mean_acc, T_b_c
    )
