"""Points followed over the keyframes of a window, and files of them.

Observations are normalized coordinates (x, y, 1) of the rectified pair: both cameras look the same
way, and the right one sits at (baseline, 0, 0) in the left one's frame. A file (`--vision
tracks:FILE.npz`) has one row for each observation of a point in a stereo pair.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maci2 import __version__, validation
from maci2.errors import DatasetError, MeasurementError
from maci2.files import NpzField, read_npz, write_npz
from maci2.geometry.gaussian import require_spd
from maci2.types import Array, Mask, Stamps
from maci2.vision.covariance import EXACT_CALIBRATION, INPUTS, CalibrationUncertainty, MatchFeatures
from maci2.vision.keyframe import KeyframeMatches
from maci2.vision.relative_pose import RelativePose, measure_relative_pose, stacked
from maci2.vision.relative_poses import CameraFrame, RelativePoses
from maci2.vision.two_frame import Matches, PinholePair


@dataclass(frozen=True)
class FeatureTracks:
    """p points over n keyframes; entries that a mask leaves out are NaN."""

    stamps_ns: Stamps
    """(n,) timestamps of the keyframes [ns], strictly increasing."""

    seen: Mask
    """(p, n) whether a point was found in the left image."""

    xy: Array
    """(p, n, 2) normalized coordinates in the left image."""

    covs: Array
    """(p, n, 2, 2) their covariances."""

    seen_right: Mask
    """(p, n) whether it was found in the right image too; never without the left one."""

    xy_right: Array
    """(p, n, 2) normalized coordinates in the right image."""

    covs_right: Array
    """(p, n, 2, 2) their covariances."""

    focal_px: float
    """Pixels per unit of normalized coordinates: what thresholds in pixels are divided by."""

    baseline: float
    """Distance of the right camera, along x of the left one [m]."""

    frame: CameraFrame = "rectified"
    """Camera frame of the observations."""

    def __post_init__(self) -> None:
        stamps_ns = validation.as_stamps(self.stamps_ns, "stamps_ns of the keyframes", least=2)
        shape = (len(self.xy), len(stamps_ns))
        for name in ("seen", "seen_right"):
            mask = np.asarray(getattr(self, name))
            if mask.shape != shape or mask.dtype != bool:
                raise MeasurementError(
                    f"{name} has shape {mask.shape} of {mask.dtype}, needed {shape} of bool: one "
                    "for each point and keyframe."
                )
        if (self.seen_right & ~self.seen).any():
            point, k = np.argwhere(self.seen_right & ~self.seen)[0]
            raise MeasurementError(
                f"point {point} is seen in the right image of keyframe {k} but not in the left "
                "one; needed both."
            )
        _require_observations(self.xy[self.seen], self.covs[self.seen], "covs")
        right = self.seen_right
        _require_observations(self.xy_right[right], self.covs_right[right], "covs_right")
        for name in ("focal_px", "baseline"):
            if not validation.as_number(getattr(self, name), name) > 0.0:
                raise MeasurementError(f"{name} is {getattr(self, name)}, needed above 0.")
        object.__setattr__(self, "stamps_ns", stamps_ns)

    @classmethod
    def of_both_cameras(
        cls,
        stamps_ns: Stamps,
        seen: Mask,
        xy: Array,
        covs: Array,
        camera: PinholePair,
    ) -> "FeatureTracks":
        """Tracks from arrays (2, p, n, ...) of the left camera, then the right one."""
        left, right = zip(seen, xy, covs, strict=True)
        return cls(stamps_ns, *left, *right, camera.focal, camera.baseline)

    def __len__(self) -> int:
        return len(self.seen)

    @cached_property
    def bearings(self) -> Array:
        """(p, n, 3) unit vectors in the left camera."""
        return unit_rays(self.xy)

    @cached_property
    def bearings_right(self) -> Array:
        """(p, n, 3) unit vectors in the right camera."""
        return unit_rays(self.xy_right)

    @cached_property
    def depths(self) -> Array:
        """(p, n) depth in the left camera by stereo [m]; NaN without a disparity above zero."""
        disparities = self.xy[:, :, 0] - self.xy_right[:, :, 0]
        return self.baseline / np.where(disparities > 0.0, disparities, np.nan)

    @cached_property
    def var_depths(self) -> Array:
        """(p, n) variance of the depth [m^2], to first order in the disparity."""
        var_disparities = self.covs[:, :, 0, 0] + self.covs_right[:, :, 0, 0]
        return self.depths**4 / self.baseline**2 * var_disparities

    def relative_poses(
        self, calibration: CalibrationUncertainty = EXACT_CALIBRATION
    ) -> RelativePoses:
        """Motion between consecutive keyframes, as estimation takes it."""
        return stacked(self.steps(calibration), self.frame, calibration)

    def steps(self, calibration: CalibrationUncertainty = EXACT_CALIBRATION) -> list[RelativePose]:
        """Motion between consecutive keyframes by the estimator of two stereo frames (Eq. 5, 6)."""
        return [self._relative_pose(k, calibration) for k in range(len(self.stamps_ns) - 1)]

    def _relative_pose(self, k: int, calibration: CalibrationUncertainty) -> RelativePose:
        both = np.asarray(np.isfinite(self.depths[:, k : k + 2]).all(axis=1))
        matches, covs = self._matches(both, k)
        rows = self.focal_px * (self.xy[both, k, 1] - self.xy_right[both, k, 1])
        # The nominal covariances take the place of a model's: there is no image to read.
        n = len(matches)
        nothing_read = MatchFeatures(
            np.zeros((n, INPUTS), np.float32), np.zeros((n, 3)), np.zeros((n, 3))
        )
        found = KeyframeMatches(matches, nothing_read, rows, np.flatnonzero(both))
        camera = PinholePair(self.focal_px, (0.0, 0.0), self.baseline)
        stamps_ns = int(self.stamps_ns[k]), int(self.stamps_ns[k + 1])
        return measure_relative_pose(stamps_ns, found, covs, camera, calibration)

    def _matches(self, which: Mask, k: int) -> tuple[Matches, Array]:
        """Matches of keyframes k and k+1 [px] with the covariances of (u1, v1, d0, d1) [px^2].

        Eq. 5 takes the point in frame k as exact; its error is that of the match, turned round.
        """
        left, right = (self.focal_px * xy[which, k : k + 2] for xy in (self.xy, self.xy_right))
        cov, cov_right = (
            self.focal_px**2 * covs[which, k : k + 2] for covs in (self.covs, self.covs_right)
        )
        disparities = left[:, :, 0] - right[:, :, 0]
        covs = np.zeros((len(left), 4, 4))
        covs[:, :2, :2] = cov[:, 0] + cov[:, 1]
        covs[:, :2, 2] = covs[:, 2, :2] = -cov[:, 0, :, 0]
        covs[:, :2, 3] = covs[:, 3, :2] = cov[:, 1, :, 0]
        covs[:, 2, 2] = cov[:, 0, 0, 0] + cov_right[:, 0, 0, 0]
        covs[:, 3, 3] = cov[:, 1, 0, 0] + cov_right[:, 1, 0, 0]
        return Matches(left[:, 0], left[:, 1], disparities[:, 0], disparities[:, 1]), covs


def unit_rays(xy: Array) -> Array:
    """(..., 3) unit vectors to points with normalized coordinates (..., 2)."""
    rays = np.concatenate([xy, np.ones_like(xy[..., :1])], axis=-1)
    return np.asarray(rays / np.linalg.norm(rays, axis=-1, keepdims=True), np.float64)


def _require_observations(xy: Array, covs: Array, name: str) -> None:
    if not np.isfinite(xy).all():
        raise MeasurementError(
            f"{int((~np.isfinite(xy)).any(axis=1).sum())} observations that count as seen are NaN "
            "or infinite; mark them as not seen."
        )
    if len(covs):
        require_spd(covs, name)


TRACK_FIELDS = {
    "track": NpzField("iu", ("m",)),
    "stamp_ns": NpzField("iu", ("m",)),
    "xy": NpzField("f", ("m", 2)),
    "cov": NpzField("f", ("m", 2, 2)),
    "seen_right": NpzField("b", ("m",)),
    "xy_right": NpzField("f", ("m", 2)),
    "cov_right": NpzField("f", ("m", 2, 2)),
    "focal_px": NpzField("f", ()),
    "baseline": NpzField("f", ()),
}
"""Arrays of the file (docs/conventions.md)."""


@dataclass(frozen=True)
class RecordedTracks:
    """Tracks of a file, over as many stereo pairs as it holds."""

    track: NDArray[np.int64]
    """(m,) number of the point that a row observes."""

    stamp_ns: Stamps
    """(m,) timestamp of the stereo pair [ns]."""

    xy: Array
    """(m, 2) normalized coordinates in the rectified left image."""

    cov: Array
    """(m, 2, 2) their covariance."""

    seen_right: Mask
    """(m,) whether the right image shows it too."""

    xy_right: Array
    """(m, 2) normalized coordinates in the rectified right image; of no meaning where not seen."""

    cov_right: Array
    """(m, 2, 2) their covariance."""

    focal_px: float
    """Pixels per unit of normalized coordinates."""

    baseline: float
    """[m]"""

    source: str
    """File, for messages."""

    @property
    def stamps_ns(self) -> Stamps:
        """(n,) timestamps of all stereo pairs that were observed."""
        return np.unique(self.stamp_ns)

    def tracks(self, stamps_ns: Stamps) -> FeatureTracks:
        """The tracks over keyframes at these timestamps; points seen in none of them are left
        out."""
        missing = np.setdiff1d(stamps_ns, self.stamp_ns)
        if len(missing):
            raise DatasetError(
                f"{self.source}: has no observation at {missing[0]} ns; its stereo pairs are from "
                f"{self.stamp_ns.min()} to {self.stamp_ns.max()} ns. Take keyframes among them."
            )
        rows = np.flatnonzero(np.isin(self.stamp_ns, stamps_ns))
        numbers, point = np.unique(self.track[rows], return_inverse=True)
        k = np.searchsorted(stamps_ns, self.stamp_ns[rows])
        seen, xy, covs = unseen(len(numbers), len(stamps_ns))
        shown = np.ones(len(rows), dtype=bool), self.seen_right[rows]
        columns = (self.xy, self.cov), (self.xy_right, self.cov_right)
        for side, (which, (places, spreads)) in enumerate(zip(shown, columns, strict=True)):
            at = side, point[which], k[which]
            seen[at], xy[at], covs[at] = True, places[rows[which]], spreads[rows[which]]
        camera = PinholePair(self.focal_px, (0.0, 0.0), self.baseline)
        return FeatureTracks.of_both_cameras(np.asarray(stamps_ns), seen, xy, covs, camera)


def unseen(points: int, keyframes: int) -> tuple[Mask, Array, Array]:
    """Arrays of `FeatureTracks.of_both_cameras` without any observation."""
    shape = 2, points, keyframes
    return np.zeros(shape, bool), np.full((*shape, 2), np.nan), np.full((*shape, 2, 2), np.nan)


def save_tracks(path: Path, tracks: FeatureTracks) -> None:
    """Write the `.npz` of docs/conventions.md, whole or not at all."""
    point, k = np.nonzero(tracks.seen)
    arrays = {
        "track": point.astype(np.int64),
        "stamp_ns": tracks.stamps_ns[k],
        "xy": tracks.xy[point, k],
        "cov": tracks.covs[point, k],
        "seen_right": tracks.seen_right[point, k],
        "xy_right": tracks.xy_right[point, k],
        "cov_right": tracks.covs_right[point, k],
        "focal_px": np.float64(tracks.focal_px),
        "baseline": np.float64(tracks.baseline),
        "version": __version__,
    }
    write_npz(path, arrays)


def load_tracks(path: Path) -> RecordedTracks:
    """Read what `save_tracks` wrote, or a file of the same arrays."""
    content = read_npz(path, TRACK_FIELDS, "feature tracks (docs/conventions.md)")
    stamp_ns, track = (content[name].astype(np.int64) for name in ("stamp_ns", "track"))
    if len(stamp_ns) == 0:
        raise MeasurementError(f"{path}: holds no observation, needed at least one.")
    _require_once(track, stamp_ns, path)
    right = content["seen_right"]
    values: dict[str, Any] = {"track": track, "stamp_ns": stamp_ns, "seen_right": right}
    for name in ("xy", "cov", "xy_right", "cov_right"):
        shown = content[name][right] if name.endswith("right") else content[name]
        validation.as_array(shown, shown.shape, f"{path}: {name}")
        values[name] = content[name].astype(np.float64)
    require_spd(values["cov"], f"{path}: cov")
    if right.any():
        require_spd(values["cov_right"][right], f"{path}: cov_right")
    for name in ("focal_px", "baseline"):
        values[name] = float(content[name])
        if not (np.isfinite(values[name]) and values[name] > 0.0):
            raise MeasurementError(f"{path}: {name} is {values[name]}, needed above 0.")
    return RecordedTracks(**values, source=str(path))


def _require_once(track: NDArray[np.int64], stamp_ns: Stamps, path: Path) -> None:
    order = np.lexsort((stamp_ns, track))
    twice = (np.diff(track[order]) == 0) & (np.diff(stamp_ns[order]) == 0)
    if twice.any():
        row = int(order[np.argmax(twice)])
        raise MeasurementError(
            f"{path}: track {track[row]} is observed twice at {stamp_ns[row]} ns; needed one row "
            "for each point and stereo pair."
        )
