"""A solved calibration in the words of a result: the paper's state, its covariance, a report."""

import numpy as np

from maci2.calibration.calibration_problem import Guess
from maci2.calibration.calibration_solve import Solved
from maci2.chain import ChainPosterior, States, make_border
from maci2.chain.chain_state import (
    BIAS_ACC,
    BIAS_GYRO,
    CAMERA,
    CAMERA_CLOCK,
    CAMERA_CLOCK_AT,
    GRAVITY,
    LOG_SCALE_AT,
    POSITION,
    ROTATION,
    SCALE,
    VELOCITY,
)
from maci2.estimation import Posterior, SolveReport, VIState
from maci2.gaussian import symmetrize
from maci2.imu import ImuMeasurements
from maci2.lie import se3_adj, se3_inv, skew
from maci2.types import Array, Stamps, Vec3


def first_guess(
    stamps_ns: Stamps,
    offset_s: float,
    Ts_c0_b: Array,
    velocity_b: Array,
    gravity_c0: Array,
    bias_gyro: Vec3,
    bias_acc: Vec3,
    T_b_c: Array,
) -> Guess:
    """Initial values, in the words of the chain."""
    n = len(stamps_ns)
    norm = float(np.linalg.norm(gravity_c0))
    states = States(
        np.ascontiguousarray(Ts_c0_b),
        np.einsum("kij,kj->ki", Ts_c0_b[:, :3, :3], velocity_b),
        np.tile(bias_gyro, (n, 1)),
        np.tile(bias_acc, (n, 1)),
    )
    border = make_border(level_frame(-gravity_c0 / norm), T_b_c, gravity_norm=norm)
    return Guess(stamps_ns, offset_s, states, border)


def level_frame(up_w: Vec3) -> Array:
    """(3, 3) a frame whose z axis is `up_w`; its heading has no meaning."""
    x = np.cross(np.eye(3)[int(np.argmin(np.abs(up_w)))], up_w)
    x /= np.linalg.norm(x)
    return np.ascontiguousarray(np.stack([x, np.cross(up_w, x), up_w], axis=1))


def calibrated_state(solved: Solved, imu: ImuMeasurements) -> VIState:
    """Extrinsics, poses, velocities, gravity; biases of the raw sensor at the last keyframe."""
    states, border = solved.solution.states, solved.solution.border
    stamps_ns, Ts_c0_b = solved.guess.stamps_ns, states.Ts_w_b
    further_ns = round(1e9 * float(border.scalars[CAMERA_CLOCK_AT]))
    removed_gyro, removed_acc = imu.removed_bias(int(stamps_ns[0]), int(stamps_ns[-1]))
    return VIState(
        stamps_ns + further_ns,
        Ts_c0_b,
        np.einsum("kji,kj->ki", Ts_c0_b[:, :3, :3], states.v_w),
        -border.scalars[0] * border.R_w_g[:, 2],
        states.bias_gyro[-1] + removed_gyro,
        states.bias_acc[-1] + removed_acc,
        border.T_b_c,
        removed_gyro,
        removed_acc,
    )


def frame_covariance(std_frame: tuple[float, float], T_b_c: Array) -> Array:
    """(6, 6) doubt about the camera frame itself, seen from the body: T_b_c Exp(xi)."""
    adj_b_c = se3_adj(T_b_c)
    return np.asarray(adj_b_c @ np.diag(np.repeat(std_frame, 3) ** 2) @ adj_b_c.T)


def calibrated_posterior(solved: Solved, found: ChainPosterior, frame: Array) -> Posterior:
    """Covariances of that state: poses by left twists, velocities in their bodies. `frame` (6, 6)
    is what the camera frame itself adds to the extrinsics."""
    states, border = solved.solution.states, solved.solution.border
    cov_border = found.border
    cov_border[CAMERA, CAMERA] += frame
    R, p = states.Ts_w_b[:, :3, :3], states.Ts_w_b[:, :3, 3]
    to_pose, to_velocity = np.zeros((len(R), 6, 15)), np.zeros((len(R), 3, 15))
    v_b = np.einsum("kji,kj->ki", R, states.v_w)
    for k in range(len(R)):
        to_pose[k, 0:3, ROTATION], to_pose[k, 3:6, ROTATION] = skew(p[k]) @ R[k], R[k]
        to_velocity[k, :, ROTATION], to_velocity[k, :, VELOCITY] = skew(v_b[k]), R[k].T
    to_pose[:, 0:3, POSITION] = np.eye(3)
    poses = symmetrize(to_pose @ found.states @ np.swapaxes(to_pose, 1, 2))
    # The first pose is the inverse extrinsics: xi_0 = -Ad(T_c_b) xi_bc.
    adj_c_b = se3_adj(se3_inv(border.T_b_c))
    poses[0] = symmetrize(adj_c_b @ cov_border[CAMERA, CAMERA] @ adj_c_b.T)
    # Gravity moves by (y axis, -x axis) of the level frame.
    by_tilt = border.scalars[0] * np.stack([border.R_w_g[:, 1], -border.R_w_g[:, 0]], axis=1)
    last = found.states[-1]
    return Posterior(
        gravity_c0=symmetrize(by_tilt @ cov_border[GRAVITY, GRAVITY] @ by_tilt.T),
        Ts_c0_b=poses,
        velocity_b=symmetrize(to_velocity @ found.states @ np.swapaxes(to_velocity, 1, 2)),
        gyro_bias=last[BIAS_GYRO, BIAS_GYRO],
        acc_bias=last[BIAS_ACC, BIAS_ACC],
        T_b_c=symmetrize(cov_border[CAMERA, CAMERA]),
    )


def solve_report(solved: Solved, found: ChainPosterior | None, solve_ms: float) -> SolveReport:
    """How the optimization went, with scale and time offset where they were free."""
    scalars, choices = solved.solution.border.scalars, solved.choices
    std = np.full(20, np.nan) if found is None else np.sqrt(np.diag(found.border))
    scale = float(np.exp(scalars[LOG_SCALE_AT])) if choices.std_scale > 0.0 else None
    offset_s = solved.guess.offset_s + float(scalars[CAMERA_CLOCK_AT])
    return SolveReport(
        solved.solution.converged,
        solved.chi_square,
        solved.solution.dof,
        solved.iterations,
        solve_ms,
        choices.inflation,
        scale=scale,
        std_scale=None if scale is None else scale * float(std[SCALE]),
        time_offset_s=offset_s if choices.clock else None,
        std_time_offset_s=float(std[CAMERA_CLOCK]) if choices.clock else None,
    )
