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

from maci2.estimator import VIState
from maci2.feature_tracks.tracks import FeatureTracks
from maci2.geometry import skew, so3_exp
from maci2.geometry.se3 import skew_stack, stack_poses
from maci2.imu import Preintegrated
from maci2.types import Array
from maci2_lab.baselines.alignment import (
    SCALE_UNIT,
    IntegratedMotion,
    integrated,
    raw_motion,
    scaled_motion_rows,
    solve_on_sphere,
    velocities_between,
)
from maci2_lab.baselines.bundle_adjustment import upright
from maci2_lab.baselines.epipolar import BiasFit, cauchy, fit_bias, neighbouring_pairs
from maci2_lab.baselines.segment import Answer, Segment, is_excited, stage

MIN_VIEWS = 3


def translation_rows(tracks: FeatureTracks, Rs_w_c: Array) -> Array:
    """(m, 3, n, 3) rows by the positions of the n cameras; three for each track and further view.

    Linear global translation: camera positions from tracks when all rotations are known (Cai et
    al., TPAMI 2021), as DRT uses it.

    Of the views of a track, l and r see the point under the largest angle. Every further view i
    says

        B t_r + C t_i - (B + C) t_l = 0,   B = [f_i]x R_il f_l a',   C = theta^2 [f_i]x R_i',
        a' = (R_rl f_l x f_r)' [f_r]x R_r',   theta = |f_r x R_rl f_l|,

    with t_k the camera's position and R_k its rotation in a common frame: the point is eliminated.

    `Rs_w_c` (n, 3, 3) are the rotations of the left cameras.
    """
    chosen = tracks.seen.sum(axis=1) >= MIN_VIEWS
    seen, f = tracks.seen[chosen], tracks.bearings[chosen]
    rays_w = np.einsum("kij,pkj->pki", Rs_w_c, np.where(seen[:, :, None], f, 0.0))
    left, right = _widest(rays_w)
    point, view = np.nonzero(seen)
    further = (view != left[point]) & (view != right[point])
    point, view = point[further], view[further]
    at_l, at_r = left[point], right[point]
    # Everything turned into the common frame: [f_i]x R_i' x = R_i' (R_i f_i) x x.
    ray_l, ray_r, ray_i = rays_w[point, at_l], rays_w[point, at_r], rays_w[point, view]
    into_i = np.swapaxes(Rs_w_c[view], 1, 2)
    aside = np.cross(ray_l, ray_r)
    a = np.cross(aside, ray_r)
    B = (into_i @ np.cross(ray_i, ray_l)[:, :, None]) * a[:, None, :]
    theta2 = np.sum(aside**2, axis=1)
    C = theta2[:, None, None] * (into_i @ skew_stack(ray_i))
    rows = np.zeros((len(point), 3, len(Rs_w_c), 3))
    every = np.arange(len(point))
    rows[every, :, at_r] += B
    rows[every, :, view] += C
    rows[every, :, at_l] -= B + C
    return rows


def depth_signs(tracks: FeatureTracks, Rs_w_c: Array, p_w_c: Array) -> Array:
    """(m,) depth of each track's point in its view l, up to a positive factor, for positions
    (n, 3): cheirality asks that these be positive."""
    chosen = tracks.seen.sum(axis=1) >= MIN_VIEWS
    seen, f = tracks.seen[chosen], tracks.bearings[chosen]
    rays_w = np.einsum("kij,pkj->pki", Rs_w_c, np.where(seen[:, :, None], f, 0.0))
    left, right = _widest(rays_w)
    every = np.arange(len(rays_w))
    ray_l, ray_r = rays_w[every, left], rays_w[every, right]
    moved = np.cross(ray_r, p_w_c[right] - p_w_c[left])
    return np.asarray(np.sum(np.cross(ray_r, ray_l) * moved, axis=1), np.float64)


def _widest(rays_w: Array) -> tuple[Array, Array]:
    """The two views of each track (p, n, 3) that see its point under the largest angle."""
    n = rays_w.shape[1]
    first, second = np.triu_indices(n, 1)
    angles = np.sum(np.cross(rays_w[:, first], rays_w[:, second]) ** 2, axis=2)
    best = angles.argmax(axis=1)
    return first[best], second[best]


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
    scale, velocity_b = float(x[-1]) / SCALE_UNIT, x[: 3 * len(Rs_c0_b)].reshape(-1, 3)
    Ts_c0_b = body_poses(segment, Rs_c0_b, p_c0_c, scale)
    state = segment.state(x[-4:-1], velocity_b, fit.bias, np.zeros(3), Ts_c0_b)
    return answer_of(segment, fit, state, scale)


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


def body_poses(segment: Segment, Rs_c0_b: Array, p_c0_c: Array, scale: float) -> Array:
    """(n, 4, 4) T_c0_b from body rotations and camera positions up to scale."""
    return stack_poses(Rs_c0_b, scale * p_c0_c - Rs_c0_b @ segment.T_b_c[:3, 3])


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


