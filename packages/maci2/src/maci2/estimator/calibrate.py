"""Calibration before its verdict: pose of the camera on the IMU, from motion alone, without target
or guess.

First the rotation (Eq. 8, which needs neither gravity nor velocities), then the lever arm in closed
form, then everything jointly (Eq. 9), with biases as random walks.
"""

from dataclasses import dataclass
from itertools import permutations, product
from typing import TYPE_CHECKING

import numpy as np

from maci2.calibration_prior import UNKNOWN
from maci2.estimator.initial_guess import (
    OFFSET_STD_S,
    RotationAlignment,
    align_rotations,
    lever_arm,
    on_imu_clock,
    rotation_from_rates,
    start_values,
)
from maci2.estimator.initialize import (
    Solved,
    camera_motions,
    free_with_prior,
    solve_motion,
)
from maci2.estimator.outliers import MotionChoice, choose_motions
from maci2.estimator.problem import (
    CAMERA,
    CAMERA_CLOCK,
    GRAVITY_NORM,
    SCALE,
    SHARED,
    Free,
    Problem,
    Shared,
    SolverConfig,
    shared_parameters,
)
from maci2.estimator.results import first_camera_guess
from maci2.estimator.solver import SolverOptions
from maci2.geometry.se3 import se3
from maci2.imu import ImuMeasurements, preintegrate
from maci2.types import Array, Mat4

if TYPE_CHECKING:
    from maci2.vision import RelativePoses

ROTATION_KNOWN = np.deg2rad(1.0)
"""Rotations alone place the camera if no direction of R_b_c is less certain than this [rad]. Mere
noise, taken for rotation, looks like a few degrees."""

LEAST_WALK_GYRO, LEAST_WALK_ACC = 1e-7, 1e-5
"""Random walks where a bias is said to stay: over minutes below what can be measured, and not so
stiff that digits are lost."""

AXIS_ROTATIONS = [
    R
    for order in permutations(range(3))
    for signs in product((1.0, -1.0), repeat=3)
    if np.linalg.det(R := np.diag(signs)[list(order)]) > 0.0
]
"""The 24 rotations between two sets of axes."""


@dataclass(frozen=True)
class MountingPrior:
    """Prior knowledge of the extrinsics, before any motion."""

    T_b_c: Mat4
    """Pose of the camera in the body [m]."""

    std: Array
    """(6,) standard deviations, left perturbation, order [rho, phi], [m, rad]; infinity where
    nothing is known."""


NOTHING_KNOWN = MountingPrior(np.eye(4), np.array([UNKNOWN.lever_m] * 3 + [np.inf] * 3))
"""A camera somewhere on the device, within a metre or so of its IMU."""


def solve_from_nothing(
    imu: ImuMeasurements, vision: "RelativePoses", mounting: MountingPrior, config: SolverConfig
) -> tuple[Solved, MotionChoice, RotationAlignment]:
    """The solved calibration, with vision on the IMU's clock and motions selected by the IMU, and
    the extrinsic rotation estimated from rotations alone."""
    vision, offset_s = on_imu_clock(imu, vision, config)
    solved, aligned = _solved(imu, vision, offset_s, mounting, config)
    # Extrinsics first: without them the IMU cannot predict a camera's motion.
    choice = choose_motions(imu, vision, solved.solution.shared.T_b_c, config)
    if choice.vision is not vision:
        solved, aligned = _solved(imu, choice.vision, offset_s, mounting, config)
    return solved, choice, aligned


def _solved(
    imu: ImuMeasurements,
    vision: "RelativePoses",
    offset_s: float,
    mounting: MountingPrior,
    config: SolverConfig,
) -> tuple[Solved, RotationAlignment]:
    """The best solution from all rotations to start from, and the one from rotations alone."""
    prior = imu.bias_prior
    pre = preintegrate(imu, vision.stamps_ns, prior.mean_gyro, prior.mean_acc, config.rule)
    R_b_c = rotation_from_rates(pre, vision)
    rough = align_rotations(pre, vision, R_b_c, prior, True)
    pre = preintegrate(imu, vision.stamps_ns, rough.bias_gyro, prior.mean_acc, config.rule)
    aligned = align_rotations(pre, vision, rough.R_b_c, prior, True)

    # Rotations decide, or a prior; else accelerations may still distinguish ways to mount a camera.
    starts, solutions = [aligned], []
    if np.isfinite(mounting.std[3:]).all():
        R_b_c = np.ascontiguousarray(mounting.T_b_c[:3, :3])
        starts = [align_rotations(pre, vision, R_b_c, prior, False)]
    elif np.linalg.eigvalsh(aligned.cov[3:6, 3:6])[-1] >= ROTATION_KNOWN**2:
        starts = [align_rotations(pre, vision, R, prior, True) for R in AXIS_ROTATIONS]
    for start in starts:
        T_b_c = se3(start.R_b_c, lever_arm(pre, vision, start.R_b_c, prior))
        guess = first_camera_guess(
            *start_values(pre, vision, T_b_c, config.gravity_norm),
            start.bias_gyro,
            prior.mean_acc,
            T_b_c,
        )
        problem = calibration_problem(imu, vision, guess[1], mounting, config, offset_s)
        options = SolverOptions(max_iterations=config.max_iterations)
        solutions.append(solve_motion(problem, *guess, offset_s, config.robust, options))
    return min(solutions, key=lambda s: (not s.solution.converged, s.first.cost)), aligned


def calibration_problem(
    imu: ImuMeasurements,
    vision: "RelativePoses",
    shared: Shared,
    mounting: MountingPrior,
    config: SolverConfig,
    offset_s: float = 0.0,
) -> Problem:
    """All keyframes, connected by IMU and camera; extrinsics, gravity and whatever else is free
    shared, as they are in the initial guess."""
    std = np.zeros(SHARED)
    std[CAMERA], std[SCALE] = mounting.std, vision.std_scale
    std[CAMERA_CLOCK] = OFFSET_STD_S * config.estimate_time_offset
    T_b_c = mounting.T_b_c
    if not np.isfinite(mounting.std[3:]).any():
        # A twist from far away is no lever arm: count from the rotation at hand.
        T_b_c = se3(np.ascontiguousarray(shared.T_b_c[:3, :3]), T_b_c[:3, 3])
    norm = float(shared.scalars[GRAVITY_NORM])
    nominal = shared_parameters(shared.R_w_g, T_b_c, gravity_norm=norm, camera_clock_s=-offset_s)
    free, prior = free_with_prior(imu.bias_prior, nominal, std, Free(gravity=True))
    return Problem(
        imu,
        vision.stamps_ns,
        max(imu.walk_gyro, LEAST_WALK_GYRO),
        max(imu.walk_acc, LEAST_WALK_ACC),
        free,
        (camera_motions(vision, np.flatnonzero(vision.measured)),),
        priors=(prior,),
        first_pose_fixed=True,
    )
