"""Checks of images: files, exposure and sharpness of each camera, left compared with right.

Of files only first and last bytes are read, so that all of a long recording take a second. Pixels
are examined at places spread over the recording.
"""

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import cv2
import numpy as np
from numpy.typing import NDArray

from maci2.datasets.frames import image_file_faults, image_folders, image_paths, stereo_frames
from maci2.errors import CalibrationError, ImageError, Maci2Error
from maci2.findings import Finding
from maci2.sensors import Rig
from maci2.sensors.stereo import Frames, Image, StereoPair
from maci2.sensors.types import ImageRecording
from maci2.tools.diagnostics import checks
from maci2.tools.diagnostics.diagnosis import CameraImages, ImageDiagnosis
from maci2.types import NS, Array, Mask
from maci2.vision.keyframe import MIN_CONTRAST, keyframe
from maci2.vision.rectify import (
    MAX_EPIPOLAR_PX,
    MIN_STEREO_MATCHES,
    Rectification,
    common_row_error,
    likely_cause,
    rectify,
    row_error_field,
)

KINDS = {
    "missing": "missing",
    "truncated": "truncated",
    "calibration": "of another size than the calibration",
}
"""Keyword of a fault and the description of such files; all others are called unreadable."""


def image_file_findings(recording: ImageRecording) -> list[Finding]:
    """Findings about the image files of each camera, and the time they cover.

    Nothing is said of a bag, whose images are looked at while it is read, nor of a recording that
    keeps timestamps only.
    """
    return [
        finding
        for camera, is_filled in enumerate(_filled_folders(recording))
        if is_filled and camera < len(recording.camera_stamps_ns)
        for finding in _file_findings(recording, camera)
    ]


def _filled_folders(recording: ImageRecording) -> list[bool]:
    """Whether each camera has a folder with images; empty for a bag."""
    folders = [] if recording.bag is not None else image_folders(recording)
    return [folder.is_dir() and any(folder.iterdir()) for folder in folders]


def _file_findings(recording: ImageRecording, camera: int) -> list[Finding]:
    paths, cameras = image_paths(recording, camera), recording.rig.cameras
    # Left and right are rectified together: both have the size of the left one.
    faults = dict(image_file_faults(paths, cameras[0].resolution if cameras else None))
    name, stamps_ns = f"cam{camera}", recording.camera_stamps_ns[camera]
    usable = [number for number in range(len(paths)) if number not in faults]
    covered = ""
    if usable:
        first_ns, last_ns = int(stamps_ns[usable[0]]), int(stamps_ns[usable[-1]])
        begin_s, end_s = ((stamp_ns - int(stamps_ns[0])) / NS for stamp_ns in (first_ns, last_ns))
        covered = f" from {begin_s:.2f} to {end_s:.2f} s ({first_ns} to {last_ns} ns)"
    text = f"{name}: {len(usable)} of {len(paths)} listed images can be used"
    findings = [Finding("ok", "images", text + ("," if usable else "") + covered)]
    if not faults:
        return findings
    number, reason = next(iter(faults.items()))
    kinds = Counter(
        next((kind for word, kind in KINDS.items() if word in reason), "unreadable")
        for reason in faults.values()
    )
    measured = {
        "unusable": len(faults),
        "listed": len(paths),
        "kinds": ", ".join(f"{count} {kind}" for kind, count in kinds.items()),
        "first": paths[number].name,
        # The reason of the error, without its remedy.
        "reason": "is "
        + reason.partition(";")[0].removeprefix("is ").removeprefix("the image is "),
        "exist": f", and images exist{covered}" if usable else "",
    }
    serious = 100.0 * len(faults) / len(paths) > checks.UNUSABLE_FILES.limit
    return [checks.UNUSABLE_FILES.finding("images", serious, name=name, **measured), *findings]


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
    filled = _filled_folders(recording)[:2]
    return len(filled) == 2 and all(filled)


def sample_images(recording: ImageRecording) -> ImageSample:
    """Read the pairs; those with an unusable image are skipped."""
    frames, places = stereo_frames(recording), []
    # In the order of time: a bag is read on, not searched.
    for index in _spread(len(frames) - 1):
        with suppress(ImageError):
            places.append(Place(index, frames.pair(index), frames.pair(index + 1)))
    return ImageSample(frames, recording.rig, tuple(places))


def _spread(count: int) -> list[int]:
    """Indices below `count`, one in each of PLACES equal parts, without a period."""
    part = np.arange(PLACES)
    places = (part + (part * GOLDEN) % 1.0) / PLACES * max(count, 0)
    return [int(i) for i in np.unique(places.astype(int))] if count > 0 else []


_CELL = 16
"""Side of the cells that give one edge each [px of the half-size image]."""

