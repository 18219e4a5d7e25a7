"""A small bundle adjustment with IMU factors: points are eliminated, keyframes solved densely.

Levenberg-Marquardt with Ceres' rule for the damping, which begins next to nothing: first steps are
Gauss-Newton's, as those of the originals' dogleg. The minimum is the same, the path is not, which
matters only where iterations are few.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np

from maci2.estimator import Posterior, VIState
from maci2.feature_tracks.track_adjustment import triangulate
from maci2.feature_tracks.tracks import FeatureTracks
from maci2.geometry import se3_inv, skew, so3_exp, so3_jl_inv, so3_jr_inv, so3_log
from maci2.geometry.se3 import skew_stack, stack_poses
from maci2.imu import ALPHA, BETA, GAMMA, Preintegrated
from maci2.types import GRAVITY_NORM, Array, Mask
from maci2_lab.baselines.alignment import (
    corrected,
    logs,
    raw_motion,
    rotation_errors_D_bias,
    state_in_b0,
)
from maci2_lab.baselines.segment import Answer, Segment, stage

PHI, POSITION, VELOCITY = slice(0, 3), slice(3, 6), slice(6, 9)
GYRO_BIAS, ACC_BIAS, BIASES = slice(9, 12), slice(12, 15), slice(9, 15)
SIZE = 15
"""Unknowns of a keyframe: [phi, p, v, b_g, b_a]; the rotation is perturbed on the right."""


@dataclass(frozen=True)
class BundleState:
    """Unknowns of a visual-inertial bundle adjustment: poses, velocities, biases and points.

    The world has z up, so that gravity is known in it and unknown are roll and pitch of every pose.
    """

    Rs_w_b: Array
    """(n, 3, 3)"""

    p_w_b: Array
    """(n, 3) [m]"""

    v_w: Array
    """(n, 3) [m/s]"""

    gyro_bias: Array
    """(n, 3) [rad/s]"""

    acc_bias: Array
    """(n, 3) [m/s^2]"""

    points_w: Array
    """(p, 3) [m]"""

    def moved(self, step: Array, points_step: Array) -> "BundleState":
        """After steps (n, 15) of the keyframes and (p, 3) of the points."""
        turns = np.array([so3_exp(phi) for phi in np.ascontiguousarray(step[:, PHI])])
        return BundleState(
            self.Rs_w_b @ turns,
            self.p_w_b + step[:, POSITION],
            self.v_w + step[:, VELOCITY],
            self.gyro_bias + step[:, GYRO_BIAS],
            self.acc_bias + step[:, ACC_BIAS],
            self.points_w + points_step,
        )

    def with_points(self, points_w: Array) -> "BundleState":
        return replace(self, points_w=points_w)


def upright(gravity: Array) -> Array:
    """(3, 3) R_w_a of a world with z up, for gravity in frame a; its yaw is arbitrary."""
    up = -gravity / np.linalg.norm(gravity)
    axis = np.cross(up, np.array([0.0, 0.0, 1.0]))
    sine, cosine = float(np.linalg.norm(axis)), float(up[2])
    axis = axis / sine if sine > 0.0 else np.array([1.0, 0.0, 0.0])
    return so3_exp(axis * np.arctan2(sine, cosine))


def from_vi_state(state: VIState) -> BundleState:
    """Initial guess of a bundle adjustment without points; the first body is the origin."""
    R_w_c0 = upright(state.gravity_c0)
    Rs_w_b = R_w_c0 @ state.Ts_c0_b[:, :3, :3]
    p = (state.Ts_c0_b[:, :3, 3] - state.Ts_c0_b[0, :3, 3]) @ R_w_c0.T
    v_w = np.einsum("kij,kj->ki", Rs_w_b, state.velocity_b)
    n = len(p)
    gyro_bias, acc_bias = (np.tile(bias, (n, 1)) for bias in (state.gyro_bias, state.acc_bias))
    return BundleState(Rs_w_b, p, v_w, gyro_bias, acc_bias, np.empty((0, 3)))


def to_vi_state(segment: Segment, found: BundleState) -> VIState:
    """Estimate in our conventions; biases are those of the last keyframe."""
    R_b0_w = found.Rs_w_b[0].T
    Ts_b0_b = stack_poses(R_b0_w @ found.Rs_w_b, (found.p_w_b - found.p_w_b[0]) @ R_b0_w.T)
    gravity_b0 = R_b0_w @ np.array([0.0, 0.0, -segment.gravity_norm])
    return state_in_b0(
        segment,
        Ts_b0_b,
        found.v_w @ R_b0_w.T,
        gravity_b0,
        found.gyro_bias[-1],
        found.acc_bias[-1],
    )


def to_posterior(segment: Segment, found: BundleState, cov: Array) -> Posterior:
    """Covariances of `to_vi_state` from that of the keyframes (15 n, 15 n)."""
    n = len(found.p_w_b)
    T_c_b = np.linalg.inv(segment.T_b_c)
    R_c_b, R_0 = T_c_b[:3, :3], found.Rs_w_b[0]
    gravity_b0 = R_0.T @ np.array([0.0, 0.0, -segment.gravity_norm])
    by_gravity = np.zeros((3, n, SIZE))
    by_gravity[:, 0, PHI] = R_c_b @ skew(gravity_b0)
    poses, velocities = np.zeros((n, 6, n, SIZE)), np.zeros((n, 3, n, SIZE))
    for k in range(n):
        R_k = found.Rs_w_b[k]
        t_b0 = R_0.T @ (found.p_w_b[k] - found.p_w_b[0])
        t_c0 = R_c_b @ t_b0 + T_c_b[:3, 3]
        velocities[k, :, k, PHI] = skew(R_k.T @ found.v_w[k])
        velocities[k, :, k, VELOCITY] = R_k.T
        if k == 0:
            continue
        by_phi = np.zeros((3, n, SIZE))
        by_phi[:, 0, PHI], by_phi[:, k, PHI] = -R_c_b, R_c_b @ R_0.T @ R_k
        by_t = np.zeros((3, n, SIZE))
        by_t[:, 0, PHI] = R_c_b @ skew(t_b0)
        by_t[:, 0, POSITION], by_t[:, k, POSITION] = -R_c_b @ R_0.T, R_c_b @ R_0.T
        # Left perturbation: dt = rho + phi x t.
        poses[k, 0:3] = by_t + np.einsum("ij,jkl->ikl", skew(t_c0), by_phi)
        poses[k, 3:6] = by_phi
    last = cov[-SIZE:, -SIZE:]
    return Posterior(
        _carried(by_gravity.reshape(3, -1), cov),
        _carried(poses.reshape(n, 6, -1), cov),
        _carried(velocities.reshape(n, 3, -1), cov),
        last[GYRO_BIAS, GYRO_BIAS],
        last[ACC_BIAS, ACC_BIAS],
        np.zeros((6, 6)),
    )


def _carried(J: Array, cov: Array) -> Array:
    return np.asarray(J @ cov @ np.swapaxes(J, -1, -2), np.float64)


def answer_of(segment: Segment, found: BundleState, cov: Array | None, reason: str = "") -> Answer:
    """Answer with the covariance of the keyframes (15 n, 15 n); without one it is rejected."""
    state = to_vi_state(segment, found)
    if cov is None:
        return Answer(False, reason or "the covariance is singular", state)
    return Answer(not reason, reason, state, to_posterior(segment, found, cov))


NEAREST = 1e-3
"""Smallest depth [m]; nearer points, and those behind a camera, are treated as if at this depth."""


@dataclass(frozen=True)
class Observations:
    """Observations of p points by c cameras at n keyframes; the right camera is offset along x."""

    seen: Mask
    """(c, p, n)"""

    xy: Array
    """(c, p, n, 2) normalized coordinates; zero where not seen."""

    offsets: Array
    """(c,) offsets of the cameras along x of the left one [m]."""

    T_b_c: Array
    """(4, 4) pose of the left camera in the body."""


def observations(tracks: FeatureTracks, T_b_c: Array, chosen: Mask, stereo: bool) -> Observations:
    """Observations of some points of the tracks, by one camera or two."""
    seen = [tracks.seen[chosen], tracks.seen_right[chosen]][: 1 + stereo]
    xy = [tracks.xy[chosen], tracks.xy_right[chosen]][: 1 + stereo]
    masked = [np.where(s[:, :, None], x, 0.0) for s, x in zip(seen, xy, strict=True)]
    offsets = np.array([0.0, tracks.baseline])[: 1 + stereo]
    return Observations(np.array(seen), np.array(masked), offsets, T_b_c)


def projections(seen: Observations, x: BundleState) -> tuple[Array, Array, Array]:
    """Points in each body (p, n, 3), in each camera (c, p, n, 3), and where they appear."""
    R_b_c, p_b_c = seen.T_b_c[:3, :3], seen.T_b_c[:3, 3]
    q = np.einsum("kji,pkj->pki", x.Rs_w_b, x.points_w[:, None, :] - x.p_w_b)
    in_left = (q - p_b_c) @ R_b_c
    shifts = np.stack([seen.offsets, 0.0 * seen.offsets, 0.0 * seen.offsets], axis=1)
    in_camera = in_left[None] - shifts[:, None, None, :]
    depth = np.maximum(in_camera[..., 2:], NEAREST)
    return q, in_camera, in_camera[..., :2] / depth


def reprojection(seen: Observations, x: BundleState) -> tuple[Array, Array, Array]:
    """Residuals (c, p, n, 2) in normalized units, zero where not seen; derivatives by the pose
    (c, p, n, 2, 6) and by the point (c, p, n, 2, 3)."""
    q, in_camera, xy = projections(seen, x)
    mask = seen.seen[..., None]
    residuals = np.where(mask, xy - seen.xy, 0.0)
    inverse = np.where(seen.seen, 1.0 / np.maximum(in_camera[..., 2], NEAREST), 0.0)
    xy = np.where(mask, xy, 0.0)
    R_c_b = seen.T_b_c[:3, :3].T
    # Rows of d(x/z, y/z)/dc times R_c_b: (R_x - x R_z) / z.
    by_q = (R_c_b[:2] - xy[..., None] * R_c_b[2]) * inverse[..., None, None]
    by_point = by_q @ np.swapaxes(x.Rs_w_b, 1, 2)
    # q turns as q + [q]x phi: row . (q x phi) = (row x q) . phi.
    by_phi = np.cross(by_q, q[None, :, :, None, :])
    return residuals, np.concatenate([by_phi, -by_point], axis=-1), by_point


def inertial(pre: Preintegrated, gravity_w: Array, x: BundleState) -> tuple[Array, Array]:
    """Residuals (m, 9) of rotation, velocity, position of every step, and derivatives
    (m, 9, 30) by its two keyframes."""
    into = np.swapaxes(x.Rs_w_b[:-1], 1, 2)
    dt = pre.dt[:, None]
    bg, ba = x.gyro_bias[:-1] - pre.bias_gyro, x.acc_bias[:-1] - pre.bias_acc
    gamma, beta, alpha = corrected(pre, bg, ba)
    relative = into @ x.Rs_w_b[1:]
    r = np.empty((len(dt), 9))
    r[:, GAMMA] = logs(np.swapaxes(gamma, 1, 2) @ relative)
    dv = (into @ (np.diff(x.v_w, axis=0) - dt * gravity_w)[:, :, None])[:, :, 0]
    moved = np.diff(x.p_w_b, axis=0) - dt * x.v_w[:-1] - 0.5 * dt**2 * gravity_w
    dp = (into @ moved[:, :, None])[:, :, 0]
    r[:, BETA], r[:, ALPHA] = dv - beta, dp - alpha

    J = np.zeros((len(dt), 9, 2 * SIZE))
    turns = np.ascontiguousarray(r[:, GAMMA])
    J_r_inv = np.array([so3_jr_inv(turn) for turn in turns])
    first, second = J[:, :, :SIZE], J[:, :, SIZE:]
    first[:, :, GYRO_BIAS], first[:, :, ACC_BIAS] = -pre.D_bg, -pre.D_ba
    first[:, GAMMA, PHI] = -J_r_inv @ np.swapaxes(relative, 1, 2)
    second[:, GAMMA, PHI] = J_r_inv
    first[:, GAMMA, GYRO_BIAS] = rotation_errors_D_bias(turns, pre.D_bg[:, GAMMA], bg)
    first[:, BETA, PHI], first[:, ALPHA, PHI] = skew_stack(dv), skew_stack(dp)
    first[:, BETA, VELOCITY], second[:, BETA, VELOCITY] = -into, into
    first[:, ALPHA, POSITION], second[:, ALPHA, POSITION] = -into, into
    first[:, ALPHA, VELOCITY] = -dt[:, :, None] * into
    return r, J


def first_state_prior(mean: BundleState, x: BundleState) -> tuple[Array, Array]:
    """Residual (15,) of the first keyframe to its prior, and the derivative (15, 15); rotation in
    the world frame, so that its third entry is the yaw."""
    r, J = np.empty(SIZE), np.eye(SIZE)
    r[PHI] = so3_log(np.ascontiguousarray(x.Rs_w_b[0] @ mean.Rs_w_b[0].T))
    J[PHI, PHI] = so3_jl_inv(np.ascontiguousarray(r[PHI])) @ x.Rs_w_b[0]
    r[POSITION], r[VELOCITY] = x.p_w_b[0] - mean.p_w_b[0], x.v_w[0] - mean.v_w[0]
    r[GYRO_BIAS] = x.gyro_bias[0] - mean.gyro_bias[0]
    r[ACC_BIAS] = x.acc_bias[0] - mean.acc_bias[0]
    return r, J


PIXEL_STD = 1.0
"""Standard deviation of an observation in most of the originals [px]."""

State = TypeVar("State")
Step = TypeVar("Step", covariant=True)

Loss = Callable[[Array], tuple[Array, Array]]
"""Function from squared norms of whitened residuals to cost and weight, its derivative."""

FUNCTION_TOLERANCE = 1e-6
FIRST_RADIUS = 1e12
"""Initial trust region; damping is its inverse, relative to the diagonal. Biases with small random
walks have a diagonal of 1e10, and a damping of 1e-4 would keep them from moving together."""

SMALLEST_POINT_CURVATURE = 1e-9


def squares(s: Array) -> tuple[Array, Array]:
    """No robust loss."""
    return s, np.ones_like(s)


def huber(delta: float) -> Loss:
    """Quadratic up to a norm of `delta`, linear beyond."""

    def loss(s: Array) -> tuple[Array, Array]:
        norm = np.sqrt(np.maximum(s, delta**2))
        return np.where(s > delta**2, 2.0 * delta * norm - delta**2, s), delta / norm

    return loss


def cauchy(scale: float) -> Loss:
    """Logarithmic beyond a norm of `scale`."""

    def loss(s: Array) -> tuple[Array, Array]:
        grown = 1.0 + s / scale**2
        return scale**2 * np.log(grown), 1.0 / grown

    return loss


@dataclass(frozen=True)
class Bundle:
    """Bundle adjustment problem: measurements and unknowns."""

    seen: Observations
    """Observations of the points."""

    std: float
    """Standard deviation of an observation, in normalized units."""

    loss: Loss
    """Loss of reprojection."""

    prior: BundleState
    """Mean of the first keyframe's prior."""

    info_prior: Array = field(default_factory=lambda: np.zeros(SIZE))
    """(15,) its information; rotation in the world frame."""

    pre: Preintegrated | None = None
    """Motion by the IMU; None for vision alone."""

    gravity_norm: float = GRAVITY_NORM
    """[m/s^2]"""

    var_walk: Array = field(default_factory=lambda: np.ones(6))
    """(6,) variance by which [gyroscope, accelerometer] biases change per second; zero for one bias
    common to all keyframes."""

    info_bias: Array | None = None
    """(6,) information of a prior about zero on the biases; None for none."""

    fixed: Mask | None = None
    """(n, 15) unknowns of the keyframes that are fixed; None if all are free."""

    infos: Array | None = None
    """(m, 9, 9) weights of the IMU's residuals; None for preintegration's own."""

    @cached_property
    def weights(self) -> Array:
        """(m, 9, 9) weights of the IMU's residuals, where there is an IMU."""
        assert self.pre is not None
        own = np.linalg.inv(self.pre.cov) if self.infos is None else self.infos
        return np.asarray(own, np.float64)


