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

from dataclasses import dataclass, replace

import cv2
import numpy as np
from numpy.typing import NDArray

from maci2.feature_tracks.tracks import FeatureTracks
from maci2.geometry import se3_inv
from maci2.sensors import GroundTruth, Rig, truth_at
from maci2.types import Array, Mask, Stamps
from maci2.vision.covariance import FIXED_PX
from maci2.vision.keyframe import (
    Keyframe,
    Scaled,
    coarse_start,
    follow,
    keyframe,
    rough_disparities,
    scaled,
    seen_patches,
    with_depth,
)
from maci2.vision.match_features import Checks, gather
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


@dataclass(frozen=True)
class _View:
    """Points that are followed, as one keyframe shows them."""

    number: NDArray[np.intp]
    """(m,) of each point, in the order in which they appeared."""

    keyframe: Keyframe
    """Its points are those that are followed."""

    row_offset: float
    """Median row error of all stereo matches of the keyframe [px]."""

    backward: Array
    """(m,) how far the way back missed in the worst of the images since the last keyframe [px]."""

    @property
    def right(self) -> NDArray[np.intp]:
        """Places of the points that the right image shows, too."""
        return np.flatnonzero(with_depth(self.keyframe, self.row_offset))


class _Followed:
    """Points that are followed now."""

    def __init__(self) -> None:
        self.number = np.empty(0, dtype=np.intp)
        self.uv, self.backward = np.empty((0, 2)), np.empty(0)
        self.count = 0

    def advance(self, before: Scaled, now: Scaled) -> None:
        """Follow the points to the next left image."""
        start = coarse_start(before, now, self.uv, self.uv)
        found = follow(before.fine, now.fine, self.uv, start)
        self.uv = found.uv
        self.backward = np.maximum(self.backward, found.backward)
        self._keep(found.found)

    def reject(self, before: _View) -> None:
        """Keep the points that agree with one epipolar geometry between two keyframes."""
        _, here, there = np.intersect1d(self.number, before.number, return_indices=True)
        if len(here) < MIN_RANSAC:
            return
        _, inliers = cv2.findFundamentalMat(
            before.keyframe.uv[there], self.uv[here], cv2.FM_RANSAC, RANSAC_PX, RANSAC_CONFIDENCE
        )
        if inliers is not None:
            kept = np.zeros(len(self.number), dtype=bool)
            kept[here] = inliers.ravel().astype(bool)
            self._keep(kept)

    def top_up(self, new: Array) -> None:
        """Add new points (n, 2) where there are none."""
        if len(self.uv) and len(new):
            distances = np.linalg.norm(new[:, None] - self.uv[None], axis=2)
            new = new[distances.min(axis=1) > FREE_PX]
        new = new[: max(POINTS - len(self.uv), 0)]
        self.number = np.concatenate([self.number, self.count + np.arange(len(new))])
        self.uv = np.vstack([self.uv, new])
        self.backward = np.concatenate([self.backward, np.zeros(len(new))])
        self.count += len(new)

    def view(self, shown: Keyframe) -> _View:
        """The points at a keyframe, searched in its right image."""
        rough = rough_disparities(shown.left, shown.right, self.uv)
        guess = self.uv - np.column_stack([rough.start, np.zeros(len(self.uv))])
        stereo = follow(shown.left, shown.right, self.uv, guess)
        keyframe_of_points = replace(shown, uv=self.uv, stereo=stereo, relief=rough.relief)
        view = _View(self.number, keyframe_of_points, shown.row_offset, self.backward)
        self.backward = np.zeros(len(self.uv))
        return view

    def _keep(self, which: Mask) -> None:
        self.number, self.uv = self.number[which], self.uv[which]
        self.backward = self.backward[which]


def image_tracks(odometry: StereoOdometry, stamps_ns: Stamps) -> FeatureTracks:
    """Follow points over keyframes at these timestamps, through all images between them."""
    frames, pair = odometry.frames, odometry.rectification
    indices = [frames.index_of(int(stamp_ns)) for stamp_ns in stamps_ns]
    followed = _Followed()
    views: list[_View] = []
    latest: Scaled | None = None
    for index in range(indices[0], indices[-1] + 1):
        now = scaled(pair.left(frames.left(index)))
        if latest is not None:
            followed.advance(latest, now)
        latest = now
        if index in indices:
            shown = keyframe(pair, frames.left(index), frames.right(index))
            if views:
                followed.reject(views[-1])
            followed.top_up(shown.uv)
            views.append(followed.view(shown))
    return _stacked(odometry, stamps_ns, views, followed.count)


def _stacked(
    odometry: StereoOdometry, stamps_ns: Stamps, views: list[_View], count: int
) -> FeatureTracks:
    """Views of all keyframes; observations of a first one have fixed noise, the others the
    covariance that the model of the odometry predicts."""
    pair, n = odometry.rectification, len(views)
    seen, seen_right = np.zeros((count, n), dtype=bool), np.zeros((count, n), dtype=bool)
    xy, xy_right = np.full((count, n, 2), np.nan), np.full((count, n, 2), np.nan)
    covs = np.full((count, n, 2, 2), np.nan)
    covs_right = covs.copy()
    fixed = (FIXED_PX / pair.focal) ** 2 * np.eye(2)
    for k, view in enumerate(views):
        right = view.number[view.right]
        seen[view.number, k], seen_right[right, k] = True, True
        xy[view.number, k] = (view.keyframe.uv - pair.center) / pair.focal
        xy_right[right, k] = (view.keyframe.stereo.uv[view.right] - pair.center) / pair.focal
        covs[view.number, k], covs_right[right, k] = fixed, fixed
        if k > 0:
            which, predicted = _predicted_covariances(odometry, views[k - 1], view)
            covs[which, k] = predicted[:, :2, :2] / pair.focal**2
            covs_right[which, k] = predicted[:, 3, 3][:, None, None] * np.eye(2) / pair.focal**2
    return FeatureTracks(
        stamps_ns, seen, xy, covs, seen_right, xy_right, covs_right, pair.focal, pair.baseline
    )


def _predicted_covariances(
    odometry: StereoOdometry, before: _View, view: _View
) -> tuple[NDArray[np.intp], Array]:
    """Numbers of points that both cameras see in both keyframes, and the covariance (m, 4, 4) of
    (u1, v1, d0, d1) that the model of the odometry predicts for them [px^2]."""
    numbers, at0, at1 = np.intersect1d(
        before.number[before.right], view.number[view.right], return_indices=True
    )
    if len(numbers) == 0:
        return numbers, np.empty((0, 4, 4))
    first, second, at0, at1 = before.keyframe, view.keyframe, before.right[at0], view.right[at1]
    across0, across1 = (first.uv - first.stereo.uv)[at0], (second.uv - second.stereo.uv)[at1]
    matches = Matches(first.uv[at0], second.uv[at1], across0[:, 0], across1[:, 0])
    backward = [view.backward[at1], first.stereo.backward[at0], second.stereo.backward[at1]]
    row_errors = [across0[:, 1] - before.row_offset, across1[:, 1] - view.row_offset]
    checks = Checks(np.column_stack(backward), np.column_stack(row_errors), first.relief[at0])
    rows = np.column_stack([first.stereo.uv[at0, 1], second.stereo.uv[at1, 1]])
    images = seen_patches(first, second)
    return numbers, odometry.model(gather(images, matches, checks, rows))


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
