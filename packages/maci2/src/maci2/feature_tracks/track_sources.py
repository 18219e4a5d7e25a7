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

from maci2.feature_tracks.tracks import FeatureTracks, unseen
from maci2.geometry import se3_inv
from maci2.sensors import GroundTruth, Rig, truth_at
from maci2.types import Array, Mask, Stamps
from maci2.vision.covariance import FIXED_PX
from maci2.vision.keyframe import (
    Keyframe,
    Scaled,
    checked_matches,
    coarse_start,
    follow,
    keyframe,
    scaled,
    stereo_matches,
)
from maci2.vision.odometry import StereoOdometry
from maci2.vision.pose_sources import MAX_TRUTH_GAP_S
from maci2.vision.rectify import rectify
from maci2.vision.two_frame import PinholePair

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
    """Its points are those that are followed; its row offset is that of all stereo matches."""

    backward: Array
    """(m,) how far the way back missed in the worst of the images since the last keyframe [px]."""

    @property
    def right(self) -> NDArray[np.intp]:
        """Places of the points that the right image shows, too."""
        return np.flatnonzero(self.keyframe.with_depth)


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
        stereo, relief = stereo_matches(shown.left, shown.right, self.uv)
        of_points = replace(shown, uv=self.uv, stereo=stereo, relief=relief)
        view = _View(self.number, of_points, self.backward)
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
    pair = odometry.rectification
    seen, xy, covs = unseen(count, len(views))
    fixed = (FIXED_PX / pair.focal) ** 2 * np.eye(2)
    for k, view in enumerate(views):
        right = view.number[view.right]
        xy[0, view.number, k] = (view.keyframe.uv - pair.center) / pair.focal
        xy[1, right, k] = (view.keyframe.stereo.uv[view.right] - pair.center) / pair.focal
        for side, shown in enumerate((view.number, right)):
            seen[side, shown, k], covs[side, shown, k] = True, fixed
        if k > 0:
            which, predicted = _predicted_covariances(odometry, views[k - 1], view)
            covs[0, which, k] = predicted[:, :2, :2] / pair.focal**2
            covs[1, which, k] = predicted[:, 3, 3][:, None, None] * np.eye(2) / pair.focal**2
    return FeatureTracks.of_both_cameras(stamps_ns, seen, xy, covs, pair)


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
    at0, at1 = before.right[at0], view.right[at1]
    found = checked_matches(before.keyframe, at0, view.keyframe, at1, view.backward[at1])
    return numbers, odometry.model(found.features)


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
        seen_until: list[Mask] = []
        for T_w_c in Ts_w_c:
            followed = followed & self._in_image(_into(points_w, T_w_c))
            count = POINTS - int(followed.sum())
            points_w = np.vstack([points_w, self._new_points(rng, T_w_c, count)])
            followed = np.concatenate([followed, np.ones(count, dtype=bool)])
            seen_until.append(followed)
        seen, xy, _ = unseen(len(points_w), len(Ts_w_c))
        std = self.pixel_std / self.camera.focal
        for k, T_w_c in enumerate(Ts_w_c):
            left = _into(points_w, T_w_c)
            right = left - np.array([self.camera.baseline, 0.0, 0.0])
            seen[0, : len(seen_until[k]), k] = seen_until[k]
            seen[1, :, k] = seen[0, :, k] & self._in_image(right)
            noise = std * rng.standard_normal((2, len(points_w), 2))
            for side, points_c in enumerate((left, right)):
                there = seen[side, :, k]
                xy[side, there, k] = (points_c[:, :2] / points_c[:, 2:] + noise[side])[there]
        covs = np.where(seen[..., None, None], std**2 * np.eye(2), np.nan)
        return FeatureTracks.of_both_cameras(stamps_ns, seen, xy, covs, self.camera)

    def _new_points(self, rng: np.random.Generator, T_w_c: Array, count: int) -> Array:
        """(count, 3) points anywhere in the left image, in the world."""
        size = np.array(self.resolution) - 1.0
        uv = rng.uniform(BORDER_PX, size - BORDER_PX, size=(count, 2))
        near, far = np.log(self.depths)
        z = np.exp(rng.uniform(near, far, size=(count, 1)))
        xy = (uv - np.array(self.camera.center)) / self.camera.focal
        return np.hstack([xy * z, z]) @ T_w_c[:3, :3].T + T_w_c[:3, 3]

    def _in_image(self, points_c: Array) -> Mask:
        """Mask of the points (n, 3) that a camera of the pair sees."""
        z = np.where(points_c[:, 2] > NEAREST_SHARE * self.depths[0], points_c[:, 2], np.nan)
        uv = self.camera.focal * points_c[:, :2] / z[:, None] + np.array(self.camera.center)
        upper = np.array(self.resolution) - 1.0 - BORDER_PX
        return np.asarray(((uv >= BORDER_PX) & (uv <= upper)).all(axis=1))


def simulated_tracker(rig: Rig, pixel_std: float, depths: tuple[float, float]) -> SimulatedTracker:
    """The rectified pair of a rig with this noise."""
    pair = rectify(rig)
    return SimulatedTracker(pair, pair.resolution, pair.T_b_cr, pixel_std, depths)


def _into(points_w: Array, T_w_c: Array) -> Array:
    T_c_w = se3_inv(np.ascontiguousarray(T_w_c))
    return np.asarray(points_w @ T_c_w[:3, :3].T + T_c_w[:3, 3], np.float64)