def inertial_bundle(
    segment: Segment,
    seen: Observations,
    x: BundleState,
    loss: Loss,
    info_prior: Array,
    **choices: Any,
) -> Bundle:
    """Bundle adjustment of a segment's raw samples, preintegrated with the biases of `x`, about
    which its priors are."""
    pre = raw_motion(segment, x.gyro_bias[0], x.acc_bias[0])
    std = PIXEL_STD / segment.tracks.focal_px
    return Bundle(seen, std, loss, x, info_prior, pre, segment.gravity_norm, **choices)


@dataclass(frozen=True)
class BundleResult:
    """Result of a bundle adjustment."""

    state: BundleState
    converged: bool
    iterations: int
    cost: float
    cov: Array | None
    """(15 n, 15 n) of the keyframes; None where they are not determined."""


class Equations(Protocol[Step]):
    """Normal equations at one linearization."""

    @property
    def cost(self) -> float: ...
    def solve(self, damping: float) -> tuple[Step, float]:
        """Step, and the decrease of the cost that it predicts."""


EquationsT = TypeVar("EquationsT", bound=Equations[Any])


def descend(
    x: State,
    linearize: Callable[[State], EquationsT],
    moved: Callable[[State, Any], State],
    iterations: int,
) -> tuple[State, EquationsT, bool, int]:
    """Levenberg-Marquardt from `x`: the minimum, its equations, convergence and number of steps."""
    now = linearize(x)
    radius, shrink, converged, done = FIRST_RADIUS, 10.0, False, 0
    while done < iterations and not converged:
        done += 1
        step, expected = now.solve(1.0 / radius)
        tried = moved(x, step)
        then = linearize(tried)
        change = now.cost - then.cost
        if not np.isfinite(then.cost) or change <= 0.0:
            converged = abs(expected) <= FUNCTION_TOLERANCE * now.cost
            radius, shrink = radius / shrink, 4.0 * shrink
            if radius < 1e-32:
                break
            continue
        ratio = change / max(expected, 1e-300)
        radius = min(radius / max(1.0 / 3.0, 1.0 - (2.0 * ratio - 1.0) ** 3), 1e20)
        converged = change <= FUNCTION_TOLERANCE * now.cost
        x, now, shrink = tried, then, 10.0
    return x, now, converged, done


