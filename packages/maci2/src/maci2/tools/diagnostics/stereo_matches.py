"""Stereo pairs spread over a recording, and the epipolar error of their matches with its cause."""

from collections.abc import Iterator
from dataclasses import dataclass

import cv2
import numpy as np

from maci2.datasets.frames import image_folders, stereo_frames
from maci2.errors import CalibrationError, ImageError
from maci2.findings import Finding, Level
from maci2.sensors import Rig
from maci2.sensors.stereo import Frames, Image, StereoPair
from maci2.sensors.types import ImageRecording
from maci2.tools.diagnostics import checks
from maci2.types import NS, Array
from maci2.vision.keyframe import Keyframe, keyframe
from maci2.vision.rectify import (
    MAX_EPIPOLAR_PX,
    MIN_STEREO_MATCHES,
    Rectification,
    common_row_error,
    likely_cause,
    rectify,
    row_error_field,
)

PLACES = 16
"""Number of sampled places, so that the time needed does not grow with the recording."""

GOLDEN = 0.6180339887
"""Golden ratio: the fractional parts of its multiples have no period."""


@dataclass(frozen=True)
class Place:
    """Two consecutive stereo pairs."""

    index: int
    """Index of the first one among all pairs."""

    first: StereoPair
    second: StereoPair


@dataclass(frozen=True)
class ImageSample:
    """Sampled stereo pairs of a recording."""

    frames: Frames
    rig: Rig
    places: tuple[Place, ...]

    @property
    def period_s(self) -> float:
        """Time between two pairs [s]."""
        return float(np.median(np.diff(self.frames.stamps_ns))) / NS


def has_images(recording: ImageRecording) -> bool:
    """The recording has images of two calibrated cameras, not only timestamps."""
    if len(recording.rig.cameras) < 2:
        return False
    if recording.bag is not None:
        return len(recording.bag.topics) > 1
    folders = image_folders(recording)[:2]
    filled = [folder.is_dir() and any(folder.iterdir()) for folder in folders]
    return len(filled) == 2 and all(filled)


def sample_images(recording: ImageRecording) -> ImageSample:
    """Read the pairs; those with an unusable image are skipped."""
    frames = stereo_frames(recording)
    return ImageSample(frames, recording.rig, tuple(_places(frames)))


def _places(frames: Frames) -> Iterator[Place]:
    # In the order of time: a bag is read on, not searched.
    for index in _spread(len(frames) - 1):
        try:
            yield Place(index, frames.pair(index), frames.pair(index + 1))
        except ImageError:
            continue


def _spread(count: int) -> list[int]:
    """Indices below `count`, one in each of PLACES equal parts, without a period."""
    part = np.arange(PLACES)
    places = (part + (part * GOLDEN) % 1.0) / PLACES * max(count, 0)
    return [int(i) for i in np.unique(places.astype(int))] if count > 0 else []


MAX_ROW_PX = checks.OFF_ROWS.limit
MAX_BEYOND = checks.NEGATIVE_DISPARITY.limit / 100.0
"""Accepted fraction of matches with negative disparity."""

PAIRS = 8
"""Number of stereo pairs that are matched."""

LAGS = (-2, -1, 1, 2)
"""Lags of the right images to try [frames], both signs."""

BETTER = 2.0
"""Factor by which an explanation must increase the number of points on their rows."""

MIN_EXPLAINED = 0.1
"""Fraction of all points that an explanation must put on their rows."""

_FEATURES, _RATIO, _RANSAC_PX = 1500, 0.8, 2.0
"""Settings of matching without calibration, used if matching with it fails."""

MAX_SCATTER = 1.0
"""Largest scatter of row errors over the pairs for a wrong calibration, relative to their
median."""

MAX_BENT = 0.7
"""Fraction of the common row error that neither an offset nor a slope explains."""


@dataclass(frozen=True)
class _Fit:
    """Stereo matches of several pairs."""

    explained: float
    """Fraction of points matched on their rows with positive disparity; median over pairs."""

    row_px: float
    """Median row error [px]; NaN if there are too few matches."""

    beyond: float
    """Fraction of matches on their rows that have negative disparity."""

    points: int


