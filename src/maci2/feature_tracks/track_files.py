"""Files of feature tracks: the `.npz` that `--vision tracks:FILE.npz` reads, one row for each
observation of a point in a stereo pair."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from maci2 import __version__, boundary
from maci2.errors import DatasetError, MeasurementError
from maci2.feature_tracks.tracks import FeatureTracks
from maci2.files import NpzField, read_npz, write_npz
from maci2.gaussian import require_spd
from maci2.types import Array, Mask, Stamps

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
        shape = len(numbers), len(stamps_ns)
        seen, seen_right = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
        seen[point, k], seen_right[point, k] = True, self.seen_right[rows]
        right = rows[self.seen_right[rows]], *(one[self.seen_right[rows]] for one in (point, k))
        return FeatureTracks(
            np.asarray(stamps_ns),
            seen,
            _spread(shape, point, k, self.xy[rows]),
            _spread(shape, point, k, self.cov[rows]),
            seen_right,
            _spread(shape, right[1], right[2], self.xy_right[right[0]]),
            _spread(shape, right[1], right[2], self.cov_right[right[0]]),
            self.focal_px,
            self.baseline,
        )


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
    numbers = {
        name: boundary.as_array(content[name], content[name].shape, f"{path}: {name}")
        for name in ("xy", "cov")
    }
    for name in ("xy_right", "cov_right"):
        boundary.as_array(content[name][right], content[name][right].shape, f"{path}: {name}")
    require_spd(numbers["cov"], f"{path}: cov")
    if right.any():
        require_spd(content["cov_right"][right], f"{path}: cov_right")
    focal_px, baseline = (
        _positive(float(content[name]), name, path) for name in ("focal_px", "baseline")
    )
    return RecordedTracks(
        track,
        stamp_ns,
        numbers["xy"],
        numbers["cov"],
        right,
        content["xy_right"].astype(np.float64),
        content["cov_right"].astype(np.float64),
        focal_px,
        baseline,
        str(path),
    )


def _require_once(track: NDArray[np.int64], stamp_ns: Stamps, path: Path) -> None:
    order = np.lexsort((stamp_ns, track))
    twice = (np.diff(track[order]) == 0) & (np.diff(stamp_ns[order]) == 0)
    if twice.any():
        row = int(order[np.argmax(twice)])
        raise MeasurementError(
            f"{path}: track {track[row]} is observed twice at {stamp_ns[row]} ns; needed one row "
            "for each point and stereo pair."
        )


def _positive(value: float, name: str, path: Path) -> float:
    if not (np.isfinite(value) and value > 0.0):
        raise MeasurementError(f"{path}: {name} is {value}, needed above 0.")
    return value


def _spread(
    shape: tuple[int, int], point: NDArray[np.intp], k: NDArray[np.intp], values: Array
) -> Array:
    """Rows at their place among points and keyframes; NaN elsewhere."""
    spread = np.full((*shape, *values.shape[1:]), np.nan)
    spread[point, k] = values
    return spread
