"""Feature tracks from images, and simulated ones.

Image tracks follow points as the trackers of the baselines do: Lucas-Kanade from each left image to
the next, forward and back; at every keyframe the epipolar geometry to the one before rejects what
does not fit (RANSAC, 1 px), the right image is searched, and new points take the free places. The
odometry matches keyframe with keyframe instead; both share rectification, keypoints and the
covariance of matches.

Simulated tracks come from an ideal tracker of points around a true trajectory: points that left the
left image are replaced at every keyframe by new ones, at a random pixel and depth; every
observation, left and right, has independent noise of one standard deviation. There are no
occlusions and no mismatches.
"""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from maci2.feature_tracks.tracks import FeatureTracks
from maci2.lie import se3_inv
from maci2.sensors import GroundTruth, Rig, truth_at
from maci2.types import Array, Mask, Stamps
from maci2.vision.covariance import FIXED_PX
from maci2.vision.keyframe import MIN_DISPARITY, Keyframe, keyframe
from maci2.vision.klt import (
    MAX_ROW_ERROR_PX,
    Scaled,
    coarse_start,
    follow,
    rough_disparities,
    scaled,
)
from maci2.vision.match_features import Checks, SeenPatches, gather
from maci2.vision.odometry import StereoOdometry
from maci2.vision.pose_sources import MAX_TRUTH_GAP_S
from maci2.vision.rectify import rectify
from maci2.vision.two_frame import Matches, PinholePair

POINTS = 150
"""Points that are followed at a time."""

FREE_PX = 20.0
"""Distance of a new point from those that are followed."""

RANSAC_PX, RANSAC_CONFIDENCE = 1.0, 0.99
MIN_RANSAC = 8


@dataclass
class _Followed:
    """Points that are followed now."""

    number: NDArray[np.intp]
    """(m,) of each point, in the order in which they appeared."""

    uv: Array
    """(m, 2) in the latest left image [px]."""

    backward: Array
    """(m,) how far the way back missed in the worst of the images since the last keyframe [px]."""

    def keep(self, which: Mask) -> None:
        self.number, self.uv = self.number[which], self.uv[which]
        self.backward = self.backward[which]


@dataclass(frozen=True)
class _View:
    """What one keyframe shows of the points."""

    image: Keyframe
    number: NDArray[np.intp]
    uv: Array
    backward: Array
    right: Array
    """(m, 2) in the right image [px]."""

    right_backward: Array
    relief: Array
    """(m, 2) of the rough disparities around each point."""

    found_right: Mask


def image_tracks(odometry: StereoOdometry, stamps_ns: Stamps) -> FeatureTracks:
    """Follow points over keyframes at these timestamps, through all images between them."""
    frames, pair = odometry.frames, odometry.rectification
    indices = [frames.index_of(int(stamp_ns)) for stamp_ns in stamps_ns]
    followed = _Followed(np.empty(0, dtype=np.intp), np.empty((0, 2)), np.empty(0))
    views: list[_View] = []
    latest: Scaled | None = None
    count = 0
    for index in range(indices[0], indices[-1] + 1):
        at_keyframe = index in indices
        left = pair.left(frames.left(index))
        now = scaled(left)
        if latest is not None:
            _advance(followed, latest, now)
        latest = now
        if not at_keyframe:
            continue
        shown = keyframe(pair, frames.left(index), frames.right(index))
        if views:
            _reject(followed, views[-1])
        count = _top_up(followed, shown, count)
        views.append(_seen(followed, shown))
        followed.backward = np.zeros(len(followed.uv))
    return _stacked(odometry, stamps_ns, views, count)


def _advance(followed: _Followed, before: Scaled, now: Scaled) -> None:
    start = coarse_start(before, now, followed.uv, followed.uv)
    found = follow(before.fine, now.fine, followed.uv, start)
    followed.uv = found.uv
    followed.backward = np.maximum(followed.backward, found.backward)
    followed.keep(found.found)


def _reject(followed: _Followed, before: _View) -> None:
    """Keep what agrees with one epipolar geometry between two keyframes."""
    _, here, there = np.intersect1d(followed.number, before.number, return_indices=True)
    if len(here) < MIN_RANSAC:
        return
    _, inliers = cv2.findFundamentalMat(
        before.uv[there], followed.uv[here], cv2.FM_RANSAC, RANSAC_PX, RANSAC_CONFIDENCE
    )
    if inliers is None:
        return
    kept = np.zeros(len(followed.number), dtype=bool)
    kept[here] = inliers.ravel().astype(bool)
    followed.keep(kept)


