"""Whether what is seen repeats itself: then points agree on motions that are a period apart.

A tiled wall, a facade or a grating looks the same when the camera has moved by one of its periods.
Periods are found in one keyframe alone: places that look like a point's own, with their depth.
"""

import cv2
import numpy as np

from maci2.sensors.stereo import Image
from maci2.types import Array, Mask
from maci2.vision.keyframe import Keyframe, taken_along, with_depth
from maci2.vision.klt import follow
from maci2.vision.relative_pose import Indices
from maci2.vision.two_frame import PinholePair, points

ASKED = 16
"""Points that are looked for in their surroundings, at most."""

REPEATING_SHARE = 0.5
"""Share of the points asked that must look like others nearby before anything is said to repeat."""

SURE_AFTER = 8
"""Points asked before it may be said that nothing repeats."""

HALF_PATCH, REACH, NEAR = 5, 48, 4
"""[px at half size] Half side of the patch that is compared, how far, and from where on."""

ALIKE = 0.75
"""Normalized correlation from which on two places look the same."""

PLACES = 4
"""Places taken for each point, the nearest ones."""

SAME_PERIOD = 0.04
"""[m] Distance up to which two periods are the same one: depths of single points err by this."""

SAME_SHARE = 0.3
"""Share of the points asked that must have a period in common."""

PERIODS = 2
"""Periods handed on, those that most points have: a wall has two of its own."""

COMPARED = 64
"""Points by which a motion a period away is compared with the one measured, at most."""

SLACK = 3
"""[px at half size] How far from where a motion takes it a point is looked for: periods err."""

RIVAL_SHARE = 0.5
"""Points that must look the same along a motion a period away, in shares of those along the one
measured, before it is asked in earnest. What is not the camera's motion though it has this few is
no rival: with less than 0.6 times as many points it would be rejected (`LIKE_SHARE`)."""


def periods(keyframe: Keyframe, agreeing: Indices, camera: PinholePair) -> Array:
    """(m, 3) vectors [m] in the left camera by which that repeats itself which points that agree on
    a motion show; none where most of them look like nothing nearby."""
    image = _half(keyframe.left)
    some = _spread_out(np.sort(agreeing))
    found: list[tuple[int, Array]] = []
    alike = 0
    for count, index in enumerate(some, start=1):
        places = _alike(image, keyframe.uv[index])
        alike += len(places) > 0
        found += [(int(index), place) for place in places]
        if count >= SURE_AFTER and alike < REPEATING_SHARE * count:
            return np.empty((0, 3))
    if len(some) < SURE_AFTER:
        return np.empty((0, 3))
    return _most_common(_vectors(keyframe, found, camera), SAME_SHARE * len(some))