@dataclass(frozen=True)
class _Equations:
    """Normal equations of the free unknowns f of the keyframes and of the points."""

    select: Array
    """(15 n, f)"""

    H: Array
    """(f, f)"""

    b: Array
    V: Array
    """(p, 3, 3) of the points."""

    W: Array
    """(p, 3, f) between points and keyframes."""

    b_points: Array
    cost: float

    def solve(self, damping: float) -> tuple[tuple[Array, Array], float]:
        """Steps of keyframes and points, and the predicted decrease of the cost."""
        V = self.V + SMALLEST_POINT_CURVATURE * np.eye(3)
        diagonal = np.einsum("pii->pi", V)
        V = V + np.eye(3) * (damping * np.clip(diagonal, 1e-6, 1e32))[:, None, :]
        V_inv = np.linalg.inv(V)
        H = self.H + np.diag(damping * np.clip(np.diag(self.H), 1e-6, 1e32))
        flat = self.W.reshape(-1, len(H))
        reduced = H - flat.T @ (V_inv @ self.W).reshape(flat.shape)
        right = self.b - flat.T @ (V_inv @ self.b_points[:, :, None]).ravel()
        step = np.linalg.solve(reduced, right)
        points_step = (V_inv @ (self.b_points - self.W @ step)[:, :, None])[:, :, 0]
        slope = float(self.b @ step + (self.b_points * points_step).sum())
        bend = float(step @ self.H @ step)
        bend += float(np.einsum("pi,pij,pj->", points_step, self.V, points_step))
        bend += 2.0 * float((points_step * (self.W @ step)).sum())
        return (self.select @ step, points_step), 2.0 * slope - bend

    def covariance(self) -> Array | None:
        """(15 n, 15 n) of the keyframes; None where they are not determined."""
        V = self.V + SMALLEST_POINT_CURVATURE * np.eye(3)
        flat = self.W.reshape(-1, len(self.H))
        reduced = self.H - flat.T @ np.linalg.solve(V, self.W).reshape(flat.shape)
        try:
            inverse = np.linalg.inv(reduced)
        except np.linalg.LinAlgError:
            return None
        return np.asarray(self.select @ inverse @ self.select.T, np.float64)


