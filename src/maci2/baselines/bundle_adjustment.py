"""A small bundle adjustment with IMU factors: points are eliminated, keyframes solved densely.

Levenberg-Marquardt with Ceres' rule for the damping, which begins next to nothing: first steps are
Gauss-Newton's, as those of the originals' dogleg. The minimum is the same, the path is not, which
matters only where iterations are few.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from maci2.baselines.bundle_factors import (
    Observations,
    first_state_prior,
    inertial,
    reprojection,
)
from maci2.baselines.bundle_state import ACC_BIAS, GYRO_BIAS, POSITION, SIZE, BundleState
from maci2.baselines.stages import stage
from maci2.imu import Preintegrated
from maci2.types import Array, Mask

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

    pre: Preintegrated | None
    """Motion by the IMU; None for vision alone."""

    gravity_norm: float
    """[m/s^2]"""

    var_walk: Array
    """(6,) variance by which [gyroscope, accelerometer] biases change per second; zero for one bias
    common to all keyframes."""

    prior: BundleState
    """Mean of the first keyframe's prior."""

    info_prior: Array
    """(15,) its information; rotation in the world frame."""

    info_bias: Array | None = None
    """(6,) information of a prior about zero on the biases; None for none."""

    fixed: Mask | None = None
    """(n, 15) unknowns of the keyframes that are fixed; None if all are free."""

    infos: Array | None = None
    """(m, 9, 9) weights of the IMU's residuals; None for preintegration's own."""


@dataclass(frozen=True)
class BundleResult:
    """Result of a bundle adjustment."""

    state: BundleState
    converged: bool
    iterations: int
    cost: float
    cov: Array | None
    """(15 n, 15 n) of the keyframes; None where they are not determined."""


@dataclass(frozen=True)
class _Equations:
    H: Array
    """(15 n, 15 n)"""
    b: Array
    V: Array
    """(p, 3, 3) of the points."""
    W: Array
    """(p, 3, 15 n) between points and keyframes."""
    b_points: Array
    cost: float


@stage("bundle adjustment")
def adjust(bundle: Bundle, x: BundleState, iterations: int) -> BundleResult:
    """Minimize from `x` in at most this many steps."""
    select = _selection(bundle, len(x.p_w_b))
    infos = inertial_infos(bundle)
    now = _linearize(bundle, x, infos)
    radius, shrink, converged, done = FIRST_RADIUS, 10.0, False, 0
    while done < iterations and not converged:
        done += 1
        step, points_step, expected = _solve(now, select, 1.0 / radius)
        tried = x.moved(step.reshape(-1, SIZE), points_step)
        then = _linearize(bundle, tried, infos)
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
    return BundleResult(x, converged, done, now.cost, _covariance(now, select))


def reprojection_px(bundle: Bundle, x: BundleState, focal_px: float) -> Array:
    """(p,) root mean square reprojection error of each point [px]."""
    r, _, _ = reprojection(bundle.seen, x)
    count = np.maximum(bundle.seen.seen.sum(axis=(0, 2)), 1)
    return np.asarray(focal_px * np.sqrt((r**2).sum(axis=(0, 2, 3)) / count), np.float64)


def inertial_infos(bundle: Bundle) -> Array:
    """(m, 9, 9) weights of the IMU's residuals."""
    if bundle.pre is None:
        return np.empty((0, 9, 9))
    if bundle.infos is not None:
        return bundle.infos
    return np.asarray(np.linalg.inv(bundle.pre.cov), np.float64)


def _linearize(bundle: Bundle, x: BundleState, infos: Array) -> _Equations:
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
    if bundle.pre is not None:
        cost += add_inertial(bundle, bundle.pre, x, infos, H, b)
    cost += add_priors(bundle, x, H, b)
    size = n * SIZE
    return _Equations(H.reshape(size, size), b.ravel(), V, W.reshape(p, 3, size), b_points, cost)


def _rows_last(a: Array) -> Array:
    """(c, p, n, 2, d) -> (p, n, 2 c, d)."""
    c, p, n, two, d = a.shape
    return np.moveaxis(a, 0, 2).reshape(p, n, two * c, d)


