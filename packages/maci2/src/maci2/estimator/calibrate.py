"""Calibration before its verdict: pose of the camera on the IMU, from motion alone, without target
or guess.

First the rotation (Eq. 8, which needs neither gravity nor velocities), then the lever arm in closed
form, then everything jointly (Eq. 9), with biases as random walks.
"""

from dataclasses import dataclass, replace
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
    determined_covariance,
    free_with_prior,
    solve_motion,
    with_loss,
)
from maci2.estimator.outliers import MotionChoice, choose_motions
from maci2.estimator.problem import (
    CAMERA,
    CAMERA_CLOCK,
    GRAVITY_NORM,
    SCALE,
    SHARED,
    STATE,
    Free,
    Loss,
    Problem,
    Shared,
    SolverConfig,
    shared_parameters,
)
from maci2.estimator.results import CalibrationStage, Posterior, first_camera_guess
from maci2.estimator.solver import SolverOptions, solve
from maci2.geometry.se3 import se3, se3_adj, se3_inv, se3_log
from maci2.imu import ImuMeasurements, preintegrate
from maci2.types import NS, Array, Mat4

if TYPE_CHECKING:
    from maci2.vision import RelativePoses

ROTATION_KNOWN = np.deg2rad(1.0)
"""Rotations alone place the camera if no direction of R_b_c is less certain than this [rad]. Mere
noise, taken for rotation, looks like a few degrees."""

LEAST_WALK_GYRO, LEAST_WALK_ACC = 1e-7, 1e-5
"""Random walks where a bias is said to stay: over minutes below what can be measured, and not so
stiff that digits are lost."""

ANY_SCALE = 0.4
"""Standard deviation of the prior of the logarithm of a scale that is to be estimated freely."""

STAGE_S = 10.0
MOST_STAGES = 30
"""Largest number of stages of progress; longer calibrations have longer stages."""

SHORTEST_REST = 0.3
"""A last stage shorter than this fraction of the others is merged with the one before."""

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


def measured_scale(vision: "RelativePoses", solved: Solved) -> tuple[float, float] | None:
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


def calibration_progress(solved: Solved, frame: Array) -> tuple[CalibrationStage, ...]:
    """Extrinsics and their standard deviations after every ten seconds, from that part alone.

    Each stage is solved on its own from the final answer, with the noise that all of it showed;
    `frame` (6, 6) is uncertainty of the camera frame, which no motion removes.
    """
    stamps_ns = solved.solution.problem.stamps_ns
    length_s = float(stamps_ns[-1] - stamps_ns[0]) / NS
    stage_s = STAGE_S * max(1, int(np.ceil(length_s / (STAGE_S * MOST_STAGES))))
    counts = range(1, int(length_s / stage_s - SHORTEST_REST) + 1)
    ends = [
        int(np.searchsorted(stamps_ns, stamps_ns[0] + i * stage_s * NS, "right")) for i in counts
    ]
    ends = [n for n in ends if 4 <= n < len(stamps_ns)]
    stages = [_stage(solved, n, frame) for n in (*ends, len(stamps_ns))]
    return tuple(stage for stage in stages if stage is not None)


def _stage(solved: Solved, n: int, frame: Array) -> CalibrationStage | None:
    """Answer of the first n keyframes; None where they give none."""
    whole, problem = solved.solution, solved.solution.problem
    problem = replace(
        problem,
        stamps_ns=problem.stamps_ns[:n],
        camera=tuple(stack.part(0, n - 1) for stack in problem.camera),
    )
    solution = solve(
        problem, whole.states.part(slice(n)), whole.shared, SolverOptions(max_rounds=2)
    )
    cov = determined_covariance(solution) if solution.converged else None
    if cov is None:
        return None
    seconds = float(problem.stamps_ns[-1] - problem.stamps_ns[0]) / NS
    moved = se3_log(solution.shared.T_b_c @ se3_inv(whole.shared.T_b_c))
    std = np.sqrt(np.diag(cov.shared[CAMERA, CAMERA] + frame))
    return CalibrationStage(seconds, std, moved)