@stage("bundle adjustment")
def adjust(bundle: Bundle, x: BundleState, iterations: int) -> BundleResult:
    """Minimize from `x` in at most this many steps."""
    select = _selection(bundle, len(x.p_w_b))
    x, now, converged, done = descend(
        x,
        lambda at: _linearize(bundle, at, select),
        lambda at, step: at.moved(step[0].reshape(-1, SIZE), step[1]),
        iterations,
    )
    return BundleResult(x, converged, done, now.cost, now.covariance())


def reprojection_px(bundle: Bundle, x: BundleState, focal_px: float) -> Array:
    """(p,) root mean square reprojection error of each point [px]."""
    r, _, _ = reprojection(bundle.seen, x)
    count = np.maximum(bundle.seen.seen.sum(axis=(0, 2)), 1)
    return np.asarray(focal_px * np.sqrt((r**2).sum(axis=(0, 2, 3)) / count), np.float64)


def _linearize(bundle: Bundle, x: BundleState, select: Array) -> _Equations:
    n, p = len(x.p_w_b), len(x.points_w)
    H, b = np.zeros((n, SIZE, n, SIZE)), np.zeros((n, SIZE))
    r, by_pose, by_point = reprojection(bundle.seen, x)
    r = r / bundle.std
    costs, weights = bundle.loss((r**2).sum(axis=-1))
    cost = float(costs[bundle.seen.seen].sum())
    scale = np.sqrt(weights) * bundle.seen.seen
    r = r * scale[..., None]
    by_pose, by_point = (J * (scale / bundle.std)[..., None, None] for J in (by_pose, by_point))
    # One axis for both cameras and both coordinates.
    r, by_pose, by_point = (_rows_last(a) for a in (r[..., None], by_pose, by_point))
    pose_t, point_t = np.swapaxes(by_pose, 2, 3), np.swapaxes(by_point, 2, 3)
    every = np.arange(n)
    H[every, :6, every, :6] = (pose_t @ by_pose).sum(axis=0)
    b[:, :6] = -(pose_t @ r)[..., 0].sum(axis=0)
    V = (point_t @ by_point).sum(axis=1)
    W = np.zeros((p, 3, n, SIZE))
    W[:, :, :, :6] = np.moveaxis(point_t @ by_pose, 1, 2)
    b_points = -(point_t @ r)[..., 0].sum(axis=1)
    cost += add_inertial(bundle, x, H, b) + add_priors(bundle, x, H, b)
    size = n * SIZE
    H, W = select.T @ H.reshape(size, size) @ select, W.reshape(p, 3, size) @ select
    return _Equations(select, H, select.T @ b.ravel(), V, W, b_points, cost)


