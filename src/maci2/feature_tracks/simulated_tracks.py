"""Tracks without images: points around a true trajectory, seen with noise by an ideal tracker.

At every keyframe points that left the left image are replaced by new ones, at a random pixel and
depth; each is followed for as long as it stays inside. Every observation, left and right, has
independent noise of the same standard deviation. Nothing hides anything, and nothing is mismatched.
"""

from dataclasses import dataclass

import numpy as np

from maci2.feature_tracks.tracks import FeatureTracks
from maci2.lie import se3_inv
from maci2.sensors import GroundTruth, Rig, truth_at
from maci2.types import Array, Mask, Stamps
from maci2.vision.pose_sources import MAX_TRUTH_GAP_S
from maci2.vision.rectify import rectify
from maci2.vision.two_frame import PinholePair

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
