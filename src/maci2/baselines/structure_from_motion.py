"""Structure from motion of one camera as in VINS-Mono: poses of all keyframes up to scale.

The oldest keyframe with more than 20 matches to the newest and 30 px of mean parallax gives the
first two poses by a fundamental matrix. The others follow by PnP, forward and backward, with points
triangulated on the way; a bundle adjustment without robust loss holds that keyframe's pose and the
newest one's position, which is the scale.
"""

from dataclasses import dataclass

import cv2
import numpy as np

from maci2.baselines.bundle_adjustment import Bundle, adjust, squares
from maci2.baselines.bundle_factors import observations
from maci2.baselines.bundle_state import SIZE, BundleState
from maci2.baselines.stages import stage
from maci2.feature_tracks.track_adjustment import triangulate
from maci2.feature_tracks.tracks import FeatureTracks
from maci2.lie import se3, se3_inv
from maci2.types import Array, Mask

FOCAL_PX = 460.0
"""Focal length [px] in which its thresholds are written."""

MIN_MATCHES, MIN_PARALLAX_PX = 20, 30.0
RANSAC_PX, RANSAC_CONFIDENCE = 0.3, 0.99
MIN_INLIERS = 12
MIN_PNP = 10
ITERATIONS = 50
MAX_COST = 5e-3
"""Cost up to which a solution that did not converge is accepted."""


@dataclass(frozen=True)
class VisualStructure:
    """Poses up to scale, or the reason why there are none."""

    Ts_c0_c: Array | None
    reason: str = ""


@stage("structure")
def reconstruct(tracks: FeatureTracks) -> VisualStructure:
    """Poses of the left cameras from their tracks alone."""
    pair = _first_pair(tracks)
    if pair is None:
        return VisualStructure(None, "no keyframe has enough parallax to the newest one")
    first, T_first_newest = pair
    newest = len(tracks.stamps_ns) - 1
    Ts = np.tile(np.eye(4), (newest + 1, 1, 1))
    Ts[newest] = T_first_newest
    points, known = np.zeros((len(tracks), 3)), np.zeros(len(tracks), dtype=bool)
    _extend(tracks, Ts, points, known, (first, newest))
    for k in (*range(first + 1, newest), *range(first - 1, -1, -1)):
        forward = k > first
        before = Ts[k - 1] if forward else Ts[k + 1]
        found = _pnp(tracks, points, known, k, before)
        if found is None:
            return VisualStructure(None, f"keyframe {k} sees fewer than {MIN_PNP} known points")
        Ts[k] = found
        _extend(tracks, Ts, points, known, (k, newest) if forward else (k, first))
    for k in range(first + 1, newest):
        _extend(tracks, Ts, points, known, (first, k))
    _extend_rest(tracks, Ts, points, known)
    return _adjusted(tracks, Ts, points, known, first)


def _first_pair(tracks: FeatureTracks) -> tuple[int, Array] | None:
    """Oldest keyframe with parallax to the newest, and the pose of the newest in it."""
    newest = len(tracks.stamps_ns) - 1
    for k in range(newest):
        both = tracks.seen[:, k] & tracks.seen[:, newest]
        if both.sum() <= MIN_MATCHES:
            continue
        xy0, xy1 = tracks.xy[both, k], tracks.xy[both, newest]
        if FOCAL_PX * np.linalg.norm(xy1 - xy0, axis=1).mean() <= MIN_PARALLAX_PX:
            continue
        T = _relative_pose(xy0, xy1)
        if T is not None:
            return k, T
    return None


def _relative_pose(xy0: Array, xy1: Array) -> Array | None:
    F, mask = cv2.findFundamentalMat(
        xy0, xy1, cv2.FM_RANSAC, RANSAC_PX / FOCAL_PX, RANSAC_CONFIDENCE
    )
    if F is None or F.shape != (3, 3):
        return None
    inliers, R, t, _ = cv2.recoverPose(F, xy0, xy1, np.eye(3), mask=mask)
    if inliers <= MIN_INLIERS:
        return None
    return se3_inv(se3(np.asarray(R, np.float64), np.asarray(t, np.float64).ravel()))


def _pnp(
    tracks: FeatureTracks, points: Array, known: Mask, k: int, T_before: Array
) -> Array | None:
    """Pose of keyframe k from known points, starting at that of a neighbour."""
    which = tracks.seen[:, k] & known
    if which.sum() < MIN_PNP:
        return None
    T_c_w = se3_inv(np.ascontiguousarray(T_before))
    rotation, translation = cv2.Rodrigues(T_c_w[:3, :3])[0], T_c_w[:3, 3:4].copy()
    found, rotation, translation = cv2.solvePnP(
        points[which], tracks.xy[which, k], np.eye(3), None, rotation, translation, True
    )
    if not found or not (np.isfinite(rotation).all() and np.isfinite(translation).all()):
        return None
    R = np.asarray(cv2.Rodrigues(rotation)[0], np.float64)
    return se3_inv(se3(R, np.asarray(translation, np.float64).ravel()))


def _extend(
    tracks: FeatureTracks, Ts: Array, points: Array, known: Mask, views: tuple[int, int]
) -> None:
    """Triangulate points that two keyframes observe."""
    new = tracks.seen[:, views[0]] & tracks.seen[:, views[1]] & ~known
    which = np.zeros_like(tracks.seen)
    for view in views:
        which[new, view] = True
    _triangulate(tracks, Ts, points, known, which)


def _extend_rest(tracks: FeatureTracks, Ts: Array, points: Array, known: Mask) -> None:
    """Triangulate the remaining points from the first and last keyframe that observe them."""
    new = ~known & (tracks.seen.sum(axis=1) >= 2)
    which = np.zeros_like(tracks.seen)
    rows = np.flatnonzero(new)
    which[rows, tracks.seen[rows].argmax(axis=1)] = True
    which[rows, tracks.seen.shape[1] - 1 - tracks.seen[rows, ::-1].argmax(axis=1)] = True
    _triangulate(tracks, Ts, points, known, which)


def _triangulate(tracks: FeatureTracks, Ts: Array, points: Array, known: Mask, which: Mask) -> None:
    rows = np.flatnonzero(which.any(axis=1))
    if len(rows) == 0:
        return
    rays = np.einsum("kij,pkj->pki", Ts[:, :3, :3], np.nan_to_num(tracks.bearings[rows]))
    found, fine = triangulate(rays, Ts[:, :3, 3], which[rows])
    points[rows[fine]], known[rows[fine]] = found[fine], True


def _adjusted(
    tracks: FeatureTracks, Ts: Array, points: Array, known: Mask, first: int
) -> VisualStructure:
    n = len(Ts)
    nothing = np.zeros((n, 3))
    start = BundleState(Ts[:, :3, :3], Ts[:, :3, 3], nothing, nothing, nothing, points[known])
    fixed = np.zeros((n, SIZE), dtype=bool)
    fixed[:, 6:] = True
    fixed[first] = True
    fixed[n - 1, 3:6] = True
    seen = observations(tracks, np.eye(4), known, stereo=False)
    bundle = Bundle(seen, 1.0, squares, None, 0.0, np.ones(6), start, np.zeros(SIZE), fixed=fixed)
    result = adjust(bundle, start, ITERATIONS)
    if not result.converged and 0.5 * result.cost >= MAX_COST:
        return VisualStructure(None, "the bundle adjustment did not converge")
    found = np.tile(np.eye(4), (n, 1, 1))
    found[:, :3, :3], found[:, :3, 3] = result.state.Rs_w_b, result.state.p_w_b
    return VisualStructure(se3_inv(np.ascontiguousarray(found[0])) @ found)
