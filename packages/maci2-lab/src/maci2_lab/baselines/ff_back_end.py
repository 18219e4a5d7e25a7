"""The back end of FF-VIO-Init (RSS 2026) on point maps by stereo depth.

FF-VIO-Init asks a feed-forward network for a point map of every keyframe in the first camera's
frame, up to one scale. The network is not here: its maps are replaced by stereo depth, carried into
the first camera by the relative poses of vision, so this is a substitute, stereo, and not
FF-VIO-Init. What follows the maps is the original's:

1. 10 x 10 cells an image, the point of the best confidence in each, at least 1.2 (here
   1 + 0.1 z / sigma_z: depth known to half of itself).
2. Scale, start velocity and gravity of known norm in one linear system, rows weighed by the root of
   the confidence; RANSAC of 200 rounds with ten points a keyframe, inliers within 0.01.
3. `refine`: IMU factors, OpenVINS' priors and points with nine scales.

Gates: 20 px of disparity, 5 deg of rotation, 50 points, half of them inliers, mean residual 0.06;
then that the refinement converged with a cost below 0.6 a residual and scales that agree to 0.5.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maci2.feature_tracks.tracks import FeatureTracks
from maci2.geometry.se3 import skew_stack
from maci2.types import Array, Mask
from maci2_lab.baselines import bundle_adjustment as ba
from maci2_lab.baselines.alignment import IntegratedMotion, integrated, raw_motion, solve_on_sphere
from maci2_lab.baselines.openvins import (
    STD_ACC_BIAS,
    STD_GYRO_BIAS,
    VAR_WALK,
    BiasGuess,
    turned_deg,
)
from maci2_lab.baselines.segment import Answer, Segment, stage

CELLS = 10
"""Cells across the image and down."""

MIN_CONFIDENCE = 1.2


@dataclass(frozen=True)
class PointMap:
    """m points, each of one keyframe's map."""

    keyframe: NDArray[np.intp]
    """(m,) keyframe of each point."""

    xy: Array
    """(m, 2) normalized coordinates in the left camera of that keyframe."""

    depth: Array
    """(m,) depths in that camera [m]."""

    X_c0: Array
    """(m, 3) points in the first camera [m]."""

    confidence: Array
    """(m,) confidences, above 1."""

    def __len__(self) -> int:
        return len(self.keyframe)

    def take(self, which: Mask) -> "PointMap":
        """Some of the points."""
        return PointMap(**{name: values[which] for name, values in vars(self).items()})


def stereo_point_map(tracks: FeatureTracks, Ts_c0_c: Array) -> PointMap:
    """Most certain depth in every cell of every keyframe, transformed to the first camera."""
    confidence = 1.0 + 0.1 * tracks.depths / np.sqrt(tracks.var_depths)
    usable = np.nan_to_num(confidence) >= MIN_CONFIDENCE
    every = np.arange(len(Ts_c0_c))
    best = [_best_in_cells(tracks.xy[:, k], confidence[:, k], usable[:, k]) for k in every]
    k, points = np.repeat(every, [len(one) for one in best]), np.concatenate(best)
    xy, depth = tracks.xy[points, k], tracks.depths[points, k]
    in_camera = np.column_stack([xy * depth[:, None], depth])
    X_c0 = np.einsum("mij,mj->mi", Ts_c0_c[k, :3, :3], in_camera) + Ts_c0_c[k, :3, 3]
    return PointMap(k, xy, depth, X_c0, confidence[points, k])


def _best_in_cells(xy: Array, confidence: Array, usable: Mask) -> NDArray[np.intp]:
    """Indices of the most confident point in each cell of a grid over the points."""
    indices = np.flatnonzero(usable)
    if len(indices) == 0:
        return indices
    low, high = xy[indices].min(axis=0), xy[indices].max(axis=0)
    cells = np.floor(CELLS * (xy[indices] - low) / np.maximum(high - low, 1e-9))
    cells = np.clip(cells, 0, CELLS - 1).astype(np.intp)
    number = CELLS * cells[:, 1] + cells[:, 0]
    by_confidence = np.lexsort((-confidence[indices], number))
    _, first = np.unique(number[by_confidence], return_index=True)
    return np.sort(indices[by_confidence[first]])


