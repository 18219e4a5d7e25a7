"""Calibration with its verdict: pose of the camera on the IMU, from motion alone."""

import time
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from maci2.calibration.progress import calibration_progress
from maci2.calibration_prior import CALIBRATED
from maci2.consistency import (
    FAR,
    CalibrationLimits,
    Check,
    judge_calibration,
    require_arguments,
    window_constants,
)
from maci2.errors import MeasurementError, OptionError
from maci2.estimator import CalibrationResult, Posterior, SolverConfig
from maci2.estimator.calibrate import NOTHING_KNOWN, MountingPrior, solve_from_nothing
from maci2.estimator.initialize import Solved, SolvedWindow, determined_covariance, with_loss
from maci2.estimator.outliers import with_choice
from maci2.estimator.problem import DEFAULT_CONFIG, SCALE, SHARED, STATE, Loss
from maci2.estimator.residuals import Response
from maci2.estimator.solver import Solution, covariance, solve
from maci2.geometry.se3 import se3_adj, se3_inv
from maci2.imu import ImuMeasurements
from maci2.types import Array
from maci2.validation import require_type
from maci2.vision import RelativePoses

ANY_SCALE = 0.4
"""Standard deviation of the prior of the logarithm of a scale that is to be estimated freely."""


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
    state, posterior, report = solved.answer(imu, exactly=True)
    frame = frame_covariance(vision.std_frame, state.T_b_c)
    scale = measured_scale(vision, solved)
    progress = calibration_progress(solved, frame)
    report = replace(report, solve_ms=1e3 * (time.perf_counter() - began))
    constants = window_constants(imu, vision, state.T_b_c, config.rule, False)
    delay = one_instant(position_delay(imu, solution))
    if posterior is not None:
        posterior = with_frame(posterior, frame, state.T_b_c)
    report = with_choice(report, choice)
    window = SolvedWindow(vision, vision, aligned, state, posterior, report, solved)
    return judge_calibration(window, limits, mounting, scale, constants, progress, delay)


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


def measured_scale(vision: RelativePoses, solved: Solved) -> tuple[float, float] | None:
    """Scale of translations that were taken as metric, around a calibration that is solved, and its
    standard deviation; None where it was an unknown already, or where nothing determines it.

    Squares: robust losses would take the scale's error for outliers.
    """
    problem = solved.solution.problem
    if vision.std_scale > 0.0:
        return None
    info = np.zeros((STATE + SHARED, STATE + SHARED))
    info[STATE + SCALE, STATE + SCALE] = ANY_SCALE**-2.0
    (prior,) = problem.priors
    problem = replace(
        problem,
        free=replace(problem.free, scale=True),
        priors=(replace(prior, info=prior.info + info),),
    )
    again = solve(with_loss(problem, Loss()), solved.solution.states, solved.solution.shared)
    cov = determined_covariance(again) if again.converged else None
    if cov is None:
        return None
    scale = float(np.exp(again.shared.scalars[SCALE]))
    return scale, scale * float(np.sqrt(cov.shared[SCALE, SCALE]))


def frame_covariance(std_frame: tuple[float, float], T_b_c: Array) -> Array:
    """(6, 6) uncertainty of the camera frame itself, seen from the body: T_b_c Exp(xi)."""
    adj_b_c = se3_adj(T_b_c)
    return np.asarray(adj_b_c @ np.diag(np.repeat(std_frame, 3) ** 2) @ adj_b_c.T)


def with_frame(posterior: Posterior, frame: Array, T_b_c: Array) -> Posterior:
    """The posterior with uncertainty of the camera frame itself, which no motion removes."""
    adj_c_b = se3_adj(se3_inv(T_b_c))
    poses = posterior.Ts_c0_b.copy()
    # The first pose is the inverse extrinsics: xi_0 = -Ad(T_c_b) xi_bc.
    poses[0] += adj_c_b @ frame @ adj_c_b.T
    return replace(posterior, Ts_c0_b=poses, T_b_c=posterior.T_b_c + frame)


class PositionDelay(NamedTuple):
    """How much later than its orientations a camera's positions were taken [s].

    A camera sees both at once. A laser tracker beside an IMU, a filtered trajectory, or an
    accelerometer that is stamped later than its gyroscope does not, and a delay between the two
    looks like a lever arm of centimetres.
    """

    delay_s: float
    std_s: float


def position_delay(imu: ImuMeasurements, solution: Solution) -> PositionDelay | None:
    """Delay that fits best around a calibration that is solved, everything else free; None where
    the motion does not determine it.

    A Newton step from no delay: chi-square of the optimum is a parabola in it. Squares, for robust
    losses would take the delay for outliers.
    """
    if not solution.converged:
        return None
    if solution.problem.camera[0].loss.kind != "none":
        squares = with_loss(solution.problem, Loss())
        solution = solve(squares, solution.states, solution.shared)
    try:
        response = Response(solution, covariance(solution))
    except MeasurementError:
        return None
    motions = solution.measurements.motions
    moved = _moved_by_a_second(imu, solution)[motions.state]
    by_delay = motions.white[:, :, :3] @ moved[:, :, None]
    gradient, gradient_shared = response.gradients(by_delay)
    followed, followed_shared = response.solved(gradient, gradient_shared)
    curvature = float(
        np.sum(by_delay**2)
        - np.sum(gradient * followed)
        - np.sum(gradient_shared * followed_shared)
    )
    if not curvature > 0.0:
        return None
    slope = float(np.sum(by_delay[:, :, 0] * response.r))
    return PositionDelay(-slope / curvature, curvature**-0.5)


def _moved_by_a_second(imu: ImuMeasurements, solution: Solution) -> Array:
    """(n - 1, 3) change of each relative translation by a delay of a second: that of the camera's
    velocity, in the camera where the motion begins."""
    states, T_b_c = solution.states, solution.shared.T_b_c
    stamps_ns, R_w_b = solution.problem.stamps_ns, states.Ts_w_b[:, :3, :3]
    rates = [np.interp(stamps_ns, imu.stamps_ns, axis) for axis in imu.gyro.T]
    omega_b = np.stack(rates, axis=1) - states.bias_gyro
    v_w = states.v_w + np.einsum("kij,kj->ki", R_w_b, np.cross(omega_b, T_b_c[:3, 3]))
    R_w_c = R_w_b @ T_b_c[:3, :3]
    return np.asarray(np.einsum("kji,kj->ki", R_w_c[:-1], np.diff(v_w, axis=0)))


def one_instant(delay: PositionDelay | None) -> Check:
    """Positions and orientations that are not of one instant, in words."""
    if delay is None or abs(delay.delay_s) <= FAR * np.hypot(delay.std_s, CALIBRATED.acc_clock_s):
        return Check("ok")
    side = "late" if delay.delay_s > 0.0 else "early"
    return Check(
        "weak",
        f"the camera's positions are {1e3 * abs(delay.delay_s):.1f} +- {1e3 * delay.std_s:.1f} ms "
        f"{side} against its orientations, which looks like a lever arm: audit a ground truth that "
        "they are made of (`--truth audited`), or check the accelerometer's timestamps against the "
        "gyroscope's",
    )