def _top_up(followed: _Followed, shown: Keyframe, count: int) -> int:
    """New points where there are none; returns how many there have been in all."""
    new = shown.uv
    if len(followed.uv) and len(new):
        distances = np.linalg.norm(new[:, None] - followed.uv[None], axis=2)
        new = new[distances.min(axis=1) > FREE_PX]
    new = new[: max(POINTS - len(followed.uv), 0)]
    followed.number = np.concatenate([followed.number, count + np.arange(len(new))])
    followed.uv = np.vstack([followed.uv, new])
    followed.backward = np.concatenate([followed.backward, np.zeros(len(new))])
    return count + len(new)


def _seen(followed: _Followed, shown: Keyframe) -> _View:
    rough = rough_disparities(shown.left, shown.right, followed.uv)
    guess = followed.uv - np.column_stack([rough.start, np.zeros(len(followed.uv))])
    stereo = follow(shown.left, shown.right, followed.uv, guess)
    rows = followed.uv[:, 1] - stereo.uv[:, 1] - shown.row_offset
    disparities = followed.uv[:, 0] - stereo.uv[:, 0]
    fits = (np.abs(rows) < MAX_ROW_ERROR_PX) & (disparities > MIN_DISPARITY)
    return _View(
        shown,
        followed.number.copy(),
        followed.uv.copy(),
        followed.backward.copy(),
        stereo.uv,
        stereo.backward,
        rough.relief,
        stereo.found & fits,
    )


def _stacked(
    odometry: StereoOdometry, stamps_ns: Stamps, views: list[_View], count: int
) -> FeatureTracks:
    pair, n = odometry.rectification, len(views)
    seen, seen_right = np.zeros((count, n), dtype=bool), np.zeros((count, n), dtype=bool)
    xy, xy_right = np.full((count, n, 2), np.nan), np.full((count, n, 2), np.nan)
    covs = np.full((count, n, 2, 2), np.nan)
    covs_right = covs.copy()
    fixed = (FIXED_PX / pair.focal) ** 2 * np.eye(2)
    for k, view in enumerate(views):
        right = view.number[view.found_right]
        seen[view.number, k], seen_right[right, k] = True, True
        xy[view.number, k] = (view.uv - pair.center) / pair.focal
        xy_right[right, k] = (view.right[view.found_right] - pair.center) / pair.focal
        covs[view.number, k], covs_right[right, k] = fixed, fixed
        if k > 0:
            which, stated = _stated_covariances(odometry, views[k - 1], view)
            covs[which, k] = stated[:, :2, :2] / pair.focal**2
            covs_right[which, k] = stated[:, 3, 3][:, None, None] * np.eye(2) / pair.focal**2
    return FeatureTracks(
        stamps_ns, seen, xy, covs, seen_right, xy_right, covs_right, pair.focal, pair.baseline
    )


def _stated_covariances(
    odometry: StereoOdometry, before: _View, view: _View
) -> tuple[NDArray[np.intp], Array]:
    """Numbers of points that both cameras see in both keyframes, and the covariance (m, 4, 4) of
    (u1, v1, d0, d1) that the odometry's model states for them [px^2]."""
    numbers, first, second = np.intersect1d(
        before.number[before.found_right], view.number[view.found_right], return_indices=True
    )
    if len(numbers) == 0:
        return numbers, np.empty((0, 4, 4))
    at0, at1 = np.flatnonzero(before.found_right)[first], np.flatnonzero(view.found_right)[second]
    uv0, uv1, right0, right1 = before.uv[at0], view.uv[at1], before.right[at0], view.right[at1]
    matches = Matches(uv0, uv1, uv0[:, 0] - right0[:, 0], uv1[:, 0] - right1[:, 0])
    checks = Checks(
        np.column_stack([view.backward[at1], before.right_backward[at0], view.right_backward[at1]]),
        np.column_stack(
            [
                uv0[:, 1] - right0[:, 1] - before.image.row_offset,
                uv1[:, 1] - right1[:, 1] - view.image.row_offset,
            ]
        ),
        before.relief[at0],
    )
    first_image, second_image = before.image, view.image
    images = SeenPatches(
        first_image.left,
        first_image.right,
        second_image.left,
        second_image.right,
        first_image.scaled.fine,
        second_image.scaled.fine,
    )
    rows = np.column_stack([right0[:, 1], right1[:, 1]])
    return numbers, odometry.model(gather(images, matches, checks, rows))


POINTS = 150
"""Points that the tracker keeps in the left image."""

BORDER_PX = 5.0
"""Points nearer to the border of an image are not seen in it."""

NEAREST_SHARE = 0.2
"""A point nearer than this share of the nearest depth is no longer seen."""