def epipolar_findings(sample: ImageSample) -> tuple[float, list[Finding]]:
    """Median row error [px] and the findings from it; NaN if it could not be measured."""
    try:
        rectification = rectify(sample.rig)
    except CalibrationError as error:
        fault_name = "the cameras cannot be rectified"
        return np.nan, [Finding("warn", "calibration", str(error), fault_name)]
    at = np.unique(np.linspace(0, len(sample.places) - 1, PAIRS).astype(int))
    indices = [sample.places[int(i)].index for i in at]
    pairs = [(sample.places[int(i)].first.left, sample.places[int(i)].first.right) for i in at]
    fit = _fit(rectification, pairs)
    if fit.points < MIN_STEREO_MATCHES:
        text = f"{fit.points} points to match in an image, needed {MIN_STEREO_MATCHES}"
        return fit.row_px, [Finding("ok", "stereo", text)]
    if fit.row_px <= MAX_ROW_PX and fit.beyond <= MAX_BEYOND:
        text = (
            f"stereo matches of {len(pairs)} pairs lie {fit.row_px:.2f} px off their rows (median)"
        )
        return fit.row_px, [Finding("ok", "stereo", text)]
    found = _swapped(rectification, pairs, fit) or _lagging(rectification, sample, indices, fit)
    if found is None and fit.beyond > MAX_BEYOND:
        found = checks.NEGATIVE_DISPARITY.finding("stereo", beyond_pct=100.0 * fit.beyond)
    return fit.row_px, [found or _without_calibration(rectification, pairs, fit)]


def _fit(rectification: Rectification, pairs: list[tuple[Image, Image]]) -> _Fit:
    made = [keyframe(rectification, left, right) for left, right in pairs]
    matched = [one for one in made if len(one.row_errors) >= MIN_STEREO_MATCHES]
    rows = [float(np.median(np.abs(one.row_errors))) for one in matched]
    shares = np.array([_shares(one) for one in made])
    return _Fit(
        explained=float(np.median(shares[:, 0])),
        row_px=float(np.median(rows)) if rows else np.nan,
        beyond=float(np.median(shares[:, 1])),
        points=int(np.median([len(one.uv) for one in made])),
    )


def _shares(made: Keyframe) -> tuple[float, float]:
    """Fraction of points explained, and fraction of those on their rows with negative disparity."""
    on_row = np.abs(made.row_errors) < MAX_ROW_PX
    near = made.disparities > -0.5
    explained = float(np.sum(on_row & near)) / max(len(made.uv), 1)
    return explained, float(np.mean(~near[on_row])) if on_row.any() else 0.0


def _off_rows(fit: _Fit, check: checks.Check, **measured: object) -> Finding:
    level: Level = "error" if not fit.row_px <= MAX_EPIPOLAR_PX else "warn"
    off = "hardly any" if np.isnan(fit.row_px) else f"matches {fit.row_px:.1f} px off their rows"
    explained_pct = 100.0 * fit.explained
    return check.finding("stereo", level, off=off, explained_pct=explained_pct, **measured)


def _swapped(
    rectification: Rectification, pairs: list[tuple[Image, Image]], fit: _Fit
) -> Finding | None:
    other = _fit(rectification, [(right, left) for left, right in pairs])
    if not _better(other, fit):
        return None
    return _off_rows(fit, checks.SWAPPED_IMAGES, other_pct=100.0 * other.explained)


def _lagging(
    rectification: Rectification, sample: ImageSample, indices: list[int], fit: _Fit
) -> Finding | None:
    frames, best, lag = sample.frames, fit, 0
    # Half of the places: each lag reads and matches again.
    inner = [i for i in indices if i + LAGS[0] >= 0 and i + LAGS[-1] < len(frames)][::2]
    for tried in LAGS if inner else ():
        pairs = list(_usable_pairs(frames, inner, tried))
        other = _fit(rectification, pairs) if pairs else fit
        if _better(other, fit) and other.explained > best.explained:
            best, lag = other, tried
    if lag == 0:
        return None
    later, lag_ms = "earlier" if lag > 0 else "later", 1e3 * abs(lag) * sample.period_s
    return _off_rows(fit, checks.LAGGING, lag=abs(lag), later=later, lag_ms=lag_ms)