REGIONS = 3
"""Regions along each of two axes."""

PRIOR_WEIGHT, SMOOTHNESS_WEIGHT = 5.0, 30.0
ITERATIONS = 50


@dataclass(frozen=True)
class Refined:
    """Result of the refinement."""

    state: ba.BundleState
    scales: Array
    """(9,) of the regions."""

    converged: bool
    cost_per_residual: float
    """Half the sum of all losses over the number of residuals, as Ceres counts."""

    cov: Array | None
    """(15 n, 15 n) of the keyframes; None where they are not determined."""


@dataclass(frozen=True)
class _Problem:
    points: PointMap
    region: Array
    """(m,) of each point."""

    bundle: ba.Bundle
    """IMU factors and priors."""

    scale: float
    """Prior mean of all scales."""


@stage("bundle adjustment")
def refine(segment: Segment, points: PointMap, x: ba.BundleState, scale: float) -> Refined:
    """FF-VIO-Init's nonlinear stage: keyframes and nine scales of a point map, with the IMU.

    Points stay where the map has them but for the scale of their region: three by three along the
    two main axes of the map. Scales are softplus of the unknowns, with a prior (weight 5) about the
    linear scale and neighbours that differ little (weight 30). Reprojection of 1 px under Cauchy's
    loss, IMU factors and priors as in OpenVINS.
    """
    info = ba.gauge_information(STD_GYRO_BIAS, STD_ACC_BIAS)
    nothing = ba.observations(
        segment.tracks, segment.T_b_c, np.zeros(len(segment.tracks), dtype=bool), False
    )
    bundle = ba.inertial_bundle(segment, nothing, x, ba.cauchy(1.0), info, var_walk=VAR_WALK)
    problem = _Problem(points, regions(points), bundle, scale)
    size, theta = ba.SIZE * len(x.p_w_b), np.full(REGIONS**2, _softplus_inverse(scale))
    (x, theta), now, converged, _ = ba.descend(
        (x, theta),
        lambda at: _linearize(problem, *at),
        lambda at, step: (
            at[0].moved(step[:size].reshape(-1, ba.SIZE), np.empty((0, 3))),
            at[1] + step[size:],
        ),
        ITERATIONS,
    )
    try:
        cov = np.asarray(np.linalg.inv(now.H), np.float64)[:size, :size]
    except np.linalg.LinAlgError:
        cov = None
    return Refined(x, _softplus(theta), converged, 0.5 * now.cost / now.residuals, cov)


def regions(points: PointMap) -> Array:
    """(m,) region of each point: thirds along the two main axes of the map."""
    centred = points.X_c0 - points.X_c0.mean(axis=0)
    axes = np.linalg.svd(centred, full_matrices=False)[2][:2]
    along = centred @ axes.T
    thirds = np.quantile(along, [1.0 / 3.0, 2.0 / 3.0], axis=0)
    cell = (along[:, None, :] > thirds[None]).sum(axis=1)
    return np.asarray(REGIONS * cell[:, 0] + cell[:, 1])


class _Equations(NamedTuple):
    """Normal equations of [keyframes, scales], their cost and number of residuals."""

    H: Array
    b: Array
    cost: float
    residuals: int

    def solve(self, damping: float) -> tuple[Array, float]:
        """Step, and the decrease of the cost that it predicts."""
        damped = self.H + damping * np.diag(np.clip(np.diag(self.H), 1e-6, 1e32))
        step = np.asarray(np.linalg.solve(damped, self.b), np.float64)
        return step, float(2.0 * self.b @ step - step @ self.H @ step)