def _rows_last(a: Array) -> Array:
    """(c, p, n, 2, d) -> (p, n, 2 c, d)."""
    c, p, n, two, d = a.shape
    return np.moveaxis(a, 0, 2).reshape(p, n, two * c, d)


def add_inertial(bundle: Bundle, x: BundleState, H: Array, b: Array) -> float:
    """Add IMU factors and bias random walks to H (n, 15, n, 15) and b (n, 15); their cost."""
    if bundle.pre is None:
        return 0.0
    pre, infos = bundle.pre, bundle.weights
    r, J = inertial(pre, np.array([0.0, 0.0, -bundle.gravity_norm]), x)
    weighed = infos @ J
    blocks = np.swapaxes(J, 1, 2) @ weighed
    right = (np.swapaxes(weighed, 1, 2) @ r[:, :, None])[:, :, 0]
    for k in range(len(r)):
        H[k : k + 2, :, k : k + 2] += blocks[k].reshape(2, SIZE, 2, SIZE)
        b[k : k + 2] -= right[k].reshape(2, SIZE)
    cost = float(np.einsum("ki,kij,kj->", r, infos, r))
    if not bundle.var_walk.any():
        return cost
    biases = np.hstack([x.gyro_bias, x.acc_bias])
    for k, dt in enumerate(pre.dt):
        info = 1.0 / (bundle.var_walk * dt)
        change = biases[k + 1] - biases[k]
        for i, j, sign in ((k, k, 1), (k + 1, k + 1, 1), (k, k + 1, -1), (k + 1, k, -1)):
            H[i, BIASES, j, BIASES] += sign * np.diag(info)
        b[k, BIASES] += info * change
        b[k + 1, BIASES] -= info * change
        cost += float(change @ (info * change))
    return cost