WEIGHT_UNIT = 1e-8


def drt_pnec(segment: Segment) -> Answer:
    """DRT-PNEC (Mu et al., 2025): DRT-l with epipolar planes weighted by the points' covariances.

    Each normal vector of the gyroscope bias' cost is scaled by sqrt(w),

        w = 1e-8 / (t' [f_1]x R S_2 R' [f_1]x' t),

    with S_2 the covariance of the second bearing, here that of the tracks (the original takes it
    from the image patch), and t, R the IMU's own, alpha and gamma of the same interval. After the
    alignment scale and gravity are solved once more: velocities are eliminated over three
    keyframes,

        l s + F dtheta = d,   l = (p_3 - p_2) dt_12 - (p_2 - p_1) dt_23,

    with gravity R_wi Exp(dtheta) (0, 0, G) linear in two angles.
    """
    fit = epipolar_bias(segment, epipolar_weights(segment))
    pre = raw_motion(segment, fit.bias)
    Rs_c0_b, p_c0_c = loose_translation(segment, integrated(pre))
    x = align_on_sphere(segment, pre, Rs_c0_b, p_c0_c)
    scale, gravity_c0 = refine(segment, pre, Rs_c0_b, p_c0_c, x[-4:-1])
    Ts_c0_b = body_poses(segment, Rs_c0_b, p_c0_c, scale)
    velocity_c0 = velocities_between(pre, Ts_c0_b, np.zeros(3), gravity_c0)
    velocity_b = np.einsum("kji,kj->ki", Rs_c0_b, velocity_c0)
    state = segment.state(gravity_c0, velocity_b, fit.bias, np.zeros(3), Ts_c0_b)
    return answer_of(segment, fit, state, scale)


def epipolar_weights(segment: Segment) -> Array:
    """(m, p) weights of every point between neighbouring keyframes; 0 where not seen in both."""
    tracks, pre = segment.tracks, raw_motion(segment)
    R_b_c = segment.T_b_c[:3, :3]
    R = R_b_c.T @ pre.gamma @ R_b_c
    t = pre.alpha @ R_b_c
    both = (tracks.seen[:, :-1] & tracks.seen[:, 1:]).T
    f1 = np.where(both[..., None], tracks.bearings[:, :-1].swapaxes(0, 1), 0.0)
    covs = bearing_covariances(tracks)[:, 1:].swapaxes(0, 1)
    turned = R[:, None] @ np.where(both[..., None, None], covs, 0.0) @ np.swapaxes(R, 1, 2)[:, None]
    # t' [f]x = (t x f)'.
    across = np.cross(t[:, None, :], f1)
    variances = np.einsum("mpi,mpij,mpj->mp", across, turned, across)
    return np.where(variances > 0.0, WEIGHT_UNIT / np.where(variances > 0.0, variances, 1.0), 0.0)


def bearing_covariances(tracks: FeatureTracks) -> Array:
    """(p, n, 3, 3) of the left bearings, to first order."""
    f = tracks.bearings
    across = np.eye(3) - f[..., :, None] * f[..., None, :]
    J = across[..., :2] * f[..., 2, None, None]
    return np.asarray(J @ tracks.covs @ np.swapaxes(J, -1, -2), np.float64)


def refine(
    segment: Segment, pre: Preintegrated, Rs_c0_b: Array, p_c0_c: Array, gravity_c0: Array
) -> tuple[float, Array]:
    """Scale and gravity by least squares over all triples of keyframes."""
    R_w_c0 = upright(gravity_c0)
    down_w = np.array([0.0, 0.0, -segment.gravity_norm])
    by_angles = -(R_w_c0.T @ skew(down_w))[:, :2]
    lever_c0 = -Rs_c0_b @ segment.T_b_c[:3, 3]
    dt_12, dt_23 = pre.dt[:-1, None], pre.dt[1:, None]
    bend, lever = (
        steps[1:] * dt_12 - steps[:-1] * dt_23
        for steps in (np.diff(p_c0_c, axis=0), np.diff(lever_c0, axis=0))
    )
    alpha, beta = (np.einsum("kij,kj->ki", Rs_c0_b[:-1], v) for v in (pre.alpha, pre.beta))
    by_gravity = 0.5 * dt_12 * dt_23 * (dt_12 + dt_23)
    moved = dt_12 * alpha[1:] - dt_23 * alpha[:-1] + dt_12 * dt_23 * beta[:-1]
    rows = np.concatenate([bend[:, :, None], -by_gravity[:, :, None] * by_angles], axis=2)
    right = moved - lever + by_gravity * (R_w_c0.T @ down_w)
    x = np.linalg.lstsq(rows.reshape(-1, 3), right.ravel(), rcond=None)[0]
    turn = so3_exp(np.array([x[1], x[2], 0.0]))
    return float(x[0]), np.asarray(R_w_c0.T @ turn @ down_w, np.float64)