def _usable_pairs(frames: Frames, indices: list[int], lag: int) -> Iterator[tuple[Image, Image]]:
    """Left images paired with the right ones `lag` frames later; unusable images are skipped."""
    for index in indices:
        try:
            yield frames.left(index), frames.right(index + lag)
        except ImageError:
            continue


def _better(other: _Fit, fit: _Fit) -> bool:
    return other.explained > max(BETTER * fit.explained, MIN_EXPLAINED)


def _without_calibration(
    rectification: Rectification, pairs: list[tuple[Image, Image]], fit: _Fit
) -> Finding:
    """Finding from matches made without calibration: whether all pairs show the same error."""
    fields = [_row_field(rectification, left, right) for left, right in pairs]
    known = np.array([field for field in fields if field is not None])
    if len(known) < max(len(pairs) // 2, 1):
        return _off_rows(fit, checks.UNMATCHED)
    common = np.median(known, axis=0)
    scatter = float(np.median(np.abs(known - common)))
    if scatter > MAX_SCATTER * float(np.median(np.abs(common))):
        return _off_rows(fit, checks.SCATTERED, scatter=scatter)
    return _off_rows(fit, checks.OFF_ROWS, cause=_cause(_grid(rectification), common))


def _cause(grid: Array, common: Array) -> str:
    """Name of the error: an offset or a slope of rows; otherwise lens distortion or a rotation
    about the vertical axis."""
    _, slopes = common_row_error(grid, common)
    x, y = ((grid - grid.mean(axis=0)) / 100.0).T
    straight = slopes[0] + slopes[1] * x + slopes[2] * y
    if np.linalg.norm(common - straight) > MAX_BENT * np.linalg.norm(common):
        return (
            "differently in every part of the image: lens distortion is wrong, or the cameras are "
            "rotated against each other about the vertical axis (T_BS)"
        )
    return likely_cause(*slopes)


def _grid(rectification: Rectification) -> Array:
    """(25, 2) points over the middle of the image [px]."""
    width, height = rectification.resolution
    u, v = np.meshgrid(np.linspace(0.2, 0.8, 5) * width, np.linspace(0.2, 0.8, 5) * height)
    return np.column_stack([u.ravel(), v.ravel()])


def _row_field(rectification: Rectification, left: Image, right: Image) -> Array | None:
    """Row error over the image, from features matched without the epipolar constraint; None if
    there are too few."""
    left, right = rectification.left(left), rectification.right(right)
    orb = cv2.ORB.create(_FEATURES)
    points0, words0 = orb.detectAndCompute(left, None)
    points1, words1 = orb.detectAndCompute(right, None)
    if words0 is None or words1 is None or len(words1) < 2:
        return None
    pairs = cv2.BFMatcher(cv2.NORM_HAMMING).knnMatch(words0, words1, k=2)
    good = [a for a, b in (p for p in pairs if len(p) == 2) if a.distance < _RATIO * b.distance]
    if len(good) < MIN_STEREO_MATCHES:
        return None
    uv0 = np.array([points0[match.queryIdx].pt for match in good])
    uv1 = np.array([points1[match.trainIdx].pt for match in good])
    cv2.setRNGSeed(0)
    inside = cv2.findFundamentalMat(uv0, uv1, cv2.FM_RANSAC, _RANSAC_PX, 0.999)[1]
    if inside is None or inside.sum() < MIN_STEREO_MATCHES:
        return None
    kept = inside.ravel().astype(bool)
    return row_error_field(uv0[kept], (uv0 - uv1)[kept, 1], _grid(rectification))
