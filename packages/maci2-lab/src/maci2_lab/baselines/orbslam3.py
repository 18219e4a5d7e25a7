"""ORB-SLAM3 and Stereo-NEC."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from maci2.estimator import VIState
from maci2.geometry import skew, so3_exp
from maci2.geometry.se3 import stack_poses
from maci2.imu import ALPHA, BETA, Preintegrated, preintegrate
from maci2.types import NS, Array
from maci2_lab.baselines import bundle_adjustment as ba
from maci2_lab.baselines.alignment import integrated, raw_motion
from maci2_lab.baselines.epipolar import fit_bias, neighbouring_pairs, square
from maci2_lab.baselines.segment import Answer, Segment, stage

INFO_GYRO_BIAS = 1e2
INFO_ACC_BIAS = 1e5
"""Information of the priors about zero, per axis."""

MIN_EIGENVALUE = 1e-12
"""Smallest eigenvalue of an information matrix; smaller ones are set to zero."""

FIRST_DAMPING = 1e3
MAX_ITERATIONS = 200
MAX_TRIALS = 10
STEP_TOLERANCE = 1e-10

MIN_ACC_CHANGE = 0.5
"""[m/s^2]"""
IMAGE_PERIOD_NS = 50_000_000
"""Period of the cameras that ORB-SLAM3 is used with [ns]."""
MIN_KEYFRAMES = 10
MIN_DURATION_S = 1.0
MIN_TRAVEL = 0.02
"""[m]"""

DOWN = np.array([0.0, 0.0, -1.0])


class Unknowns(NamedTuple):
    """Unknowns of the optimization; gravity is R_c0_g DOWN times its norm."""

    v_c0: Array
    bias_gyro: Array
    bias_acc: Array
    R_c0_g: Array

    def moved(self, step: Array) -> "Unknowns":
        """State after a step, order [velocities, gyro bias, acc bias, two angles of gravity]."""
        tilt = np.array([step[-2], step[-1], 0.0])
        return Unknowns(
            self.v_c0 + step[:-8].reshape(-1, 3),
            self.bias_gyro + step[-8:-5],
            self.bias_acc + step[-5:-2],
            self.R_c0_g @ so3_exp(tilt),
        )


def orbslam3(segment: Segment) -> Answer:
    """ORB-SLAM3's inertial-only optimization for stereo (Campos et al., ICRA 2020 and T-RO 2021).

    Poses are vision's and fixed, scale is 1. Unknown are velocities, one bias of each sensor and
    the direction of gravity. The bias priors have information 1e2 (gyroscope) and 1e5
    (accelerometer) about zero: the second pins the accelerometer bias. Weights are preintegration's
    with the data sheet's noise. The visual-inertial bundle adjustment that follows needs landmarks
    and is left out.

    Gates, in terms of a window: a map is created only where the mean acceleration changes by 0.5
    m/s^2 from one image to the next; ten keyframes and one second are needed; and the last two
    steps between keyframes must cover 2 cm together. ORB-SLAM3 waits for the first before it takes
    its first keyframe; here a window passes if that happens anywhere in it.
    """
    state = inertial_only(segment, segment.Ts_c0_b(), np.zeros(3))
    reason = rejection(segment)
    return Answer(not reason, reason, state)


def start(pre: Preintegrated, Ts_c0_b: Array) -> Unknowns:
    """Initial guess: gravity from summed velocity changes, velocities from differences."""
    down = -np.einsum("kij,kj->i", Ts_c0_b[:-1, :3, :3], pre.beta)
    v_c0 = np.diff(Ts_c0_b[:, :3, 3], axis=0) / pre.dt[:, None]
    return Unknowns(np.vstack([v_c0, v_c0[-1]]), np.zeros(3), np.zeros(3), ba.upright(down).T)


def optimize(pre: Preintegrated, Ts_c0_b: Array, x: Unknowns, gravity_norm: float) -> Unknowns:
    """Levenberg-Marquardt with g2o's rule for the damping."""
    info = informations(pre.cov)
    H, b, cost = _linearize(pre, Ts_c0_b, x, gravity_norm, info)
    damping, growth = FIRST_DAMPING, 2.0
    for _ in range(MAX_ITERATIONS):
        for _ in range(MAX_TRIALS):
            step = np.asarray(np.linalg.solve(H + damping * np.eye(len(b)), b), np.float64)
            tried = x.moved(step)
            H_new, b_new, cost_new = _linearize(pre, Ts_c0_b, tried, gravity_norm, info)
            gain = (cost - cost_new) / float(step @ (damping * step + b) + 1e-3)
            if gain > 0.0:
                break
            damping, growth = damping * growth, 2.0 * growth
        else:
            return x
        x, H, b, cost = tried, H_new, b_new, cost_new
        damping, growth = damping * float(np.clip(1 - (2 * gain - 1) ** 3, 1 / 3, 2 / 3)), 2.0
        if np.abs(step).max() < STEP_TOLERANCE:
            return x
    return x


