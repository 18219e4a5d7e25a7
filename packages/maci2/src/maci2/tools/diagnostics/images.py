"""Checks of images: files, exposure and sharpness of each camera, left compared with right.

Of files only first and last bytes are read, so that all of a long recording take a second.
"""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import cv2
import numpy as np
from numpy.typing import NDArray

from maci2.datasets.frames import image_file_faults, image_folders, image_paths
from maci2.errors import Maci2Error
from maci2.findings import Finding
from maci2.sensors.stereo import Image
from maci2.sensors.types import ImageRecording
from maci2.tools.diagnostics import checks
from maci2.tools.diagnostics.diagnosis import CameraImages, ImageDiagnosis
from maci2.tools.diagnostics.stereo_matches import (
    ImageSample,
    epipolar_findings,
    has_images,
    sample_images,
)
from maci2.types import NS, Array, Mask
from maci2.vision.keyframe import MIN_CONTRAST

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
    if recording.bag is not None:
        return []
    findings = []
    folders = image_folders(recording)[: len(recording.camera_stamps_ns)]
    for camera, folder in enumerate(folders):
        if folder.is_dir() and any(folder.iterdir()):
            findings += _camera_findings(recording, camera)
    return findings


def _camera_findings(recording: ImageRecording, camera: int) -> list[Finding]:
    paths, cameras = image_paths(recording, camera), recording.rig.cameras
    # Left and right are rectified together: both have the size of the left one.
    resolution = cameras[0].resolution if cameras else None
    faults = dict(image_file_faults(paths, resolution))
    name, stamps_ns = f"cam{camera}", recording.camera_stamps_ns[camera]
    usable = [number for number in range(len(paths)) if number not in faults]
    text = f"{name}: {len(usable)} of {len(paths)} listed images can be used"
    if usable:
        first_ns, last_ns = int(stamps_ns[usable[0]]), int(stamps_ns[usable[-1]])
        begin_s, end_s = ((stamp_ns - int(stamps_ns[0])) / NS for stamp_ns in (first_ns, last_ns))
        text += f", from {begin_s:.2f} to {end_s:.2f} s ({first_ns} to {last_ns} ns)"
    findings = [Finding("ok", "images", text)]
    if faults:
        number, reason = next(iter(faults.items()))
        share_pct = 100.0 * len(faults) / len(paths)
        unusable = checks.UNUSABLE_FILES.finding(
            "images",
            "error" if share_pct > checks.UNUSABLE_FILES.limit else "warn",
            name=name,
            unusable=len(faults),
            listed=len(paths),
            kinds=_counted(list(faults.values())),
            first=paths[number].name,
            reason=_sentence(reason),
            exist=f", and images exist{text.partition('can be used,')[2]}" if usable else "",
        )
        findings.insert(0, unusable)
    return findings


def _counted(reasons: list[str]) -> str:
    """Number of files with each kind of fault."""
    kinds = Counter(
        next((kind for word, kind in KINDS.items() if word in reason), "unreadable")
        for reason in reasons
    )
    return ", ".join(f"{count} {kind}" for kind, count in kinds.items())


def _sentence(reason: str) -> str:
    """Reason of an error without its remedy."""
    return "is " + reason.partition(";")[0].removeprefix("is ").removeprefix("the image is ")


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


def _camera_measures(sample: ImageSample) -> tuple[tuple[CameraImages, ...], list[Finding]]:
    """Measures of both cameras and the findings from them; only the worst fault of each camera is
    reported, since one causes others."""
    left = [(place.first.left, place.second.left) for place in sample.places]
    right = [(place.first.right, place.second.right) for place in sample.places]
    cameras = [_measured(left), _measured(right)]
    findings = [
        finding
        for number, measures in enumerate(cameras)
        for finding in [*_camera_faults(measures, f"cam{number}", sample.period_s)][:1]
    ]
    findings = findings or [*_pair_faults(cameras, sample)][:1]
    return tuple(measures.summary() for measures in cameras), findings


def _measured(pairs: list[tuple[Image, Image]]) -> _Measures:
    """Measures of one camera's images, given each place's and the one after it."""
    # Averaged over blocks: pixel noise is no content.
    small = [cv2.resize(a, None, fx=0.25, fy=0.25, interpolation=cv2.INTER_AREA) for a, _ in pairs]
    means = np.array([[max(float(a.mean()), 0.5), max(float(b.mean()), 0.5)] for a, b in pairs])
    saturated = [float((a[::2, ::2] >= checks.SATURATED_GREY).mean()) for a, _ in pairs]
    return _Measures(
        contrast=np.array([float(image.std()) for image in small]),
        brightness=means[:, 0],
        bright=np.array([float(np.percentile(image, 95.0)) for image in small]),
        saturated_pct=100.0 * np.array(saturated),
        change=np.log(means[:, 1] / means[:, 0]),
        edges_px=np.array([edge_widths(a) for a, _ in pairs]),
        repeated=np.array([bool(np.array_equal(a, b)) for a, b in pairs]),
    )


def _camera_faults(measures: _Measures, name: str, period_s: float) -> Iterator[Finding]:
    """Faults of one camera, causes before effects."""
    blank, images = measures.blank, len(measures.blank)
    if blank.sum() >= 2:
        grey = float(np.median(measures.brightness[blank]))
        check = checks.BLACK if grey < checks.BLACK.limit else checks.BLANK
        yield check.finding(
            name,
            "error" if blank.mean() >= 0.5 else "warn",
            blank=int(blank.sum()),
            images=images,
            grey=grey,
            contrast=np.median(measures.contrast[blank]),
            least=MIN_CONTRAST,
        )
    repeated = int(measures.repeated.sum())
    if repeated:
        check = checks.FROZEN if repeated >= checks.FROZEN.limit * images else checks.REPEATED
        yield check.finding(name, repeated=repeated, images=images)
    bright = float(np.median(measures.bright))
    saturated_pct = float(np.median(measures.saturated_pct))
    if bright < checks.DARK.limit:
        yield checks.DARK.finding(name, bright=bright)
    if saturated_pct > checks.OVEREXPOSED.limit:
        yield checks.OVEREXPOSED.finding(name, saturated_pct=saturated_pct)
    change_pct = 100.0 * float(np.median(np.abs(measures.change)))
    if change_pct > checks.FLICKER.limit and period_s <= MAX_PERIOD_S:
        yield checks.FLICKER.finding(name, change_pct=change_pct)
    columns_px, rows_px = (float(x) for x in np.median(measures.edges_px, axis=0))
    if max(columns_px, rows_px) > checks.BLURRED.limit:
        one_way = max(columns_px, rows_px) > ONE_WAY * min(columns_px, rows_px)
        check = checks.SMEARED if one_way else checks.BLURRED
        along = "rows" if columns_px > rows_px else "columns"
        yield check.finding(name, columns_px=columns_px, rows_px=rows_px, along=along)


def _pair_faults(cameras: list[_Measures], sample: ImageSample) -> Iterator[Finding]:
    """Differences between left and right that should not be, or none where there must be some."""
    ratio = float(np.median(np.log(cameras[1].brightness / cameras[0].brightness)))
    if abs(ratio) > checks.UNEQUAL.limit:
        darker = "left" if ratio > 0.0 else "right"
        most = math.exp(checks.UNEQUAL.limit)
        yield checks.UNEQUAL.finding("stereo", darker=darker, times=math.exp(abs(ratio)), most=most)
    pairs = [place.first for place in sample.places]
    if all(np.array_equal(pair.left, pair.right) for pair in pairs):
        yield checks.ONE_IMAGE.finding("stereo", pairs=len(pairs))


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