@dataclass(frozen=True)
class SimulatedTracker:
    """A rectified stereo camera and its tracker."""

    camera: PinholePair
    """Geometry of the rectified pair."""

    resolution: tuple[int, int]
    """Width and height of the images [px]."""

    T_b_c: Array
    """(4, 4) pose of the rectified left camera in the body."""

    pixel_std: float
    """Standard deviation of every coordinate of every observation [px]."""

    depths: tuple[float, float]
    """Nearest and farthest depth at which points appear [m]; uniform in the logarithm."""

    def tracks(self, truth: GroundTruth, stamps_ns: Stamps, seed: tuple[int, ...]) -> FeatureTracks:
        """Tracks over keyframes at `stamps_ns` of a camera that moves with the ground truth."""
        rng = np.random.default_rng((*seed, 17))
        Ts_w_c = truth_at(truth, stamps_ns, MAX_TRUTH_GAP_S).Ts_w_b @ self.T_b_c
        points_w, followed = np.empty((0, 3)), np.empty(0, dtype=bool)
        seen: list[Mask] = []
        for T_w_c in Ts_w_c:
            followed = followed & self._inside(points_w, T_w_c)
            count = POINTS - int(followed.sum())
            points_w = np.vstack([points_w, self._new_points(rng, T_w_c, count)])
            followed = np.concatenate([followed, np.ones(count, dtype=bool)])
            seen.append(followed.copy())
        return self._observed(rng, stamps_ns, Ts_w_c, points_w, seen)

    def _new_points(self, rng: np.random.Generator, T_w_c: Array, count: int) -> Array:
        """(count, 3) points anywhere in the left image, in the world."""
        size = np.array(self.resolution) - 1.0
        uv = rng.uniform(BORDER_PX, size - BORDER_PX, size=(count, 2))
        near, far = np.log(self.depths)
        z = np.exp(rng.uniform(near, far, size=(count, 1)))
        xy = (uv - np.array(self.camera.center)) / self.camera.focal
        return np.hstack([xy * z, z]) @ T_w_c[:3, :3].T + T_w_c[:3, 3]

    def _inside(self, points_w: Array, T_w_c: Array, offset: float = 0.0) -> Mask:
        """Mask of the points seen by a camera that sits `offset` along x of the left one [m]."""
        return self._in_image(_into(points_w, T_w_c) - np.array([offset, 0.0, 0.0]))

    def _in_image(self, points_c: Array) -> Mask:
        z = np.where(points_c[:, 2] > NEAREST_SHARE * self.depths[0], points_c[:, 2], np.nan)
        uv = self.camera.focal * points_c[:, :2] / z[:, None] + np.array(self.camera.center)
        upper = np.array(self.resolution) - 1.0 - BORDER_PX
        return np.asarray(((uv >= BORDER_PX) & (uv <= upper)).all(axis=1))

    def _observed(
        self,
        rng: np.random.Generator,
        stamps_ns: Stamps,
        Ts_w_c: Array,
        points_w: Array,
        seen_until: list[Mask],
    ) -> FeatureTracks:
        shape = len(points_w), len(Ts_w_c)
        seen, seen_right = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
        xy, xy_right = np.full((*shape, 2), np.nan), np.full((*shape, 2), np.nan)
        offset = np.array([self.camera.baseline, 0.0, 0.0])
        std = self.pixel_std / self.camera.focal
        for k, T_w_c in enumerate(Ts_w_c):
            there = seen[:, k]
            there[: len(seen_until[k])] = seen_until[k]
            points_c = _into(points_w, T_w_c)
            seen_right[:, k] = there & self._inside(points_w, T_w_c, self.camera.baseline)
            noise = std * rng.standard_normal((2, len(points_w), 2))
            xy[there, k] = (points_c[:, :2] / points_c[:, 2:] + noise[0])[there]
            shifted = points_c - offset
            both = seen_right[:, k]
            xy_right[both, k] = (shifted[:, :2] / shifted[:, 2:] + noise[1])[both]
        covs, covs_right = (
            np.where(mask[:, :, None, None], std**2 * np.eye(2), np.nan)
            for mask in (seen, seen_right)
        )
        return FeatureTracks(
            stamps_ns,
            seen,
            xy,
            covs,
            seen_right,
            xy_right,
            covs_right,
            self.camera.focal,
            self.camera.baseline,
        )


def simulated_tracker(rig: Rig, pixel_std: float, depths: tuple[float, float]) -> SimulatedTracker:
    """The rectified pair of a rig with this noise."""
    pair = rectify(rig)
    camera = PinholePair(pair.focal, pair.center, pair.baseline)
    return SimulatedTracker(camera, pair.resolution, pair.T_b_cr, pixel_std, depths)


def _into(points_w: Array, T_w_c: Array) -> Array:
    T_c_w = se3_inv(np.ascontiguousarray(T_w_c))
    return np.asarray(points_w @ T_c_w[:3, :3].T + T_c_w[:3, 3], np.float64)
