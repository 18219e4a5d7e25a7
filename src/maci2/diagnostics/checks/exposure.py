"""Exposure and sharpness of the images, camera by camera, then left compared with right."""

import math
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from maci2.diagnostics.checks.image_sample import NAMES, ImageSample
from maci2.diagnostics.checks.sharpness import edge_widths
from maci2.diagnostics.diagnosis import CameraImages
from maci2.findings import Finding, fault
from maci2.sensors.stereo import Image, StereoPair
from maci2.types import Array
from maci2.vision.keyframe import MIN_CONTRAST

Flags = NDArray[np.bool_]

BLACK_GREY = 16.0
"""Mean grey level below which a featureless image is called black."""

MANY = 0.5
"""Fraction of the sampled images from which on a fault is attributed to the camera."""

MIN_BRIGHT_GREY = 50.0
"""Grey level that the brightest twentieth of a well exposed image reaches."""

SATURATED_GREY = 250
MAX_SATURATED = 0.25
"""Accepted fraction of saturated pixels; windows and lamps cover up to a tenth."""

MAX_FLICKER = 0.08
"""Accepted change of log brightness between images; motion at 10 Hz causes 0.02."""

MAX_PERIOD_S = 0.2
"""Longest interval of that comparison [s]; over a longer one the scene changes."""

MAX_UNEQUAL = 0.35
"""Accepted difference of brightness between left and right, natural logarithm: a factor of 1.4."""

MAX_EDGE_PX = 9.5
"""Width of edges [px]: 6 for a sharp image, this for a blur of 3 px standard deviation."""

ONE_WAY = 1.5
"""Ratio of edge widths in the two directions from which on images are called motion-blurred."""


@dataclass(frozen=True)
class _Look:
    """Measures of one camera's images, one for each sampled place."""

    name: str
    contrast: Array
    brightness: Array
    bright: Array
    """95th percentile."""

    saturated: Array
    change: Array
    """Change of brightness to the next image, natural logarithm."""

    edges_px: Array
    """(n, 2) edge widths across columns and rows [px]."""

    repeated: Flags
    """Whether the next image is identical."""

    @property
    def blank(self) -> Flags:
        return self.contrast < MIN_CONTRAST


def look_at_cameras(sample: ImageSample) -> tuple[tuple[CameraImages, ...], list[Finding]]:
    """Measures of both cameras and the findings from them; only the worst fault of each camera is
    reported, since one causes others."""
    looks = [_look(sample, camera) for camera in range(2)]
    findings = [found for look in looks for found in _camera_faults(look, sample.period_s)]
    if not findings:
        findings = _unequal(looks) or _same_image(sample)
    return tuple(_summary(look) for look in looks), findings


def _image(pair: StereoPair, camera: int) -> Image:
    return pair.right if camera else pair.left


def _look(sample: ImageSample, camera: int) -> _Look:
    pairs = [(_image(p.first, camera), _image(p.second, camera)) for p in sample.places]
    # Averaged over blocks: pixel noise is no content.
    small = [cv2.resize(a, None, fx=0.25, fy=0.25, interpolation=cv2.INTER_AREA) for a, _ in pairs]
    means = np.array([[max(float(a.mean()), 0.5), max(float(b.mean()), 0.5)] for a, b in pairs])
    return _Look(
        name=f"cam{camera}",
        contrast=np.array([float(image.std()) for image in small]),
        brightness=means[:, 0],
        bright=np.array([float(np.percentile(image, 95.0)) for image in small]),
        saturated=np.array([float((a[::2, ::2] >= SATURATED_GREY).mean()) for a, _ in pairs]),
        change=np.log(means[:, 1] / means[:, 0]),
        edges_px=np.array([edge_widths(a) for a, _ in pairs]),
        repeated=np.array([bool(np.array_equal(a, b)) for a, b in pairs]),
    )


def _summary(look: _Look) -> CameraImages:
    return CameraImages(
        brightness=float(np.median(look.brightness)),
        saturated_pct=float(100.0 * np.median(look.saturated)),
        change_pct=float(100.0 * np.median(np.abs(look.change))),
        edge_px=float(np.median(look.edges_px.max(axis=1))),
        repeated_pct=float(100.0 * look.repeated.mean()),
        blank_pct=float(100.0 * look.blank.mean()),
    )


def _camera_faults(look: _Look, period_s: float) -> list[Finding]:
    found = _blank(look) or _repeated(look) or _light(look) or _flicker(look, period_s)
    return found or _blur(look)