def add_priors(bundle: Bundle, x: BundleState, H: Array, b: Array) -> float:
    """Add the priors of the first keyframe and of common biases to H and b; returns their cost."""
    r, J = first_state_prior(bundle.prior, x)
    H[0, :, 0, :] += J.T @ (bundle.info_prior[:, None] * J)
    b[0] -= J.T @ (bundle.info_prior * r)
    cost = float(r @ (bundle.info_prior * r))
    if bundle.info_bias is not None:
        biases = np.concatenate([x.gyro_bias[0], x.acc_bias[0]])
        H[0, BIASES, 0, BIASES] += np.diag(bundle.info_bias)
        b[0, BIASES] -= bundle.info_bias * biases
        cost += float(biases @ (bundle.info_bias * biases))
    return cost


def _selection(bundle: Bundle, n: int) -> Array:
    """(15 n, unknowns) selection of free unknowns; a common bias is one column."""
    columns = np.eye(n * SIZE).reshape(n, SIZE, n, SIZE)
    fixed = np.zeros((n, SIZE), dtype=bool) if bundle.fixed is None else bundle.fixed.copy()
    if not bundle.var_walk.any():
        for k in range(1, n):
            columns[k, BIASES, 0, BIASES] = np.eye(6)
        fixed[1:, BIASES] = True
    return columns.reshape(n * SIZE, n, SIZE)[:, ~fixed]


