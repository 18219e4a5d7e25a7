"""Feature tracks from images, as the trackers of the baselines make them.

Lucas-Kanade follows points from each left image to the next, forward and back; at every keyframe
the epipolar geometry to the one before rejects what does not fit (RANSAC, 1 px), the right image is
searched, and new points take the free places. The odometry matches keyframe with keyframe instead;
both share rectification, keypoints and the covariance of matches.
"""

from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import cv2
import numpy as np
from numpy.typing import NDArray

from maci2.feature_tracks.simulated_tracks import POINTS
from maci2.feature_tracks.tracks import FeatureTracks, unseen
from maci2.pipeline.vision_sources import VisionSource
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

FREE_PX = 20.0
"""Distance of a new point from those that are followed."""

RANSAC_PX, RANSAC_CONFIDENCE = 1.0, 0.99
MIN_RANSAC = 8


_TRACKS: WeakKeyDictionary[StereoOdometry, dict[bytes, FeatureTracks]] = WeakKeyDictionary()
"""Tracks by keyframes: methods share them."""


def tracks_of(vision: VisionSource, stamps_ns: Stamps, index: int) -> FeatureTracks:
    """Points followed over keyframes: in the images, if there are any, or as the source has them;
    noise that is drawn depends on `index`, the number of the window."""
    if vision.odometry is None:
        return vision.tracks(stamps_ns, index)
    known = _TRACKS.setdefault(vision.odometry, {})
    key = stamps_ns.tobytes()
    if key not in known:
        known[key] = image_tracks(vision.odometry, stamps_ns)
    return known[key]


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