def informations(covs: Array) -> Array:
    """(m, 9, 9) inverse covariances, without directions of negligible information."""
    values, vectors = np.linalg.eigh(np.linalg.inv(covs))
    values = np.where(values < MIN_EIGENVALUE, 0.0, values)
    return (vectors * values[:, None, :]) @ np.swapaxes(vectors, 1, 2)


def linearized(
    pre: Preintegrated, Ts_c0_b: Array, x: Unknowns, gravity_norm: float
) -> tuple[Array, Array]:
    """Residuals (m, 9) of rotation, velocity and position, and their derivatives (m, 9, 3 n + 8) by
    the step of `Unknowns.moved`."""
    n, k = len(Ts_c0_b), np.arange(len(pre.dt))
    gyro_bias, acc_bias = np.tile(x.bias_gyro, (n, 1)), np.tile(x.bias_acc, (n, 1))
    poses = Ts_c0_b[:, :3, :3], Ts_c0_b[:, :3, 3]
    states = ba.BundleState(*poses, x.v_c0, gyro_bias, acc_bias, np.empty((0, 3)))
    r, J = ba.inertial(pre, gravity_norm * x.R_c0_g @ DOWN, states)
    by_velocity = np.zeros((n - 1, 9, n, 3))
    by_velocity[k, :, k] = J[:, :, ba.VELOCITY]
    by_velocity[k, :, k + 1] = J[:, :, ba.SIZE :][:, :, ba.VELOCITY]
    # R Exp(t) DOWN = R DOWN - R [DOWN]x t.
    dt, gravity_D_tilt = pre.dt[:, None, None], -gravity_norm * (x.R_c0_g @ skew(DOWN))[:, :2]
    by_tilt = np.zeros((n - 1, 9, 2))
    by_tilt[:, BETA] = -dt * np.swapaxes(poses[0][:-1], 1, 2) @ gravity_D_tilt
    by_tilt[:, ALPHA] = 0.5 * dt * by_tilt[:, BETA]
    parts = [by_velocity.reshape(n - 1, 9, -1), J[:, :, ba.BIASES], by_tilt]
    return r, np.concatenate(parts, axis=2)


def _linearize(
    pre: Preintegrated, Ts_c0_b: Array, x: Unknowns, gravity_norm: float, info: Array
) -> tuple[Array, Array, float]:
    """Normal equations: H, negative gradient and cost."""
    r, J = linearized(pre, Ts_c0_b, x, gravity_norm)
    weighed = info @ J
    H = np.tensordot(J, weighed, axes=([0, 1], [0, 1]))
    b = -np.tensordot(weighed, r, axes=([0, 1], [0, 1]))
    cost = float(np.einsum("ki,kij,kj->", r, info, r))
    for bias, at, strength in (
        (x.bias_gyro, slice(-8, -5), INFO_GYRO_BIAS),
        (x.bias_acc, slice(-5, -2), INFO_ACC_BIAS),
    ):
        H[at, at] += strength * np.eye(3)
        b[at] -= strength * bias
        cost += strength * float(bias @ bias)
    return H, b, cost