def gauge_information(std_gyro_bias: float = np.inf, std_acc_bias: float = np.inf) -> Array:
    """(15,) information that fixes the gauge, yaw and position of the first pose, and of a prior on
    its biases."""
    info = np.zeros(SIZE)
    info[2] = info[POSITION] = 1e10
    info[GYRO_BIAS], info[ACC_BIAS] = std_gyro_bias**-2, std_acc_bias**-2
    return info


def longest(tracks: FeatureTracks, count: int, views: int) -> Mask:
    """(p,) tracks with the most views, at least this many."""
    lengths = tracks.seen.sum(axis=1)
    chosen = np.zeros(len(lengths), dtype=bool)
    chosen[np.argsort(-lengths, kind="stable")[:count]] = True
    return chosen & (lengths >= views)


def with_points(
    segment: Segment, x: BundleState, chosen: Mask, stereo: bool
) -> tuple[Observations, BundleState]:
    """Triangulate tracks from the poses of `x`; points undetermined or behind a camera are
    dropped."""
    tracks, T_b_c = segment.tracks, segment.T_b_c
    R_w_c = x.Rs_w_b @ T_b_c[:3, :3]
    left_w = x.p_w_b + x.Rs_w_b @ T_b_c[:3, 3]
    rays, centers, seen = [tracks.bearings], [left_w], [tracks.seen]
    if stereo:
        rays.append(tracks.bearings_right)
        centers.append(left_w + tracks.baseline * R_w_c[:, :, 0])
        seen.append(tracks.seen_right)
    rays_w = [np.einsum("kij,pkj->pki", R_w_c, np.nan_to_num(ray[chosen])) for ray in rays]
    points_w, fine = triangulate(
        np.concatenate(rays_w, axis=1),
        np.concatenate(centers),
        np.concatenate([mask[chosen] for mask in seen], axis=1),
    )
    kept = chosen.copy()
    kept[chosen] = fine
    return observations(tracks, T_b_c, kept, stereo), x.with_points(points_w[fine])


def poses_as_state(Ts_c0_b: Array) -> BundleState:
    """Body poses alone, in a world that is the first body, without gravity."""
    Ts = np.array([se3_inv(Ts_c0_b[0]) @ T for T in Ts_c0_b])
    nothing = np.zeros((len(Ts), 3))
    return BundleState(Ts[:, :3, :3], Ts[:, :3, 3], nothing, nothing, nothing, np.empty((0, 3)))


def fixed_pose(n: int, first: int) -> Mask:
    """(n, 15) unknowns fixed in an adjustment of vision alone that holds one pose."""
    fixed = np.zeros((n, SIZE), dtype=bool)
    fixed[:, 6:] = True
    fixed[first] = True
    return fixed
