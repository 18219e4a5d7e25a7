"""Keypoints, keyframes, and checked matches from two of them and the images between.

Keypoints are the best-determined point of every cell. They are followed by pyramidal Lucas-Kanade,
both ways, on images without their exposure: the surroundings of each pixel get the same mean and
contrast. Points are found in small images first.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Lock
from typing import NamedTuple, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from maci2.errors import ImageError
from maci2.geometry import se3_inv
from maci2.jit import kernel
from maci2.sensors.stereo import Image
from maci2.types import Array, Mask
from maci2.vision.covariance import Checks, MatchFeatures, gather
from maci2.vision.rectify import MIN_STEREO_MATCHES, Rectification, calibration_fault
from maci2.vision.relative_poses import PredictedRotation
from maci2.vision.two_frame import Matches, PinholePair, points

BLOCK = 7
"""Side of the patch whose gradients decide [px]."""


def candidates(
    image: Image, mask: NDArray[np.uint8], count: int, spacing: int, margin: int
) -> Array:
    """(n, 2) the best-determined point of every cell, strongest first, at most `count`.

    The smaller eigenvalue of the structure tensor is the inverse of the worst variance a match can
    have, so its maximum over a cell is the minimum of the uncertainty known beforehand.
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
    small = shrunk(image, 1.0 / COARSE)
    return Scaled(locally_scaled(image), locally_scaled(small, COARSE_SURROUNDINGS))


class Tracks(NamedTuple):
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


def shrunk(image: Image, scale: float) -> Image:
    """The image in another size, each pixel the mean of those it covers."""
    small = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    return np.asarray(small, np.uint8)