def _linearize(problem: _Problem, x: ba.BundleState, theta: Array) -> _Equations:
    n, s = len(x.p_w_b), REGIONS**2
    H, b = np.zeros((n, ba.SIZE, n, ba.SIZE)), np.zeros((n, ba.SIZE))
    bundle = problem.bundle
    cost = ba.add_inertial(bundle, x, H, b) + ba.add_priors(bundle, x, H, b)
    size = n * ba.SIZE
    full, right = np.zeros((size + s, size + s)), np.zeros(size + s)
    full[:size, :size], right[:size] = H.reshape(size, size), b.ravel()
    r, J = reprojection_rows(problem.points, problem.region, bundle.seen.T_b_c, x, theta)
    r, J = r / bundle.std, J / bundle.std
    costs, weights = bundle.loss((r**2).sum(axis=1))
    root = np.sqrt(weights)
    r, J = r * root[:, None], J * root[:, None, None]
    flat = J.reshape(-1, size + s)
    full += flat.T @ flat
    right -= flat.T @ r.ravel()
    scale_rows, scale_r = _scale_rows(theta, problem.scale)
    full[size:, size:] += scale_rows.T @ scale_rows
    right[size:] -= scale_rows.T @ scale_r
    cost += float(costs.sum()) + float(scale_r @ scale_r)
    return _Equations(full, right, cost, r.size + 15 * (n - 1) + ba.SIZE + len(scale_r))


def reprojection_rows(
    points: PointMap, region: Array, T_b_c: Array, x: ba.BundleState, theta: Array
) -> tuple[Array, Array]:
    """Residuals (m, 2) in normalized units and derivatives (m, 2, 15 n + 9)."""
    R_b_c, p_b_c = T_b_c[:3, :3], T_b_c[:3, 3]
    k, every = points.keyframe, np.arange(len(points))
    n = len(x.p_w_b)
    by_scale_b0 = points.X_c0 @ R_b_c.T
    in_b0 = _softplus(theta)[region][:, None] * by_scale_b0 + p_b_c
    R_k, R_0 = x.Rs_w_b[k], x.Rs_w_b[0]
    to_k = np.swapaxes(R_k, 1, 2)
    q = (to_k @ (in_b0 @ R_0.T + x.p_w_b[0] - x.p_w_b[k])[:, :, None])[..., 0]
    c = (q - p_b_c) @ R_b_c
    inverse = 1.0 / np.maximum(c[:, 2], ba.NEAREST)
    xy = c[:, :2] * inverse[:, None]
    by_q = (R_b_c.T[:2] - xy[:, :, None] * R_b_c.T[2]) * inverse[:, None, None]
    J = np.zeros((len(points), 2, n * ba.SIZE + REGIONS**2))
    keyframes = J[:, :, : n * ba.SIZE].reshape(len(points), 2, n, ba.SIZE)
    first = to_k @ R_0
    keyframes[every, :, k, 0:3] = by_q @ skew_stack(q)
    keyframes[every, :, k, 3:6] = -by_q @ to_k
    keyframes[:, :, 0, 0:3] -= by_q @ first @ skew_stack(in_b0)
    keyframes[:, :, 0, 3:6] += by_q @ to_k
    J[:, :, : n * ba.SIZE] = keyframes.reshape(len(points), 2, n * ba.SIZE)
    slope = _softplus_slope(theta)[region]
    by_theta = (by_q @ first @ by_scale_b0[:, :, None])[..., 0] * slope[:, None]
    J[every, :, n * ba.SIZE + region] = by_theta
    return xy - points.xy, J