def rivals(
    first: Keyframe, second: Keyframe, T_ck_ck1: Array, period: Array, camera: PinholePair
) -> list[Array]:
    """The motions T_ck_ck1 one period, or the sum or difference of two, away from the one given
    along which the second keyframe looks like the first, too.

    Where a part of what is seen repeats itself, the rest contradicts them all: patches of some
    points are compared, which costs a hundredth of matching them.
    """
    if len(period) > 1:
        period = np.vstack([period, period[0] + period[1], period[0] - period[1]])
    motions = []
    for vector in (*period, *-period):
        away = T_ck_ck1.copy()
        away[:3, 3] += vector
        motions.append(away)
    points_at = np.flatnonzero(with_depth(first, first.row_offset))
    some = points_at[:: max(len(points_at) // COMPARED, 1)][:COMPARED]
    images = _half(first.left), _half(second.left)
    alike, _ = _seen_along(images, first, some, T_ck_ck1, camera)
    found = []
    for motion in motions:
        alike_there, in_view = _seen_along(images, first, some, motion, camera)
        if (alike_there & in_view).sum() >= RIVAL_SHARE * (alike & in_view).sum():
            found.append(motion)
    return found


def _seen_along(
    images: tuple[Image, Image],
    first: Keyframe,
    some: Indices,
    T_ck_ck1: Array,
    camera: PinholePair,
) -> tuple[Mask, Mask]:
    """(n,) which points look in the second image, where a motion takes them, as in the first; and
    which of them it keeps in view."""
    uv, in_view = taken_along(first, some, T_ck_ck1, camera)
    pairs = zip(first.uv[some], uv, in_view, strict=True)
    alike = [shown and _likeness(*images, here, there) > ALIKE for here, there, shown in pairs]
    return np.array(alike, dtype=bool), in_view


def _likeness(image: Image, other: Image, uv: Array, uv_other: Array) -> float:
    """Largest normalized correlation of the patch at `uv` with those near `uv_other`."""
    u, v = _half_pixel(uv)
    reach = HALF_PATCH + SLACK
    u1, v1 = _half_pixel(uv_other)
    patch = image[v - HALF_PATCH : v + HALF_PATCH + 1, u - HALF_PATCH : u + HALF_PATCH + 1]
    around = other[max(v1 - reach, 0) : v1 + reach + 1, max(u1 - reach, 0) : u1 + reach + 1]
    if min(around.shape) < 2 * HALF_PATCH + 1 or patch.shape != (2 * HALF_PATCH + 1,) * 2:
        return 0.0
    return float(cv2.matchTemplate(around, patch, cv2.TM_CCOEFF_NORMED).max())


def _half(image: Image) -> Image:
    small = cv2.resize(image, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
    return np.asarray(small, np.uint8)


def _half_pixel(uv: Array) -> tuple[int, int]:
    """The pixel of the image at half size that a point lies in."""
    u, v = uv.tolist()
    return round((u - 0.5) / 2.0), round((v - 0.5) / 2.0)


def _spread_out(indices: Indices) -> Indices:
    """Every so many of the stronger half; points are sorted by strength."""
    strong = indices[: max(len(indices) // 2, min(len(indices), ASKED))]
    return strong[:: max(len(strong) // ASKED, 1)][:ASKED]


def _alike(image: Image, uv: Array) -> Array:
    """(k, 2) the nearest places that look like the one at `uv`, relative to it [px]."""
    u, v = _half_pixel(uv)
    patch = image[v - HALF_PATCH : v + HALF_PATCH + 1, u - HALF_PATCH : u + HALF_PATCH + 1]
    if patch.shape != (2 * HALF_PATCH + 1, 2 * HALF_PATCH + 1) or patch.min() == patch.max():
        return np.empty((0, 2))
    left, top = max(u - REACH - HALF_PATCH, 0), max(v - REACH - HALF_PATCH, 0)
    around = image[top : v + REACH + HALF_PATCH + 1, left : u + REACH + HALF_PATCH + 1]
    score = cv2.matchTemplate(around, patch, cv2.TM_CCOEFF_NORMED)
    peaks = cv2.dilate(score, np.ones((2 * NEAR + 1, 2 * NEAR + 1), np.uint8))
    rows, columns = np.nonzero((score >= peaks) & (score > ALIKE))
    offsets = np.column_stack([columns + left + HALF_PATCH - u, rows + top + HALF_PATCH - v])
    distance = np.linalg.norm(offsets, axis=1)
    order = np.argsort(distance, kind="stable")
    order = order[distance[order] > NEAR]
    return 2.0 * offsets[order[:PLACES]].astype(np.float64)


def _vectors(keyframe: Keyframe, found: list[tuple[int, Array]], camera: PinholePair) -> Array:
    """(k, 3) from each point to a place that looks like it [m], where that has a depth."""
    if not found:
        return np.empty((0, 3))
    index = np.array([one for one, _ in found])
    uv = keyframe.uv[index]
    places = uv + np.array([place for _, place in found])
    disparity = (keyframe.uv - keyframe.stereo.uv)[index, 0]
    across = follow(
        keyframe.left,
        keyframe.right,
        places,
        places - np.column_stack([disparity, np.zeros(len(disparity))]),
    )
    there = places[:, 0] - across.uv[:, 0]
    known = across.found & (there > 0.8)
    vectors = points(places[known], there[known], camera) - points(
        uv[known], disparity[known], camera
    )
    return np.asarray(vectors, np.float64)


def _most_common(vectors: Array, fewest: float) -> Array:
    """(m, 3) the means of the largest groups of vectors, up to their sign."""
    both = np.concatenate([vectors, -vectors])
    chosen: list[Array] = []
    while len(both) and len(chosen) < PERIODS:
        reach = np.minimum(SAME_PERIOD, 0.2 * np.linalg.norm(both, axis=1))
        near = np.linalg.norm(both[:, None] - both[None], axis=2) < reach[:, None]
        group = near[int(np.argmax(near.sum(axis=1)))]
        if group.sum() < fewest:
            break
        mean = both[group].mean(axis=0)
        chosen.append(mean)
        off = np.minimum(np.linalg.norm(both - mean, axis=1), np.linalg.norm(both + mean, axis=1))
        both = both[off >= SAME_PERIOD]
    return np.array(chosen).reshape(-1, 3)