def rejection(segment: Segment) -> str:
    """Reason why a gate rejects the window; empty if all accept it."""
    duration_s = float(segment.stamps_ns[-1] - segment.stamps_ns[0]) / NS
    if len(segment.stamps_ns) < MIN_KEYFRAMES:
        return f"{len(segment.stamps_ns)} keyframes, needed {MIN_KEYFRAMES}"
    if duration_s < MIN_DURATION_S:
        return f"{duration_s:.2f} s of keyframes, needed {MIN_DURATION_S:g}"
    change = acceleration_change(segment)
    if change < MIN_ACC_CHANGE:
        return (
            f"not enough acceleration: it changes by {change:.2f} m/s^2 from image to image, "
            f"needed {MIN_ACC_CHANGE:g}"
        )
    steps = np.diff(segment.Ts_c0_c()[-3:, :3, 3], axis=0)
    travel = float(np.linalg.norm(steps, axis=1).sum())
    if travel < MIN_TRAVEL:
        return f"not enough motion: {travel:.3f} m in the last two steps, needed {MIN_TRAVEL:g}"
    return ""


def acceleration_change(segment: Segment) -> float:
    """Largest change of the mean specific force from one image period to the next [m/s^2]."""
    images_ns = np.arange(segment.stamps_ns[0], segment.stamps_ns[-1], IMAGE_PERIOD_NS)
    pre = preintegrate(segment.raw, images_ns)
    return float(np.linalg.norm(np.diff(pre.beta / pre.dt[:, None], axis=0), axis=1).max())


POINTS = 150
HUBER = float(np.sqrt(5.991))
ITERATIONS = 100


def orbslam3_full(segment: Segment) -> Answer:
    """ORB-SLAM3 from tracks (Campos et al., T-RO 2021): visual map, inertial-only, full inertial
    BA.

    The stereo map's poses come from a bundle adjustment of vision alone; the inertial-only
    optimization takes them as exact; the full inertial bundle adjustment then moves everything,
    with one bias for all keyframes and the same priors (information 1e2 and 1e5 about zero).
    Huber's loss at chi-square 5.991, observations with 1 px: the scale pyramid of its features is
    left out. Gates are those of `orbslam3`.
    """
    Ts_c0_b = map_poses(segment)
    state = inertial_only(segment, Ts_c0_b, np.zeros(3))
    found = full_bundle(segment, ba.from_vi_state(state))
    reason = rejection(segment)
    return Answer(not reason, reason, ba.to_vi_state(segment, found))


@stage("structure")
def map_poses(segment: Segment) -> Array:
    """(n, 4, 4) T_c0_b of a stereo map: vision alone adjusted, from the relative poses."""
    Ts_c0_b = segment.Ts_c0_b()
    chosen = ba.longest(segment.tracks, POINTS, 2)
    seen, start = ba.with_points(segment, ba.poses_as_state(Ts_c0_b), chosen, stereo=True)
    std, fixed = ba.PIXEL_STD / segment.tracks.focal_px, ba.fixed_pose(len(Ts_c0_b), 0)
    found = ba.adjust(ba.Bundle(seen, std, ba.huber(HUBER), start, fixed=fixed), start, 20).state
    return Ts_c0_b[0] @ stack_poses(found.Rs_w_b, found.p_w_b)


@stage("inertial-only")
def inertial_only(segment: Segment, Ts_c0_b: Array, gyro_bias: Array) -> VIState:
    """Velocities, biases and gravity from fixed poses; the gyroscope bias starts as given."""
    pre = raw_motion(segment)
    x = start(pre, Ts_c0_b)._replace(bias_gyro=gyro_bias)
    x = optimize(pre, Ts_c0_b, x, segment.gravity_norm)
    velocity_b = np.einsum("kji,kj->ki", Ts_c0_b[:, :3, :3], x.v_c0)
    gravity_c0 = segment.gravity_norm * x.R_c0_g @ DOWN
    return segment.state(gravity_c0, velocity_b, x.bias_gyro, x.bias_acc, Ts_c0_b)


def full_bundle(segment: Segment, x: ba.BundleState) -> ba.BundleState:
    """Full inertial bundle adjustment with one bias of each sensor for all keyframes."""
    tracks = segment.tracks
    seen, x = ba.with_points(segment, x, ba.longest(tracks, POINTS, 2), stereo=True)
    bundle = ba.inertial_bundle(
        segment,
        seen,
        x,
        ba.huber(HUBER),
        ba.gauge_information(),
        var_walk=np.zeros(6),
        info_bias=np.array([INFO_GYRO_BIAS] * 3 + [INFO_ACC_BIAS] * 3),
    )
    assert bundle.pre is not None
    bundle = replace(bundle, infos=informations(bundle.pre.cov))
    return ba.adjust(bundle, x, ITERATIONS).state


