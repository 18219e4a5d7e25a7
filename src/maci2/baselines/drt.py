"""DRT, the rotation-translation-decoupled initialization of He et al. (CVPR 2023): tight and loose.

One camera. Gyroscope bias from the bearings of neighbouring keyframes, rotations by integration.
Tight (DRT-t): with those rotations every camera position is linear in start velocity and gravity,
t_k = v_0 t + g t^2 / 2 + alpha_k + R_k p_bc - p_bc, and every track gives linear rows of positions:
six unknowns are left. Loose (DRT-l): the rows are solved for the positions up to scale, then
velocities, gravity and scale come from VINS-Mono's linear rows. Gravity has its norm in both, the
accelerometer bias is zero.

The public driver skips windows without excitation; here they are rejected, with a state.
"""

import numpy as np

from maci2.baselines.alignment import SCALE_UNIT, raw_motion, scaled_motion_rows
from maci2.baselines.epipolar_bias import BiasFit, cauchy, fit_bias
from maci2.baselines.excitation import is_excited
from maci2.baselines.global_translation import depth_signs, translation_rows
from maci2.baselines.integrated_motion import IntegratedMotion, integrated
from maci2.baselines.segment import Answer, Segment
from maci2.baselines.sphere import solve_on_sphere
from maci2.baselines.stages import stage
from maci2.baselines.view_pairs import neighbouring_pairs
from maci2.estimation import VIState
from maci2.imu import Preintegrated
from maci2.types import Array

LOSS_SCALE = 1e-5
"""Scale of Cauchy's loss of the smallest eigenvalues."""

MIN_MATCHES = 8
"""Matches below which two keyframes have no epipolar geometry."""


def drt_tight(segment: Segment) -> Answer:
    """Initial velocity and gravity in one solve of six unknowns."""
    fit = epipolar_bias(segment)
    motion = integrated(raw_motion(segment, fit.bias))
    v0_b0, gravity_b0 = solve_tight(segment, motion)
    state = motion.state(segment, v0_b0, gravity_b0, fit.bias, np.zeros(3))
    return answer_of(segment, fit, state)


def drt_loose(segment: Segment) -> Answer:
    """Camera positions first, then velocities, gravity and scale."""
    fit = epipolar_bias(segment)
    pre = raw_motion(segment, fit.bias)
    Rs_c0_b, p_c0_c = loose_translation(segment, integrated(pre))
    x = align_on_sphere(segment, pre, Rs_c0_b, p_c0_c)
    state = aligned_state(segment, Rs_c0_b, p_c0_c, x, fit.bias)
    return answer_of(segment, fit, state, float(x[-1]) / SCALE_UNIT)


def epipolar_bias(segment: Segment, weights: Array | None = None) -> BiasFit:
    """Gyroscope bias from the left bearings of neighbouring keyframes."""
    tracks = segment.tracks
    fewest = int((tracks.seen[:, :-1] & tracks.seen[:, 1:]).sum(axis=0).min())
    if fewest < MIN_MATCHES:
        raise np.linalg.LinAlgError(f"{fewest} matches of two keyframes, needed {MIN_MATCHES}")
    pairs = neighbouring_pairs(tracks, raw_motion(segment), segment.T_b_c[:3, :3], weights)
    return fit_bias(pairs, cauchy(LOSS_SCALE))


@stage("closed form")
def solve_tight(segment: Segment, motion: IntegratedMotion) -> tuple[Array, Array]:
    """Initial velocity and gravity of known norm in the first body, by unweighted rows."""
    R_b_c, p_b_c = segment.T_b_c[:3, :3], segment.T_b_c[:3, 3]
    rows = translation_rows(segment.tracks, motion.Rs_b0_b @ R_b_c)
    known = motion.alpha + motion.Rs_b0_b @ p_b_c - p_b_c
    by_v0 = np.einsum("mikj,k->mij", rows, motion.t)
    by_gravity = np.einsum("mikj,k->mij", rows, 0.5 * motion.t**2)
    J = np.concatenate([by_v0, by_gravity], axis=2).reshape(-1, 6)
    right = -np.einsum("mikj,kj->mi", rows, known).ravel()
    x = solve_on_sphere(J.T @ J, J.T @ right, slice(3, 6), segment.gravity_norm)
    return x[:3], x[3:]


@stage("closed form")
def loose_translation(segment: Segment, motion: IntegratedMotion) -> tuple[Array, Array]:
    """Body rotations and camera positions in c0; positions up to a scale above zero."""
    R_b_c = segment.T_b_c[:3, :3]
    Rs_c0_b = R_b_c.T @ motion.Rs_b0_b
    Rs_c0_c = Rs_c0_b @ R_b_c
    rows = translation_rows(segment.tracks, Rs_c0_c)
    free = rows[:, :, 1:].reshape(-1, 3 * (len(motion.t) - 1))
    direction = np.linalg.eigh(free.T @ free)[1][:, 0]
    p_c0_c = np.vstack([np.zeros(3), direction.reshape(-1, 3)])
    in_front = depth_signs(segment.tracks, Rs_c0_c, p_c0_c) > 0.0
    return Rs_c0_b, p_c0_c if in_front.mean() >= 0.5 else -p_c0_c


@stage("closed form")
def align_on_sphere(segment: Segment, pre: Preintegrated, Rs_c0_b: Array, p_c0_c: Array) -> Array:
    """Unknowns [velocities, gravity, 100 s] by VINS-Mono's rows, gravity with known norm."""
    rows, right = scaled_motion_rows(pre, Rs_c0_b, p_c0_c, segment.T_b_c[:3, 3])
    return solve_on_sphere(rows.T @ rows, rows.T @ right, slice(-4, -1), segment.gravity_norm)


def aligned_state(
    segment: Segment, Rs_c0_b: Array, p_c0_c: Array, x: Array, gyro_bias: Array
) -> VIState:
    """State from the solution of `align_on_sphere`."""
    Ts_c0_b = np.tile(np.eye(4), (len(Rs_c0_b), 1, 1))
    Ts_c0_b[:, :3, :3] = Rs_c0_b
    Ts_c0_b[:, :3, 3] = x[-1] / SCALE_UNIT * p_c0_c - Rs_c0_b @ segment.T_b_c[:3, 3]
    velocity_b = x[: 3 * len(Rs_c0_b)].reshape(-1, 3)
    return segment.state(x[-4:-1], velocity_b, gyro_bias, np.zeros(3), Ts_c0_b)


def answer_of(segment: Segment, fit: BiasFit, state: VIState, scale: float = 1.0) -> Answer:
    """Answer, accepted unless bias, scale or excitation are insufficient."""
    if not fit.converged:
        return Answer(False, "the gyroscope bias did not converge", state)
    if scale <= 0.0:
        return Answer(False, f"the scale comes out as {scale:.3f}, needed above 0", state)
    if not is_excited(segment):
        return Answer(
            False, "the mean specific force is gravity's to 0.5 %: too little excitation", state
        )
    return Answer(True, "", state)
