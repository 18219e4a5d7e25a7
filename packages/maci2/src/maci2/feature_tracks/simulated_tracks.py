"""Simulated feature tracks: an ideal tracker of points around a true trajectory.

Points that left the left image are replaced at every keyframe by new ones, at a random pixel and
depth; every observation, left and right, has independent noise of one standard deviation. There are
no occlusions and no mismatches.
"""

from dataclasses import dataclass

import numpy as np

from maci2.feature_tracks.tracks import FeatureTracks, unseen
from maci2.geometry import se3_inv
from maci2.sensors import GroundTruth, Rig, truth_at
from maci2.types import Array, Mask, Stamps
from maci2.vision.pose_sources import MAX_TRUTH_GAP_S
from maci2.vision.rectify import rectify
from maci2.vision.two_frame import PinholePair

POINTS = 150
"""Points that are followed at a time."""

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