def _scale_rows(theta: Array, mean: float) -> tuple[Array, Array]:
    """Prior of every scale and smoothness between neighbouring regions, with residuals."""
    slopes, scales = np.diag(_softplus_slope(theta)), _softplus(theta)
    grid = np.arange(REGIONS**2).reshape(REGIONS, REGIONS)
    pairs = [
        *zip(grid[:, :-1].ravel(), grid[:, 1:].ravel(), strict=True),
        *zip(grid[:-1].ravel(), grid[1:].ravel(), strict=True),
    ]
    differences = np.array([slopes[i] - slopes[j] for i, j in pairs])
    rows = np.vstack([PRIOR_WEIGHT * slopes, SMOOTHNESS_WEIGHT * differences])
    changes = np.array([scales[i] - scales[j] for i, j in pairs])
    return rows, np.concatenate([PRIOR_WEIGHT * (scales - mean), SMOOTHNESS_WEIGHT * changes])


def _softplus(theta: Array) -> Array:
    return np.logaddexp(0.0, theta)


def _softplus_slope(theta: Array) -> Array:
    return np.asarray(1.0 / (1.0 + np.exp(-theta)), np.float64)


def _softplus_inverse(scale: float) -> float:
    """Unknown of a scale; one that is not positive starts at a thousandth."""
    return float(np.log(np.expm1(max(scale, 1e-3))))


MIN_DISPARITY_PX = 20.0
MIN_ROTATION_DEG = 5.0
MIN_POINTS = 50
ROUNDS, PER_KEYFRAME = 200, 10
INLIER, MIN_INLIERS, ENOUGH_INLIERS = 0.01, 0.5, 0.95
MAX_MEAN_RESIDUAL = 0.06
MAX_COST, MAX_SCALE_STD = 0.6, 0.5


@dataclass(frozen=True)
class LinearSolution:
    """Scale of the maps, initial velocity and gravity in the first body."""

    scale: float
    v0_b0: Array
    gravity_b0: Array
    residuals: Array
    """(m,) residuals of all points, in normalized image coordinates."""

    @property
    def inliers(self) -> Mask:
        return self.residuals < INLIER


def ff_back_end(segment: Segment, guess: BiasGuess) -> Answer:
    """Back end with the bias priors of its configuration."""
    points = stereo_point_map(segment.tracks, segment.Ts_c0_c())
    if len(points) < MIN_POINTS:
        return Answer(False, f"{len(points)} points with depth, needed {MIN_POINTS}")
    gyro_bias, acc_bias = np.array(guess.gyro), np.array(guess.acc)
    motion = integrated(raw_motion(segment, gyro_bias, acc_bias))
    found = ransac(points, motion, segment.T_b_c, segment.gravity_norm)
    state = motion.state(segment, found.v0_b0, found.gravity_b0, gyro_bias, acc_bias)
    reason = _rejection(segment, found)
    inliers = found.inliers
    if inliers.sum() < MIN_POINTS:
        return Answer(False, reason or f"{int(inliers.sum())} inliers, needed {MIN_POINTS}", state)
    refined = refine(segment, points.take(inliers), ba.from_vi_state(state), found.scale)
    return _answer(segment, refined, reason)


@stage("closed form")
def ransac(
    points: PointMap, motion: IntegratedMotion, T_b_c: Array, gravity_norm: float
) -> LinearSolution:
    """Solution of the largest set of inliers among random samples, refined with all of them."""
    rows, right = linear_rows(points, motion, T_b_c)
    weights = np.sqrt(points.confidence)
    rng = np.random.default_rng(0)
    best = solve(rows, right, weights, np.ones(len(points), dtype=bool), gravity_norm)
    if best.inliers.mean() >= ENOUGH_INLIERS:
        return best
    by_keyframe = [np.flatnonzero(points.keyframe == k) for k in np.unique(points.keyframe)]
    for _ in range(ROUNDS):
        sampled = np.zeros(len(points), dtype=bool)
        for indices in by_keyframe:
            sampled[rng.permutation(indices)[:PER_KEYFRAME]] = True
        tried = solve(rows, right, weights, sampled, gravity_norm)
        if tried.inliers.sum() > best.inliers.sum():
            best = tried
        if best.inliers.mean() >= ENOUGH_INLIERS:
            break
    if best.inliers.sum() < MIN_POINTS:
        return best
    return solve(rows, right, weights, best.inliers, gravity_norm)