def _blank(look: _Look) -> list[Finding]:
    blank = look.blank
    if blank.sum() < 2:
        return []
    black = float(np.median(look.brightness[blank])) < BLACK_GREY
    return [
        fault(
            "error" if blank.mean() >= MANY else "warn",
            look.name,
            "images are black" if black else "images show nothing",
            f"{int(blank.sum())} of {len(blank)} images of mean grey "
            f"{np.median(look.brightness[blank]):.0f} with standard deviation "
            f"{np.median(look.contrast[blank]):.1f}",
            f"{MIN_CONTRAST:g} or more",
            "Take the cap off or uncover the lens, and check exposure and trigger."
            if black
            else "Uncover the lens, and do not point it at a plain wall.",
        )
    ]


def _repeated(look: _Look) -> list[Finding]:
    count, of = int(look.repeated.sum()), len(look.repeated)
    if count == 0:
        return []
    many = count >= MANY * of
    return [
        fault(
            "error" if many else "warn",
            look.name,
            "the image is frozen" if many else "images are repeated",
            f"{count} of {of} images are identical to the next one",
            "none, for every sensor has noise",
            "Check the camera's driver: it returns old buffers. Drop the copies and record again.",
        )
    ]


def _light(look: _Look) -> list[Finding]:
    bright, saturated = float(np.median(look.bright)), float(np.median(look.saturated))
    if bright < MIN_BRIGHT_GREY:
        return [
            fault(
                "warn",
                look.name,
                "images are too dark",
                f"only a twentieth of the pixels is above grey {bright:.0f} of 255",
                f"{MIN_BRIGHT_GREY:.0f}",
                "Add light, or raise exposure time or gain.",
            )
        ]
    if saturated > MAX_SATURATED:
        return [
            fault(
                "warn",
                look.name,
                "images are overexposed (saturated)",
                f"{100.0 * saturated:.0f} % of the pixels at {SATURATED_GREY} or more",
                f"at most {100.0 * MAX_SATURATED:.0f} %",
                "Shorten the exposure or lower the gain.",
            )
        ]
    return []


def _flicker(look: _Look, period_s: float) -> list[Finding]:
    change = float(np.median(np.abs(look.change)))
    if change <= MAX_FLICKER or period_s > MAX_PERIOD_S:
        return []
    return [
        fault(
            "warn",
            look.name,
            "brightness flickers",
            f"{100.0 * change:.0f} % of change from one image to the next (median)",
            f"at most {100.0 * MAX_FLICKER:.0f} %",
            "Fix exposure and gain, or make the exposure a multiple of the lamps' period "
            "(10 ms at 50 Hz).",
        )
    ]


def _blur(look: _Look) -> list[Finding]:
    columns_px, rows_px = (float(x) for x in np.median(look.edges_px, axis=0))
    wide, narrow = max(columns_px, rows_px), min(columns_px, rows_px)
    if not wide > MAX_EDGE_PX:
        return []
    smeared = wide > ONE_WAY * narrow
    along = "along the rows" if columns_px > rows_px else "along the columns"
    return [
        fault(
            "warn",
            look.name,
            f"images are smeared {along}" if smeared else "images are blurred",
            f"edges are {columns_px:.0f} px wide along the rows, {rows_px:.0f} px along the "
            "columns",
            f"at most {MAX_EDGE_PX:g} px",
            "Shorten the exposure, add light, or move slower."
            if smeared
            else "Focus the lens and clean it; where only fast parts are blurred, shorten the "
            "exposure.",
        )
    ]


def _unequal(looks: list[_Look]) -> list[Finding]:
    ratio = float(np.median(np.log(looks[1].brightness / looks[0].brightness)))
    if abs(ratio) <= MAX_UNEQUAL:
        return []
    darker = NAMES[0] if ratio > 0.0 else NAMES[1]
    return [
        fault(
            "warn",
            "stereo",
            "left and right differ in brightness",
            f"the {darker} images are {math.exp(abs(ratio)):.1f} times darker",
            f"at most {math.exp(MAX_UNEQUAL):.1f} times",
            "Give both cameras one exposure and one gain.",
        )
    ]


def _same_image(sample: ImageSample) -> list[Finding]:
    pairs = [place.first for place in sample.places]
    if not all(np.array_equal(pair.left, pair.right) for pair in pairs):
        return []
    return [
        fault(
            "error",
            "stereo",
            "left and right are one image",
            f"all {len(pairs)} sampled pairs contain the same image twice",
            "two cameras",
            "Check the topics or folders: one camera is given for both.",
        )
    ]
