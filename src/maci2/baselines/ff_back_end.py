"""The back end of FF-VIO-Init (RSS 2026) on point maps by stereo depth.

FF-VIO-Init asks a feed-forward network for a point map of every keyframe in the first camera's
frame, up to one scale. The network is not here: its maps are replaced by stereo depth, carried into
the first camera by the relative poses of vision, so this is a substitute, stereo, and not
FF-VIO-Init. What follows the maps is the original's:

1. 10 x 10 cells an image, the point of the best confidence in each, at least 1.2 (here
   1 + 0.1 z / sigma_z: depth known to half of itself).
2. Scale, start velocity and gravity of known norm in one linear system, rows weighed by the root of
   the confidence; RANSAC of 200 rounds with ten points a keyframe, inliers within 0.01.
3. `ff_refinement`: IMU factors, OpenVINS' priors and points with nine scales.

Gates: 20 px of disparity, 5 deg of rotation, 50 points, half of them inliers, mean residual 0.06;
then that the refinement converged with a cost below 0.6 a residual and scales that agree to 0.5.
"""

from dataclasses import dataclass

import numpy as np

from maci2.baselines.alignment import raw_motion
from maci2.baselines.bundle_state import from_vi_state, to_posterior, to_vi_state
from maci2.baselines.ff_refinement import Refined, refine
from maci2.baselines.integrated_motion import IntegratedMotion, integrated
from maci2.baselines.openvins import BiasGuess, turned_deg
from maci2.baselines.point_map import PointMap, stereo_point_map
from maci2.baselines.segment import Answer, Initializer, Segment
from maci2.baselines.sphere import solve_on_sphere
from maci2.baselines.stages import stage
from maci2.types import Array, Mask

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


def ff_back_end(guess: BiasGuess) -> Initializer:
    """Back end with the bias priors of its configuration."""

    def initialize(segment: Segment) -> Answer:
        return _initialize(segment, guess)

    return initialize


def _initialize(segment: Segment, guess: BiasGuess) -> Answer:
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
    refined = refine(segment, points.take(inliers), from_vi_state(state), found.scale)
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
    state = to_vi_state(segment, refined.state)
    spread = float(refined.scales.std())
    if not reason and not refined.converged:
        reason = "the optimization did not converge"
    if not reason and refined.cost_per_residual > MAX_COST:
        reason = f"cost of {refined.cost_per_residual:.2f} a residual, needed {MAX_COST:g} at most"
    if not reason and spread > MAX_SCALE_STD:
        reason = f"scales of regions spread by {spread:.2f}, needed {MAX_SCALE_STD:g} at most"
    if refined.cov is None:
        return Answer(False, reason or "the covariance is singular", state)
    return Answer(not reason, reason, state, to_posterior(segment, refined.state, refined.cov))