_REACH = 31
"""Length over which the step across an edge is measured [px of the half-size image]."""

_STRONGEST = 4
"""One in this many cells is used; cells without texture have no edge."""

_Plane = NDArray[np.float32]


def edge_widths(image: Image) -> tuple[float, float]:
    """Typical widths of the strongest edges across columns and across rows [px].

    The step in brightness over its steepest slope: about 6 px for a sharp image, 2.5 times the
    standard deviation of a strong blur; at half size, where pixel noise is averaged away. NaN where
    the image is too small to say.
    """
    half = cv2.resize(image, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
    grey = np.asarray(cv2.GaussianBlur(half.astype(np.float32), (0, 0), 0.7), np.float32)
    slope_u = np.abs(grey[1:-1, 2:] - grey[1:-1, :-2]) / 2.0
    slope_v = np.abs(grey[2:, 1:-1] - grey[:-2, 1:-1]) / 2.0
    inner, along = grey[1:-1, 1:-1], np.ones((1, _REACH), np.uint8)
    return _width(slope_u, _step(inner, along)), _width(slope_v, _step(inner, along.T))


def _step(grey: _Plane, reach: NDArray[np.uint8]) -> _Plane:
    return np.asarray(cv2.dilate(grey, reach) - cv2.erode(grey, reach), np.float32)


def _width(slope: _Plane, step: _Plane) -> float:
    slopes, steps = _cells(slope), _cells(step)
    if len(slopes) == 0:
        return math.nan
    steepest = slopes.argmax(axis=1)[:, None]
    best = np.take_along_axis(slopes, steepest, axis=1)[:, 0]
    across = np.take_along_axis(steps, steepest, axis=1)[:, 0]
    strongest = np.argsort(-best)[: max(len(best) // _STRONGEST, 1)]
    # Twice: pixels of the half-size image are two of the image.
    return float(2.0 * np.median(across[strongest] / np.maximum(best[strongest], 0.1)))


def _cells(plane: _Plane) -> _Plane:
    """(cells, pixels of a cell)."""
    rows, columns = plane.shape[0] // _CELL, plane.shape[1] // _CELL
    whole = plane[: rows * _CELL, : columns * _CELL].reshape(rows, _CELL, columns, _CELL)
    return whole.swapaxes(1, 2).reshape(rows * columns, _CELL * _CELL)


MAX_PERIOD_S = 0.2
"""Longest interval over which brightness is compared [s]; over a longer one the scene changes."""

ONE_WAY = 1.5
"""Ratio of edge widths in the two directions from which on images are called motion-blurred."""


@dataclass(frozen=True)
class _Measures:
    """Measures of one camera's images, one for each sampled place."""

    contrast: Array
    brightness: Array
    bright: Array
    """95th percentile."""

    saturated_pct: Array
    change: Array
    """Change of brightness to the next image, natural logarithm."""

    edges_px: Array
    """(n, 2) edge widths across columns and rows [px]."""

    repeated: Mask
    """Images that are identical to the next one."""

    @classmethod
    def of(cls, pairs: list[tuple[Image, Image]]) -> "_Measures":
        """Measures of one camera's images, given each place's and the one after it."""
        # Averaged over blocks: pixel noise is no content.
        small = [
            cv2.resize(image, None, fx=0.25, fy=0.25, interpolation=cv2.INTER_AREA)
            for image, _ in pairs
        ]
        means = np.maximum([[image.mean() for image in pair] for pair in pairs], 0.5)
        saturated = [(image[::2, ::2] >= checks.SATURATED_GREY).mean() for image, _ in pairs]
        return cls(
            contrast=np.array([image.std() for image in small]),
            brightness=means[:, 0],
            bright=np.array([np.percentile(image, 95.0) for image in small]),
            saturated_pct=100.0 * np.array(saturated),
            change=np.log(means[:, 1] / means[:, 0]),
            edges_px=np.array([edge_widths(image) for image, _ in pairs]),
            repeated=np.array([np.array_equal(*pair) for pair in pairs]),
        )

    @property
    def blank(self) -> Mask:
        """Images without contrast."""
        return np.asarray(self.contrast < MIN_CONTRAST)

    def summary(self) -> CameraImages:
        """Medians and percentages over the sampled places."""
        return CameraImages(
            brightness=float(np.median(self.brightness)),
            saturated_pct=float(np.median(self.saturated_pct)),
            change_pct=float(100.0 * np.median(np.abs(self.change))),
            edge_px=float(np.median(self.edges_px.max(axis=1))),
            repeated_pct=float(100.0 * self.repeated.mean()),
            blank_pct=float(100.0 * self.blank.mean()),
        )

    def faults(self, name: str, period_s: float) -> Iterator[Finding]:
        """Faults of the camera, causes before effects."""
        blank, summary = self.blank, self.summary()
        count = {"images": len(blank), "blank": int(blank.sum()), "repeated": self.repeated.sum()}
        if count["blank"] >= 2:
            grey, contrast = (float(np.median(v[blank])) for v in (self.brightness, self.contrast))
            check = checks.BLACK if grey < checks.BLACK.limit else checks.BLANK
            measured = {"grey": grey, "contrast": contrast, "least": MIN_CONTRAST}
            yield check.finding(name, bool(blank.mean() >= 0.5), **count, **measured)
        if self.repeated.any():
            frozen = self.repeated.mean() >= checks.FROZEN.limit
            yield (checks.FROZEN if frozen else checks.REPEATED).finding(name, **count)
        bright = float(np.median(self.bright))
        if bright < checks.DARK.limit:
            yield checks.DARK.finding(name, bright=bright)
        if summary.saturated_pct > checks.OVEREXPOSED.limit:
            yield checks.OVEREXPOSED.finding(name, images=summary)
        if summary.change_pct > checks.FLICKER.limit and period_s <= MAX_PERIOD_S:
            yield checks.FLICKER.finding(name, images=summary)
        columns_px, rows_px = (float(x) for x in np.median(self.edges_px, axis=0))
        if max(columns_px, rows_px) > checks.BLURRED.limit:
            one_way = max(columns_px, rows_px) > ONE_WAY * min(columns_px, rows_px)
            check = checks.SMEARED if one_way else checks.BLURRED
            along = "rows" if columns_px > rows_px else "columns"
            yield check.finding(name, columns_px=columns_px, rows_px=rows_px, along=along)


def _camera_measures(sample: ImageSample) -> tuple[tuple[CameraImages, ...], list[Finding]]:
    """Measures of both cameras and the findings from them; only the worst fault of each camera is
    reported, since one causes others."""
    left = _Measures.of([(place.first.left, place.second.left) for place in sample.places])
    right = _Measures.of([(place.first.right, place.second.right) for place in sample.places])
    findings = [*left.faults("cam0", sample.period_s)][:1]
    findings += [*right.faults("cam1", sample.period_s)][:1]
    findings = findings or [*_pair_faults(left, right, sample)][:1]
    return (left.summary(), right.summary()), findings


def _pair_faults(left: _Measures, right: _Measures, sample: ImageSample) -> Iterator[Finding]:
    """Differences between left and right that should not be, or none where there must be some."""
    ratio = float(np.median(np.log(right.brightness / left.brightness)))
    if abs(ratio) > checks.UNEQUAL.limit:
        darker = "left" if ratio > 0.0 else "right"
        most = math.exp(checks.UNEQUAL.limit)
        yield checks.UNEQUAL.finding("stereo", darker=darker, times=math.exp(abs(ratio)), most=most)
    pairs = [place.first for place in sample.places]
    if all(np.array_equal(pair.left, pair.right) for pair in pairs):
        yield checks.ONE_IMAGE.finding("stereo", pairs=len(pairs))


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

    @classmethod
    def of(cls, rectification: Rectification, pairs: list[tuple[Image, Image]]) -> "_Fit":
        """Match pairs along their rows."""
        made = [keyframe(rectification, left, right) for left, right in pairs]
        rows, explained, beyond = [], [], []
        for one in made:
            on_row, near = np.abs(one.row_errors) < MAX_ROW_PX, one.disparities > -0.5
            explained.append(float(np.sum(on_row & near)) / max(len(one.uv), 1))
            beyond.append(float(np.mean(~near[on_row])) if on_row.any() else 0.0)
            if len(one.row_errors) >= MIN_STEREO_MATCHES:
                rows.append(float(np.median(np.abs(one.row_errors))))
        return cls(
            explained=float(np.median(explained)),
            row_px=float(np.median(rows)) if rows else np.nan,
            beyond=float(np.median(beyond)),
            points=int(np.median([len(one.uv) for one in made])),
        )

    def is_better(self, other: "_Fit") -> bool:
        """Clearly more points are on their rows."""
        return self.explained > max(BETTER * other.explained, MIN_EXPLAINED)

    def finding(self, check: checks.Check, **measured: object) -> Finding:
        """Finding about matches off their rows."""
        on_rows = f"matches {self.row_px:.1f} px off their rows"
        off = "hardly any" if np.isnan(self.row_px) else on_rows
        serious, explained_pct = not self.row_px <= MAX_EPIPOLAR_PX, 100.0 * self.explained
        return check.finding("stereo", serious, off=off, explained_pct=explained_pct, **measured)


def epipolar_findings(sample: ImageSample) -> tuple[float, list[Finding]]:
    """Median row error [px] and the findings from it; NaN if it could not be measured."""
    try:
        rectification = rectify(sample.rig)
    except CalibrationError as error:
        fault_name = "the cameras cannot be rectified"
        return np.nan, [Finding("warn", "calibration", str(error), fault_name)]
    at = np.unique(np.linspace(0, len(sample.places) - 1, PAIRS).astype(int))
    places = [sample.places[int(i)] for i in at]
    pairs = [(place.first.left, place.first.right) for place in places]
    fit = _Fit.of(rectification, pairs)
    if fit.points < MIN_STEREO_MATCHES:
        text = f"{fit.points} points to match in an image, needed {MIN_STEREO_MATCHES}"
        return fit.row_px, [Finding("ok", "stereo", text)]
    if fit.row_px <= MAX_ROW_PX and fit.beyond <= MAX_BEYOND:
        rows = f"{fit.row_px:.2f} px off their rows (median)"
        text = f"stereo matches of {len(pairs)} pairs lie {rows}"
        return fit.row_px, [Finding("ok", "stereo", text)]
    swapped = _Fit.of(rectification, [(right, left) for left, right in pairs])
    if swapped.is_better(fit):
        finding = fit.finding(checks.SWAPPED_IMAGES, other_pct=100.0 * swapped.explained)
    elif lag := _lag(rectification, sample.frames, [place.index for place in places], fit):
        later, lag_ms = "earlier" if lag > 0 else "later", 1e3 * abs(lag) * sample.period_s
        finding = fit.finding(checks.LAGGING, lag=abs(lag), later=later, lag_ms=lag_ms)
    elif fit.beyond > MAX_BEYOND:
        finding = checks.NEGATIVE_DISPARITY.finding("stereo", beyond_pct=100.0 * fit.beyond)
    else:
        finding = _without_calibration(rectification, pairs, fit)
    return fit.row_px, [finding]


def _lag(rectification: Rectification, frames: Frames, indices: list[int], fit: _Fit) -> int:
    """Number of frames by which right images belong to later left ones; zero if to their own."""
    best, lag = fit, 0
    # Half of the places: each lag reads and matches again.
    inner = [i for i in indices if i + LAGS[0] >= 0 and i + LAGS[-1] < len(frames)][::2]
    for tried in LAGS if inner else ():
        pairs = []
        for index in inner:
            with suppress(ImageError):
                pairs.append((frames.left(index), frames.right(index + tried)))
        other = _Fit.of(rectification, pairs) if pairs else fit
        if other.is_better(fit) and other.explained > best.explained:
            best, lag = other, tried
    return lag


def _without_calibration(
    rectification: Rectification, pairs: list[tuple[Image, Image]], fit: _Fit
) -> Finding:
    """Finding from matches made without calibration: whether all pairs show the same error."""
    fields = [_row_field(rectification, left, right) for left, right in pairs]
    known = np.array([field for field in fields if field is not None])
    if len(known) < max(len(pairs) // 2, 1):
        return fit.finding(checks.UNMATCHED)
    common = np.median(known, axis=0)
    scatter = float(np.median(np.abs(known - common)))
    if scatter > MAX_SCATTER * float(np.median(np.abs(common))):
        return fit.finding(checks.SCATTERED, scatter=scatter)
    return fit.finding(checks.OFF_ROWS, cause=_cause(_grid(rectification), common))


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


def examine_images(recording: ImageRecording) -> tuple[ImageDiagnosis | None, list[Finding]]:
    """Check all image files, then exposure, then stereo if both cameras show something; None
    without images of two calibrated cameras."""
    files = image_file_findings(recording)
    if not has_images(recording):
        return None, files
    try:
        sample = sample_images(recording)
    except Maci2Error as error:
        known = any(finding.level == "error" for finding in files)
        unreadable = Finding("error", "images", str(error), "images cannot be read")
        return None, files if known else [unreadable, *files]
    if not sample.places:
        text = f"{len(sample.frames)} stereo pairs, needed two that follow each other and are whole"
        return None, [*files, Finding("warn", "images", text, "too few images")]
    cameras, findings = _camera_measures(sample)
    row_px, stereo = math.nan, list[Finding]()
    # Black, frozen or equal images match nowhere: that is no fault of the calibration.
    if all(finding.level != "error" for finding in findings):
        row_px, stereo = epipolar_findings(sample)
        if findings:
            # Poor images match poorly: what is wrong with them is fixed first.
            stereo = [
                replace(one, level="warn" if one.level == "error" else one.level) for one in stereo
            ]
    return ImageDiagnosis(len(sample.places), row_px, cameras), files + findings + stereo