def linear_rows(points: PointMap, motion: IntegratedMotion, T_b_c: Array) -> tuple[Array, Array]:
    """Rows (m, 2, 7) of [scale, v_0, g] and right sides (m, 2), in normalized coordinates at the
    depth of the map: [1 0 -x; 0 1 -y] (s X - v_0 t - g t^2 / 2 - alpha_k) without lever arms."""
    R_b_c, p_b_c = T_b_c[:3, :3], T_b_c[:3, 3]
    k = points.keyframe
    across = np.zeros((len(points), 2, 3))
    across[:, 0, 0] = across[:, 1, 1] = 1.0
    across[:, :, 2] = -points.xy
    across = across / points.depth[:, None, None]
    by_b0 = across @ (R_b_c.T @ np.swapaxes(motion.Rs_b0_b[k], 1, 2))
    t = motion.t[k][:, None, None]
    by_scale = by_b0 @ (points.X_c0 @ R_b_c.T)[:, :, None]
    rows = np.concatenate([by_scale, -t * by_b0, -0.5 * t**2 * by_b0], axis=2)
    moved = motion.alpha[k] - p_b_c
    right = (by_b0 @ moved[:, :, None])[..., 0] + across @ (R_b_c.T @ p_b_c)
    return rows, right


def solve(
    rows: Array, right: Array, weights: Array, used: Mask, gravity_norm: float
) -> LinearSolution:
    """Weighted least squares over some of the points; residuals of all of them."""
    A = (weights[used, None, None] * rows[used]).reshape(-1, 7)
    b = (weights[used, None] * right[used]).ravel()
    x = solve_on_sphere(A.T @ A, A.T @ b, slice(4, 7), gravity_norm)
    residuals = np.linalg.norm(rows @ x - right, axis=1)
    return LinearSolution(float(x[0]), x[1:4], x[4:7], residuals)


def _rejection(segment: Segment, found: LinearSolution) -> str:
    disparity_px = _disparity_px(segment)
    if disparity_px < MIN_DISPARITY_PX:
        return f"points moved by {disparity_px:.1f} px, needed {MIN_DISPARITY_PX:g}"
    turned = turned_deg(segment)
    if turned < MIN_ROTATION_DEG:
        return f"it rotated by {turned:.1f} deg, needed {MIN_ROTATION_DEG:g}"
    share = float(found.inliers.mean())
    if share < MIN_INLIERS:
        return f"{100 * share:.0f} % of the points are inliers, needed {100 * MIN_INLIERS:.0f} %"
    mean = float(found.residuals.mean())
    if mean > MAX_MEAN_RESIDUAL:
        return f"mean residual {mean:.3f}, needed at most {MAX_MEAN_RESIDUAL:g}"
    return ""


def _disparity_px(segment: Segment) -> float:
    """Mean disparity of tracks between their first and last observation."""
    tracks = segment.tracks
    several = tracks.seen.sum(axis=1) >= 2
    seen, xy = tracks.seen[several], tracks.xy[several]
    if len(seen) == 0:
        return 0.0
    every = np.arange(len(seen))
    first, last = seen.argmax(axis=1), seen.shape[1] - 1 - seen[:, ::-1].argmax(axis=1)
    moved = np.linalg.norm(xy[every, last] - xy[every, first], axis=1)
    return float(tracks.focal_px * moved.mean())


def _answer(segment: Segment, refined: Refined, reason: str) -> Answer:
    spread = float(refined.scales.std())
    if not reason and not refined.converged:
        reason = "the optimization did not converge"
    if not reason and refined.cost_per_residual > MAX_COST:
        reason = f"cost of {refined.cost_per_residual:.2f} a residual, needed {MAX_COST:g} at most"
    if not reason and spread > MAX_SCALE_STD:
        reason = f"scales of regions spread by {spread:.2f}, needed {MAX_SCALE_STD:g} at most"
    return ba.answer_of(segment, refined.state, refined.cov, reason)