def stereo_matches(left: Image, right: Image, uv: Array) -> tuple[Tracks, Array]:
    """Where points of the left image are in the right one; and (n, 2) the standard deviation of
    rough disparities within a patch around each point [px] and the share of its pixels that have
    one.

    Lucas-Kanade begins where block matching at half size leads, or its surroundings where it has no
    answer: a near point may lie a hundred pixels away, more than a pyramid bridges.
    """
    small = [shrunk(image, 0.5) for image in (left, right)]
    matcher = cv2.StereoBM.create(COARSE_RANGE, COARSE_BLOCK)
    matcher.setUniquenessRatio(5)
    matcher.setTextureThreshold(0)
    matcher.setSpeckleWindowSize(30)
    matcher.setSpeckleRange(2)
    # OpenCV gives sixteenths of a pixel, and negative numbers where it has no answer.
    rough = matcher.compute(*small).astype(np.float32) / 16.0
    known = (rough > 0.0).astype(np.float32)
    around = cv2.blur(rough * known, (51, 51)) / np.maximum(cv2.blur(known, (51, 51)), 1e-6)
    v, u = (np.minimum((uv[:, i] / 2).astype(int), small[0].shape[1 - i] - 1) for i in (1, 0))
    start = 2.0 * np.where(known > 0.0, rough, around)[v, u].astype(np.float64)
    box = (WINDOW // 2, WINDOW // 2)
    share = cv2.blur(known, box)[v, u].astype(np.float64)
    mean = cv2.blur(rough * known, box)[v, u] / np.maximum(share, 1e-6)
    squares = cv2.blur(rough * rough * known, box)[v, u] / np.maximum(share, 1e-6)
    relief = np.column_stack([2.0 * np.sqrt(np.maximum(squares - mean * mean, 0.0)), share])
    return follow(left, right, uv, shifted(uv, start)), relief


def shifted(uv: Array, disparity: Array) -> Array:
    """(n, 2) where the right image shows points of the left one that have these disparities."""
    return uv - np.column_stack([disparity, np.zeros(len(disparity))])


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
    last = np.array([shape[1], shape[0]]) - 1.0 - margin
    return np.asarray(((uv >= margin) & (uv <= last)).all(axis=1))


def homography(predicted: PredictedRotation | None, camera: PinholePair) -> Array | None:
    """(3, 3) takes pixels of image k to where a rotation alone moves them in image k+1; None where
    no rotation is predicted."""
    if predicted is None:
        return None
    return np.asarray(camera.K @ predicted.R_ck_ck1.T @ np.linalg.inv(camera.K), np.float64)


def carried(H: Array | None, uv: Array) -> Array:
    """(n, 2) pixels moved by a homography; where they are without one."""
    if H is None:
        return uv
    p = np.column_stack([uv, np.ones(len(uv))]) @ H.T
    # Beyond 84 deg off the axis a point is nowhere near the image; it must not come back mirrored.
    return np.asarray(p[:, :2] / np.maximum(p[:, 2:], 0.1), np.float64)


CANDIDATES = 600
SPACING = 20
"""[px] side of the cells that keypoints are taken from, one each."""

MIN_DISPARITY = 0.8
"""[px] Below this a point is too far to have a depth."""

NEAREST = 0.05
"""[m] Points that a motion takes nearer than this, or behind the camera, are not seen."""

OFF_START_PX, GOLDEN_ANGLE = 2.0, 2.4
"""Distance [px] from the place that a motion predicts to where matching starts, and step of its
direction from point to point [rad]."""

WELL_PREDICTED_PX = 0.5 * WINDOW * COARSE
"""Three standard deviations of a well predicted rotation, at most: half of how far two sizes of
coarse images reach. The third would lead more points astray than it finds."""

MIN_CONTRAST = 3.0
"""[grey levels] Standard deviation below which an image shows nothing."""


@dataclass(frozen=True)
class Keyframe:
    """A rectified stereo pair and the points chosen in it, with their stereo matches."""

    left: Image
    right: Image

    scaled: Scaled
    """The left image without its exposure: points are followed in it."""

    uv: Array
    """(n, 2) chosen points [px]."""

    stereo: Tracks
    """Where they are in the right image."""

    relief: Array
    """(n, 2) how much rough disparities around them differ [px], and how many there are."""

    blank: str
    """Why there is nothing to see; empty where there is."""

    fault: str = ""
    """Contradiction of its stereo matches to the calibration, or to two images of one instant;
    empty if there is none."""

    row_offset: float = 0.0
    """Median row error of its stereo matches [px]: a tilt between the cameras, the same for all
    points."""

    @property
    def unusable(self) -> str:
        """Why no relative pose is measured from it or to it; empty where one is."""
        return self.blank or self.fault

    @property
    def across(self) -> Array:
        """(n, 2) position in the left image minus that in the right one [px]; disparity, row."""
        return self.uv - self.stereo.uv

    @property
    def row_errors(self) -> Array:
        """(m,) rows by which the stereo matches found differ [px]; zero if calibrated exactly."""
        return self.across[self.stereo.found, 1]

    @property
    def disparities(self) -> Array:
        """(m,) disparities of the stereo matches found [px]."""
        return self.across[self.stereo.found, 0]

    @property
    def confirms_calibration(self) -> bool:
        """Enough stereo matches to contradict the calibration, and they do not."""
        return int(self.stereo.found.sum()) >= MIN_STEREO_MATCHES and not self.fault

    @property
    def with_depth(self) -> Mask:
        """(n,) which points have a stereo match that passes its checks."""
        on_row = np.abs(self.across[:, 1] - self.row_offset) < MAX_ROW_ERROR_PX
        return self.stereo.found & (self.across[:, 0] > MIN_DISPARITY) & on_row

    def with_points(self, which: Mask) -> "Keyframe":
        """The keyframe with some of its points."""
        uv, backward, found = self.stereo
        stereo = Tracks(uv[which], backward[which], found[which])
        some = replace(self, uv=self.uv[which], stereo=stereo, relief=self.relief[which])
        return replace(some, row_offset=median(some.row_errors))


@dataclass(frozen=True)
class KeyframeMatches:
    """Matches of two keyframes that passed every check, and what predicts their covariance."""

    matches: Matches
    features: MatchFeatures
    row_errors: Array
    """(n,) of the stereo matches in frame k [px], offset not removed."""

    points: NDArray[np.intp]
    """(n,) which points of the first keyframe they are."""


def keyframe(rectification: Rectification, left: Image, right: Image) -> Keyframe:
    """Rectify a pair, choose points and match them across."""
    left, right = rectification.left(left), rectification.right(right)
    why = blank(left, "left") or blank(right, "right")
    if why:
        nothing = np.empty((0, 2))
        stereo = follow(left, right, nothing)
        return Keyframe(left, right, Scaled(left, left), nothing, stereo, nothing, why)
    uv = candidates(left, rectification.mask, CANDIDATES, SPACING, WINDOW // 2 + 2)
    stereo, relief = stereo_matches(left, right, uv)
    fault = calibration_fault(uv[stereo.found], stereo.uv[stereo.found])
    offset = median((uv - stereo.uv)[stereo.found, 1])
    return Keyframe(left, right, scaled(left), uv, stereo, relief, why, fault, offset)


def median(values: Array) -> float:
    """The median; 0 of nothing."""
    return float(np.median(values)) if len(values) else 0.0


@dataclass(frozen=True)
class Guide:
    """An image between two keyframes, through which points are followed."""

    scaled: Scaled
    """Rectified left image without its exposure."""

    H: Array | None
    """(3, 3) homography that takes pixels of the first keyframe to where they are expected; None
    where no rotation is predicted."""


def match_keyframes(
    first: Keyframe,
    guides: Sequence[Guide],
    second: Keyframe,
    camera: PinholePair,
    predicted: PredictedRotation | None = None,
) -> KeyframeMatches:
    """Follow the points of `first` through the images between to `second`, then across.

    They are searched where the predicted rotation moves them. Every leg matches the patch of
    frame k itself: the images between only guide the search, so their errors do not add up.
    """
    H, levels = homography(predicted, camera), coarse_levels(predicted, camera)
    uv0 = first.uv[first.with_depth]
    # What a rotation does not explain is expected to go on from image to image.
    parallax = np.zeros_like(uv0)
    for guide in guides:
        expected = carried(guide.H, uv0)
        start = coarse_start(first.scaled, guide.scaled, uv0, expected + parallax, levels)
        led = follow(first.scaled.fine, guide.scaled.fine, uv0, start, both_ways=False)
        parallax = led.uv - expected
    start = coarse_start(first.scaled, second.scaled, uv0, carried(H, uv0) + parallax, levels)
    over = follow(first.scaled.fine, second.scaled.fine, uv0, start)
    return _matched_across(first, second, over)


def coarse_levels(predicted: PredictedRotation | None, camera: PinholePair) -> int:
    """Sizes of the coarse images in which points are searched: one less where a rotation is
    predicted so well that parallax alone is left to find."""
    if predicted is None:
        return COARSE_LEVELS
    std_px = camera.focal * float(np.sqrt(np.linalg.eigvalsh(predicted.cov)[-1]))
    return COARSE_LEVELS - 1 if 3.0 * std_px < WELL_PREDICTED_PX else COARSE_LEVELS


def match_along(
    first: Keyframe, second: Keyframe, T_ck_ck1: Array, camera: PinholePair
) -> tuple[KeyframeMatches, Mask]:
    """Matches nearest to where a motion takes the points of `first`, and which of its points the
    motion keeps in view of both cameras.

    Of a wall that repeats itself other places look the same; of anything else this is the place
    that a true motion leads to.
    """
    good = first.with_depth
    start, shown = taken_along(first, good, T_ck_ck1, camera)
    in_view = np.zeros(len(first.uv), dtype=bool)
    in_view[good] = shown
    # A point without texture stays where it begins and would agree with any motion.
    angle = GOLDEN_ANGLE * np.arange(len(start))
    start += OFF_START_PX * np.column_stack([np.cos(angle), np.sin(angle)])
    over = follow(first.scaled.fine, second.scaled.fine, first.uv[good], start, levels=1)
    return _matched_across(first, second, over), in_view


def taken_along(
    first: Keyframe, which: Mask | NDArray[np.intp], T_ck_ck1: Array, camera: PinholePair
) -> tuple[Array, Mask]:
    """(m, 2) where a motion takes some points of `first` [px], and which of them it keeps in view
    of both cameras."""
    T_ck1_ck = se3_inv(T_ck_ck1)
    p0 = points(first.uv[which], first.across[which, 0], camera)
    p1 = p0 @ T_ck1_ck[:3, :3].T + T_ck1_ck[:3, 3]
    p1[:, 2] = np.maximum(p1[:, 2], NEAREST)
    uv = camera.focal * p1[:, :2] / p1[:, 2:] + np.array(camera.center)
    uv_right = shifted(uv, camera.focal * camera.baseline / p1[:, 2])
    shape = first.left.shape
    return uv, inside(uv, shape, WINDOW) & inside(uv_right, shape, WINDOW)


def _matched_across(first: Keyframe, second: Keyframe, over: Tracks) -> KeyframeMatches:
    """The points with depth that were found in the second left image, followed to the right one."""
    at0 = np.flatnonzero(first.with_depth)[over.found]
    uv1 = over.uv[over.found]
    across = follow(second.left, second.right, uv1, uv1 - first.across[at0])
    reached = replace(second, uv=uv1, stereo=across, row_offset=first.row_offset)
    at1 = np.flatnonzero(reached.with_depth)
    return checked_matches(first, at0[at1], reached, at1, over.backward[over.found][at1])


def checked_matches(
    first: Keyframe,
    at0: NDArray[np.intp],
    second: Keyframe,
    at1: NDArray[np.intp],
    backward: Array,
) -> KeyframeMatches:
    """Points `at0` of one keyframe that are the points `at1` of another, with all that predicts
    their covariance; `backward` (n,) is how far the way back from the second missed [px]."""
    across0, across1 = first.across[at0], second.across[at1]
    matches = Matches(first.uv[at0], second.uv[at1], across0[:, 0], across1[:, 0])
    rows = across0[:, 1] - first.row_offset, across1[:, 1] - second.row_offset
    checks = Checks(
        np.column_stack([backward, first.stereo.backward[at0], second.stereo.backward[at1]]),
        np.column_stack(rows),
        np.column_stack([first.stereo.uv[at0, 1], second.stereo.uv[at1, 1]]),
        first.relief[at0],
    )
    scaled_pair = first.scaled.fine, second.scaled.fine
    images = first.left, first.right, second.left, second.right, *scaled_pair
    return KeyframeMatches(matches, gather(images, matches, checks), across0[:, 1], at0)


def blank(image: Image, name: str) -> str:
    """Why there is nothing to see in an image; empty where there is."""
    contrast = float(image[::4, ::4].std())
    if contrast >= MIN_CONTRAST:
        return ""
    return (
        f"the {name} image shows nothing: grey {float(image[::4, ::4].mean()):.0f} with standard "
        f"deviation {contrast:.1f}, needed {MIN_CONTRAST:g}"
    )


class Pair(Protocol):
    """A stereo pair; its images may be read from disk when they are requested."""

    @property
    def stamp_ns(self) -> int: ...
    @property
    def left(self) -> Image: ...
    @property
    def right(self) -> Image: ...


@dataclass
class PreparedPair:
    """A pair between two keyframes: it may guide the search, or become a keyframe itself."""

    pair: Pair
    rectification: Rectification
    _keyframe: Keyframe | None = field(default=None, repr=False)
    _preparing: Lock = field(default_factory=Lock, repr=False)

    @cached_property
    def leading_image(self) -> Scaled | None:
        """The rectified left image without its exposure; None where it cannot be read or shows
        nothing."""
        try:
            image = self.rectification.left(self.pair.left)
        except ImageError:
            return None
        return None if blank(image, "left") else scaled(image)

    @property
    def keyframe(self) -> Keyframe:
        """The rectified pair with points chosen, made by the first thread that requests it. An
        image that cannot be used makes a blank keyframe, which costs its relative poses only, as
        stereo matches off their rows do."""
        with self._preparing:
            try:
                self._keyframe = self._keyframe or keyframe(
                    self.rectification, self.pair.left, self.pair.right
                )
            except ImageError as error:
                black = np.zeros(self.rectification.resolution[::-1], np.uint8)
                nothing = keyframe(self.rectification, black, black)
                self._keyframe = replace(nothing, blank=str(error))
            return self._keyframe
