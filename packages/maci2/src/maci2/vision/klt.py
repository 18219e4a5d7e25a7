"""Keypoints and how they are followed: pyramidal Lucas-Kanade on locally scaled images, both ways.

Rectified images lose their exposure first: the surroundings of each pixel get the same mean and
contrast. Keypoints are the best-determined point of every cell; they are found in small images
first.
"""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from maci2.jit import kernel
from maci2.sensors.stereo import Image
from maci2.types import Array, Mask

BLOCK = 7
"""Side of the patch whose gradients decide [px]."""


def candidates(
    image: Image, mask: NDArray[np.uint8], count: int, spacing: int, margin: int
) -> Array:
    """(n, 2) the best-determined point of every cell, strongest first, at most `count`.

    The smaller eigenvalue of the structure tensor is the inverse of the worst variance a match can
    have, so its maximum over a cell is the minimum of the uncertainty that can be told beforehand.
    """
    strength = cv2.cornerMinEigenVal(image, BLOCK, ksize=3)
    strength[mask == 0] = 0.0
    strength[:margin], strength[-margin:] = 0.0, 0.0
    strength[:, :margin], strength[:, -margin:] = 0.0, 0.0
    peaks = cv2.dilate(strength, np.ones((spacing // 2 + 1, spacing // 2 + 1), np.uint8))
    strength[strength < peaks] = 0.0
    rows, columns = strength.shape[0] // spacing, strength.shape[1] // spacing
    cells = strength[: rows * spacing, : columns * spacing]
    cells = cells.reshape(rows, spacing, columns, spacing).swapaxes(1, 2)
    flat = cells.reshape(rows, columns, spacing * spacing)
    best = flat.argmax(axis=2)
    value = np.take_along_axis(flat, best[..., None], axis=2)[..., 0]
    v = np.arange(rows)[:, None] * spacing + best // spacing
    u = np.arange(columns)[None, :] * spacing + best % spacing
    order = np.argsort(-value.ravel(), kind="stable")
    order = order[value.ravel()[order] > 0.0][:count]
    return np.column_stack([u.ravel()[order], v.ravel()[order]]).astype(np.float64)


def spread(uv: Array, uncertainty: Array, count: int, radius: float) -> NDArray[np.intp]:
    """Non-minimum suppression: keep the least uncertain points, none within `radius` of a better
    one, at most `count`; indices, best first."""
    order = np.argsort(uncertainty, kind="stable")
    return _suppressed(np.ascontiguousarray(uv[order], dtype=np.float64), order, count, radius)


@kernel
def _suppressed(uv: Array, order: NDArray[np.intp], count: int, radius: float) -> NDArray[np.intp]:
    """Those of `order` whose points, best first, lie far enough from all better ones kept."""
    kept = np.empty(min(count, len(uv)), dtype=np.intp)
    found = 0
    for candidate in range(len(uv)):
        if found == len(kept):
            break
        near = False
        for k in range(found):
            du = uv[candidate, 0] - uv[kept[k], 0]
            dv = uv[candidate, 1] - uv[kept[k], 1]
            if du * du + dv * dv < radius * radius:
                near = True
                break
        if not near:
            kept[found] = candidate
            found += 1
    return order[kept[:found]]


SURROUNDINGS = 41
"""Side of the surroundings that brightness and contrast are taken from [px]: wider than a patch."""

SOFT_CONTRAST = 4.0
"""[grey levels] Keeps surroundings without texture from being blown up to pure noise."""

CONTRAST = 40.0
"""[grey levels] Standard deviation that surroundings of much contrast are given."""


def locally_scaled(image: Image, window: int = SURROUNDINGS) -> Image:
    """The image with mean and standard deviation of each pixel's surroundings made the same.

    A gain and an offset of brightness, of the whole image or of a region, change nothing.
    """
    grey = image.astype(np.float32)
    mean = np.asarray(cv2.blur(grey, (window, window)), np.float32)
    gain = np.asarray(cv2.sqrBoxFilter(grey, cv2.CV_32F, (window, window)), np.float32)
    # Whole images, so in place: new memory for each step would cost as much as the step.
    grey -= mean
    mean *= mean
    gain -= mean
    np.maximum(gain, 0.0, out=gain)
    np.sqrt(gain, out=gain)
    gain += SOFT_CONTRAST
    np.divide(CONTRAST, gain, out=gain)
    grey *= gain
    grey += 128.5
    return np.clip(grey, 0.0, 255.0, out=grey).astype(np.uint8)


WINDOW = 21
"""Side of the patch that is matched [px]."""

LEVELS = 2
"""Sizes of the pyramid in which points are followed where the smaller images have led."""

COARSE = 4
COARSE_LEVELS = 3
"""Fast motion is found first in images this much smaller: with it a patch is 84 px wide, and a
pyramid of them bridges more than a hundred pixels."""

COARSE_SURROUNDINGS = 101
"""Side of the surroundings that the smaller image is scaled by [px]: most of it, since fast
motion is found by large shapes."""

MAX_BACKWARD_PX = 1.0
"""Forward, then backward must return to the start within this."""

MAX_ROW_ERROR_PX = 2.0
"""A stereo match may lie this far off its row before it is thrown away; the calibration's own
offset is taken out first."""

COARSE_RANGE, COARSE_BLOCK = 80, 13
"""Range and block of the matching at half size [px]: disparities up to 160 px at full size."""

_STOP_PX = 0.005
_STOP_COARSE_PX = 0.02
"""Movement that ends the iterations; one of the smaller images is 0.08 px of the large ones."""

_MIN_EIGENVALUE = 1e-5


@dataclass(frozen=True)
class Scaled:
    """An image without its exposure, in the two sizes in which points are followed."""

    fine: Image
    coarse: Image
    """`COARSE` times smaller, with brightness differences over larger surroundings."""


def scaled(image: Image) -> Scaled:
    """Both sizes of an image, each locally scaled by itself."""
    small = _shrunk(image, 1.0 / COARSE)
    return Scaled(locally_scaled(image), locally_scaled(small, COARSE_SURROUNDINGS))


@dataclass(frozen=True)
class Tracks:
    """Where points of one image are in another."""

    uv: Array
    """(n, 2) [px]; meaningless where not `found`."""

    backward: Array
    """(n,) how far the way back missed the start [px]; infinite where there is none."""

    found: Mask


def follow(
    source: Image,
    target: Image,
    uv: Array,
    guess: Array | None = None,
    levels: int = LEVELS,
    both_ways: bool = True,
) -> Tracks:
    """Find the points `uv` of `source` in `target`, starting at `guess`."""
    if len(uv) == 0:
        return Tracks(np.empty((0, 2)), np.empty(0), np.empty(0, dtype=bool))
    start = uv if guess is None else guess
    there, status = _lucas_kanade(source, target, uv, start, levels)
    found = status & inside(there, source.shape)
    if not both_ways:
        return Tracks(there, np.zeros(len(uv)), found)
    backward = np.full(len(uv), np.inf)
    if found.any():
        # The way back begins a little off the answer, or it would stop there without looking.
        back, status = _lucas_kanade(target, source, there[found], uv[found] + 0.5, 1)
        missed = np.linalg.norm(back - uv[found], axis=1)
        backward[found] = np.where(status, missed, np.inf)
    return Tracks(there, backward, backward < MAX_BACKWARD_PX)


def coarse_start(
    source: Scaled, target: Scaled, uv: Array, start: Array, levels: int = COARSE_LEVELS
) -> Array:
    """(n, 2) where points are in the smaller images, in pixels of the large ones; `start` where
    they are not found."""
    if len(uv) == 0:
        return start
    # Centres of pixels: (0, 0) of the small image is the middle of its block in the large one.
    offset = 0.5 * (COARSE - 1)
    uv, begin = (uv - offset) / COARSE, (start - offset) / COARSE
    coarse = source.coarse, target.coarse
    moved, found = _lucas_kanade(*coarse, uv, begin, levels, _STOP_COARSE_PX)
    return np.where(found[:, None], COARSE * moved + offset, start)


def _shrunk(image: Image, scale: float) -> Image:
    found = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    return np.asarray(found, np.uint8)


@dataclass(frozen=True)
class RoughDisparities:
    """What block matching at half size says around points."""

    start: Array
    """(n,) disparity [px]; where block matching has no answer, that of the surroundings."""

    relief: Array
    """(n, 2) standard deviation within a patch around the point [px], and the share of its pixels
    that have an answer."""


def rough_disparities(left: Image, right: Image, uv: Array) -> RoughDisparities:
    """Disparities by block matching at half size: where Lucas-Kanade begins.

    A near point may lie a hundred pixels away, more than a pyramid bridges.
    """
    small = [_shrunk(image, 0.5) for image in (left, right)]
    matcher = cv2.StereoBM.create(COARSE_RANGE, COARSE_BLOCK)
    matcher.setUniquenessRatio(5)
    matcher.setTextureThreshold(0)
    matcher.setSpeckleWindowSize(30)
    matcher.setSpeckleRange(2)
    # OpenCV gives sixteenths of a pixel, and negative numbers where it has no answer.
    found = matcher.compute(*small).astype(np.float32) / 16.0
    known = (found > 0.0).astype(np.float32)
    around = cv2.blur(found * known, (51, 51)) / np.maximum(cv2.blur(known, (51, 51)), 1e-6)
    filled = np.where(known > 0.0, found, around)
    v, u = (np.minimum((uv[:, i] / 2).astype(int), small[0].shape[1 - i] - 1) for i in (1, 0))
    return RoughDisparities(2.0 * filled[v, u].astype(np.float64), _relief(found, known, v, u))


def _relief(
    found: NDArray[np.float32], known: NDArray[np.float32], v: NDArray[np.intp], u: NDArray[np.intp]
) -> Array:
    """(n, 2) as in `RoughDisparities`, at pixels of the half size."""
    box = (WINDOW // 2, WINDOW // 2)
    share = cv2.blur(known, box)[v, u].astype(np.float64)
    mean = cv2.blur(found * known, box)[v, u] / np.maximum(share, 1e-6)
    squares = cv2.blur(found * found * known, box)[v, u] / np.maximum(share, 1e-6)
    return np.column_stack([2.0 * np.sqrt(np.maximum(squares - mean * mean, 0.0)), share])


def _lucas_kanade(
    source: Image, target: Image, uv: Array, start: Array, levels: int, stop_px: float = _STOP_PX
) -> tuple[Array, Mask]:
    moved, status, _ = cv2.calcOpticalFlowPyrLK(
        source,
        target,
        np.ascontiguousarray(uv, dtype=np.float32).reshape(-1, 1, 2),
        np.ascontiguousarray(start, dtype=np.float32).reshape(-1, 1, 2).copy(),
        winSize=(WINDOW, WINDOW),
        maxLevel=levels - 1,
        criteria=(cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, 30, stop_px),
        flags=cv2.OPTFLOW_USE_INITIAL_FLOW,
        minEigThreshold=_MIN_EIGENVALUE,
    )
    return moved.reshape(-1, 2).astype(np.float64), status.ravel().astype(bool)


def inside(uv: Array, shape: tuple[int, ...], margin: float = WINDOW / 2) -> Mask:
    """(n,) which pixels are in the image and so far from its border."""
    height, width = shape[0], shape[1]
    return (
        (uv[:, 0] >= margin)
        & (uv[:, 0] <= width - 1 - margin)
        & (uv[:, 1] >= margin)
        & (uv[:, 1] <= height - 1 - margin)
    )