def add_inertial(
    bundle: Bundle, pre: Preintegrated, x: BundleState, infos: Array, H: Array, b: Array
) -> float:
    """Add IMU factors and bias random walks to H (n, 15, n, 15) and b (n, 15); their cost."""
    r, J = inertial(pre, bundle.gravity_norm, x)
    weighed = infos @ J
    blocks = np.swapaxes(J, 1, 2) @ weighed
    right = (np.swapaxes(weighed, 1, 2) @ r[:, :, None])[:, :, 0]
    for k in range(len(r)):
        H[k : k + 2, :, k : k + 2] += blocks[k].reshape(2, SIZE, 2, SIZE)
        b[k : k + 2] -= right[k].reshape(2, SIZE)
    cost = float(np.einsum("ki,kij,kj->", r, infos, r))
    if not bundle.var_walk.any():
        return cost
    both = slice(GYRO_BIAS.start, ACC_BIAS.stop)
    biases = np.hstack([x.gyro_bias, x.acc_bias])
    for k, dt in enumerate(pre.dt):
        info = 1.0 / (bundle.var_walk * dt)
        change = biases[k + 1] - biases[k]
        for i, j, sign in ((k, k, 1), (k + 1, k + 1, 1), (k, k + 1, -1), (k + 1, k, -1)):
            H[i, both, j, both] += sign * np.diag(info)
        b[k, both] += info * change
        b[k + 1, both] -= info * change
        cost += float(change @ (info * change))
    return cost


def add_priors(bundle: Bundle, x: BundleState, H: Array, b: Array) -> float:
    """Add the priors of the first keyframe and of common biases to H and b; returns their cost."""
    r, J = first_state_prior(bundle.prior, x)
    H[0, :, 0, :] += J.T @ (bundle.info_prior[:, None] * J)
    b[0] -= J.T @ (bundle.info_prior * r)
    cost = float(r @ (bundle.info_prior * r))
    if bundle.info_bias is not None:
        both = slice(GYRO_BIAS.start, ACC_BIAS.stop)
        biases = np.concatenate([x.gyro_bias[0], x.acc_bias[0]])
        H[0, both, 0, both] += np.diag(bundle.info_bias)
        b[0, both] -= bundle.info_bias * biases
        cost += float(biases @ (bundle.info_bias * biases))
    return cost


def _selection(bundle: Bundle, n: int) -> Array:
    """(15 n, unknowns) selection of free unknowns; a common bias is one column."""
    columns = np.eye(n * SIZE).reshape(n, SIZE, n, SIZE)
    fixed = np.zeros((n, SIZE), dtype=bool) if bundle.fixed is None else bundle.fixed.copy()
    if not bundle.var_walk.any():
        biases = slice(GYRO_BIAS.start, ACC_BIAS.stop)
        for k in range(1, n):
            columns[k, biases, 0, biases] = np.eye(6)
        fixed[1:, biases] = True
    return columns.reshape(n * SIZE, n, SIZE)[:, ~fixed]


def _solve(now: _Equations, select: Array, damping: float) -> tuple[Array, Array, float]:
    """Steps of keyframes and points, and the predicted decrease of the cost."""
    V = now.V + SMALLEST_POINT_CURVATURE * np.eye(3)
    diagonal = np.einsum("pii->pi", V)
    V = V + np.eye(3) * (damping * np.clip(diagonal, 1e-6, 1e32))[:, None, :]
    W = now.W @ select
    V_inv = np.linalg.inv(V)
    H, b = select.T @ now.H @ select, select.T @ now.b
    H = H + np.diag(damping * np.clip(np.diag(H), 1e-6, 1e32))
    flat = W.reshape(-1, W.shape[-1])
    reduced = H - flat.T @ (V_inv @ W).reshape(flat.shape)
    right = b - flat.T @ (V_inv @ now.b_points[:, :, None]).ravel()
    step = np.linalg.solve(reduced, right)
    points_step = (V_inv @ (now.b_points - W @ step)[:, :, None])[:, :, 0]
    slope = float(b @ step + (now.b_points * points_step).sum())
    bend = float(step @ (select.T @ now.H @ select) @ step)
    bend += float(np.einsum("pi,pij,pj->", points_step, now.V, points_step))
    bend += 2.0 * float((points_step * (W @ step)).sum())
    return select @ step, points_step, 2.0 * slope - bend


def _covariance(now: _Equations, select: Array) -> Array | None:
    W = now.W @ select
    V = now.V + SMALLEST_POINT_CURVATURE * np.eye(3)
    flat = W.reshape(-1, W.shape[-1])
    reduced = select.T @ now.H @ select - flat.T @ np.linalg.solve(V, W).reshape(flat.shape)
    try:
        inverse = np.linalg.inv(reduced)
    except np.linalg.LinAlgError:
        return None
    return np.asarray(select @ inverse @ select.T, np.float64)


def gauge_information(n_yaw: float = 1e10) -> Array:
    """(15,) information that fixes the gauge: yaw and position of the first pose."""
    info = np.zeros(SIZE)
    info[2] = n_yaw
    info[POSITION] = n_yaw
    return info