MIN_MATCHES = 15
ROUNDS, STEPS = 4, 10
CHI2 = HUBER**2


def stereo_nec(segment: Segment) -> Answer:
    """Stereo-NEC (Wang et al., ICRA 2024): ORB-SLAM3 with a gyroscope bias from bearings.

    1. Gyroscope bias from left bearings of neighbouring keyframes: least squares of the smallest
       eigenvalues, no robust loss.
    2. ORB-SLAM3's inertial-only optimization from that bias.
    3. Rotations are replaced by integration with it and velocities propagated; then every
       keyframe's position is adjusted against the map's points, which stay (four rounds of ten
       steps, the last without Huber's loss; observations beyond chi-square 5.991 in one image are
       dropped after each).
    4. Full inertial bundle adjustment.

    The paper's test of the residual is not in the release and not here; gates are ORB-SLAM3's.
    """
    tracks = segment.tracks
    fewest = int((tracks.seen[:, :-1] & tracks.seen[:, 1:]).sum(axis=0).min())
    if fewest < MIN_MATCHES:
        return Answer(False, f"{fewest} matches between two keyframes, needed {MIN_MATCHES}")
    pairs = neighbouring_pairs(tracks, raw_motion(segment), segment.T_b_c[:3, :3])
    gyro_bias = fit_bias(pairs, square).bias
    Ts_c0_b = map_poses(segment)
    state = inertial_only(segment, Ts_c0_b, gyro_bias)
    seen, x = ba.with_points(
        segment, ba.from_vi_state(state), ba.longest(tracks, POINTS, 2), stereo=True
    )
    x = adjust_positions(seen, rotated_by_gyroscope(segment, x), ba.PIXEL_STD / tracks.focal_px)
    reason = rejection(segment)
    return Answer(not reason, reason, ba.to_vi_state(segment, full_bundle(segment, x)))


def rotated_by_gyroscope(segment: Segment, x: ba.BundleState) -> ba.BundleState:
    """Rotations by integration from the first on, velocities propagated from the first."""
    motion = integrated(raw_motion(segment, x.gyro_bias[0], x.acc_bias[0]))
    R_w_b0 = x.Rs_w_b[0]
    gravity_w = np.array([0.0, 0.0, -segment.gravity_norm])
    v_w = x.v_w[0] + motion.t[:, None] * gravity_w + motion.beta @ R_w_b0.T
    return replace(x, Rs_w_b=R_w_b0 @ motion.Rs_b0_b, v_w=v_w)


def adjust_positions(seen: ba.Observations, x: ba.BundleState, std: float) -> ba.BundleState:
    """Positions of all keyframes but the first, each adjusted separately against fixed points."""
    used = seen.seen.copy()
    for rounds in range(1, ROUNDS + 1):
        for _ in range(STEPS):
            r, by_pose, _ = ba.reprojection(seen, x)
            r, J = r / std, by_pose[..., 3:6] / std
            norms = np.sqrt(np.maximum((r**2).sum(axis=-1), CHI2))
            weights = used * (HUBER / norms if rounds < ROUNDS else 1.0)
            H = np.einsum("cpk,cpkri,cpkrj->kij", weights, J, J)
            b = -np.einsum("cpk,cpkri,cpkr->ki", weights, J, r)
            step = np.zeros((len(x.p_w_b), ba.SIZE))
            # A keyframe that sees nothing any more stays where it is.
            H += 1e-9 * np.eye(3)
            step[1:, ba.POSITION] = np.linalg.solve(H[1:], b[1:, :, None])[:, :, 0]
            x = x.moved(step, np.zeros_like(x.points_w))
            if np.abs(step).max() < 1e-8:
                break
        r, _, _ = ba.reprojection(seen, x)
        used = seen.seen & ((r**2).sum(axis=-1) < CHI2 * std**2)
    return x
