"""Keyframes, and checked matches from two of them and the images between."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from maci2.errors import ImageError
from maci2.geometry import se3_inv
from maci2.sensors.stereo import Image
from maci2.types import Array, Mask
from maci2.vision.klt import (
    COARSE,
    COARSE_LEVELS,
    MAX_ROW_ERROR_PX,
    WINDOW,
    Scaled,
    Tracks,
    candidates,
    coarse_start,
    follow,
    inside,
    rough_disparities,
    scaled,
)
from maci2.vision.match_features import Checks, MatchFeatures, SeenPatches, gather
from maci2.vision.predicted_rotation import PredictedRotation, carried, homography
from maci2.vision.rectify import MIN_STEREO_MATCHES, Rectification, calibration_fault
from maci2.vision.two_frame import Matches, PinholePair, points

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
    """What its stereo matches say against the calibration, or against two images of one instant;
    empty if nothing."""

    @property
    def unusable(self) -> str:
        """Why no relative pose is measured from it or to it; empty where one is."""
        return self.blank or self.fault

    @property
    def row_errors(self) -> Array:
        """(m,) rows by which the stereo matches found differ [px]; zero if calibrated exactly."""
        return (self.uv[:, 1] - self.stereo.uv[:, 1])[self.stereo.found]

    @property
    def row_offset(self) -> float:
        """Their median [px]: a tilt between the cameras, the same for all points."""
        return float(np.median(self.row_errors)) if len(self.row_errors) else 0.0

    @property
    def disparities(self) -> Array:
        """(m,) disparities of the stereo matches found [px]."""
        return (self.uv[:, 0] - self.stereo.uv[:, 0])[self.stereo.found]

    @property
    def confirms_calibration(self) -> bool:
        """Enough stereo matches to contradict the calibration, and they do not."""
        return int(self.stereo.found.sum()) >= MIN_STEREO_MATCHES and not self.fault


@dataclass(frozen=True)
class KeyframeMatches:
    """Matches of two keyframes that passed every check, and what tells their covariance."""

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
    rough = rough_disparities(left, right, uv)
    guess = uv - np.column_stack([rough.start, np.zeros(len(uv))])
    stereo = follow(left, right, uv, guess)
    fault = calibration_fault(uv[stereo.found], stereo.uv[stereo.found])
    return Keyframe(left, right, scaled(left), uv, stereo, rough.relief, why, fault)


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
    row_offset: float,
    camera: PinholePair,
    predicted: PredictedRotation | None = None,
) -> KeyframeMatches:
    """Follow the points of `first` through the images between to `second`, then across.

    They are looked for where the predicted rotation moves them. Every leg matches the patch of
    frame k itself: the images between only lead the way, so their errors do not add up.
    """
    H, levels = homography(predicted, camera), coarse_levels(predicted, camera)
    uv0 = first.uv[with_depth(first, row_offset)]
    # What a rotation does not explain is expected to go on from image to image.
    parallax = np.zeros_like(uv0)
    for guide in guides:
        expected = carried(guide.H, uv0)
        start = coarse_start(first.scaled, guide.scaled, uv0, expected + parallax, levels)
        led = follow(first.scaled.fine, guide.scaled.fine, uv0, start, both_ways=False)
        parallax = led.uv - expected
    start = coarse_start(first.scaled, second.scaled, uv0, carried(H, uv0) + parallax, levels)
    over = follow(first.scaled.fine, second.scaled.fine, uv0, start)
    return _matched_across(first, second, over, row_offset)


def coarse_levels(predicted: PredictedRotation | None, camera: PinholePair) -> int:
    """Sizes of the coarse images in which points are looked for: one less where a rotation is
    predicted so well that parallax alone is left to find."""
    if predicted is None:
        return COARSE_LEVELS
    std_px = camera.focal * float(np.sqrt(np.linalg.eigvalsh(predicted.cov)[-1]))
    return COARSE_LEVELS - 1 if 3.0 * std_px < WELL_PREDICTED_PX else COARSE_LEVELS


def match_along(
    first: Keyframe, second: Keyframe, row_offset: float, T_ck_ck1: Array, camera: PinholePair
) -> tuple[KeyframeMatches, Mask]:
    """Matches nearest to where a motion takes the points of `first`, and which of its points the
    motion keeps in view of both cameras.

    Of a wall that repeats itself other places look the same; of anything else this is the place
    that a true motion leads to.
    """
    good = with_depth(first, row_offset)
    start, shown = taken_along(first, good, T_ck_ck1, camera)
    in_view = np.zeros(len(first.uv), dtype=bool)
    in_view[good] = shown
    # A point without texture stays where it begins and would agree with any motion.
    angle = GOLDEN_ANGLE * np.arange(len(start))
    start += OFF_START_PX * np.column_stack([np.cos(angle), np.sin(angle)])
    over = follow(first.scaled.fine, second.scaled.fine, first.uv[good], start, levels=1)
    return _matched_across(first, second, over, row_offset), in_view


def taken_along(
    first: Keyframe, which: Mask | NDArray[np.intp], T_ck_ck1: Array, camera: PinholePair
) -> tuple[Array, Mask]:
    """(m, 2) where a motion takes some points of `first` [px], and which of them it keeps in view
    of both cameras."""
    T_ck1_ck = se3_inv(T_ck_ck1)
    p0 = points(first.uv[which], (first.uv - first.stereo.uv)[which, 0], camera)
    p1 = p0 @ T_ck1_ck[:3, :3].T + T_ck1_ck[:3, 3]
    p1[:, 2] = np.maximum(p1[:, 2], NEAREST)
    uv = camera.focal * p1[:, :2] / p1[:, 2:] + np.array(camera.center)
    disparity = camera.focal * camera.baseline / p1[:, 2]
    across = uv - np.column_stack([disparity, np.zeros(len(disparity))])
    shape = first.left.shape
    return uv, inside(uv, shape, WINDOW) & inside(across, shape, WINDOW)


def with_depth(first: Keyframe, row_offset: float) -> Mask:
    """(n,) which points of a keyframe have a stereo match that passes its checks."""
    across = first.uv - first.stereo.uv
    on_row = np.abs(across[:, 1] - row_offset) < MAX_ROW_ERROR_PX
    return first.stereo.found & (across[:, 0] > MIN_DISPARITY) & on_row


def _matched_across(
    first: Keyframe, second: Keyframe, over: Tracks, row_offset: float
) -> KeyframeMatches:
    """The points with depth that were found in the second left image, followed to the right one."""
    stereo0 = first.stereo
    disparity0 = first.uv[:, 0] - stereo0.uv[:, 0]
    row0 = first.uv[:, 1] - stereo0.uv[:, 1] - row_offset
    seen = np.flatnonzero(with_depth(first, row_offset))[over.found]
    uv1 = over.uv[over.found]
    across_guess = uv1 - np.column_stack([disparity0[seen], row0[seen] + row_offset])
    across = follow(second.left, second.right, uv1, across_guess)
    disparity1 = uv1[:, 0] - across.uv[:, 0]
    row1 = uv1[:, 1] - across.uv[:, 1] - row_offset
    kept = across.found & (disparity1 > MIN_DISPARITY) & (np.abs(row1) < MAX_ROW_ERROR_PX)
    of_first = seen[kept]
    matches = Matches(first.uv[of_first], uv1[kept], disparity0[of_first], disparity1[kept])
    backward = [over.backward[over.found][kept], stereo0.backward[of_first], across.backward[kept]]
    checks = Checks(
        np.column_stack(backward),
        np.column_stack([row0[of_first], row1[kept]]),
        first.relief[of_first],
    )
    rows = np.column_stack([stereo0.uv[of_first, 1], across.uv[kept, 1]])
    features = gather(seen_patches(first, second), matches, checks, rows)
    return KeyframeMatches(matches, features, row0[of_first] + row_offset, of_first)


def seen_patches(first: Keyframe, second: Keyframe) -> SeenPatches:
    """Images of two keyframes in which matches were found."""
    return SeenPatches(
        first.left, first.right, second.left, second.right, first.scaled.fine, second.scaled.fine
    )


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
    """A stereo pair; its images may be read from disk when they are asked for."""

    @property
    def stamp_ns(self) -> int: ...
    @property
    def left(self) -> Image: ...
    @property
    def right(self) -> Image: ...


@dataclass
class PreparedPair:
    """A pair between two keyframes: it may lead points, or become a keyframe itself."""

    pair: Pair
    rectification: Rectification

    @cached_property
    def leading_image(self) -> Scaled | None:
        """The rectified left image without its exposure; None where it cannot be read or shows
        nothing."""
        try:
            image = self.rectification.left(self.pair.left)
        except ImageError:
            return None
        return None if blank(image, "left") else scaled(image)

    @cached_property
    def keyframe(self) -> Keyframe:
        """The rectified pair with points chosen; an image that cannot be used makes a blank
        keyframe, which costs its relative poses only, as stereo matches off their rows do."""
        try:
            return keyframe(self.rectification, self.pair.left, self.pair.right)
        except ImageError as error:
            width, height = self.rectification.resolution
            black = np.zeros((height, width), np.uint8)
            return replace(keyframe(self.rectification, black, black), blank=str(error))
