"""Candidate motions between two keyframes, and the one that is believed.

Points are matched where the predicted rotation moves them. Where many matches agree on one motion,
that is the answer. Elsewhere several motions may be the camera's: that of the matches led through
the images between, that of the matches left over, the chain of motions from image to image, and, on
walls that repeat themselves, motions a period away. A wall of tiles agrees with many of them, and
by chance most of it may be matched to a wrong one; what does not repeat agrees with one. So each
becomes a candidate: points are matched anew where it takes them, and its score is the number of
points that support it. Of two candidates that one is believed which points support that contradict
the other; where there are none, either may be the camera's.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import cv2
import numpy as np

from maci2.geometry import se3_inv, se3_log
from maci2.geometry.gaussian import chi2_quantile, nees, symmetrize
from maci2.sensors.stereo import Image
from maci2.types import Array, Mask
from maci2.vision.covariance import CalibrationUncertainty, CovarianceModel
from maci2.vision.keyframe import (
    Guide,
    Keyframe,
    KeyframeMatches,
    PreparedPair,
    follow,
    homography,
    match_along,
    match_keyframes,
    taken_along,
    with_depth,
)
from maci2.vision.relative_pose import (
    LIKE_SHARE,
    MIN_INLIER_SHARE,
    MIN_MATCHES,
    Indices,
    RelativePose,
    chained,
    difference,
    measure_relative_pose,
    of_unknown_translation,
    unmeasured,
)
from maci2.vision.relative_poses import PossibleMotion, PredictedRotation, RotationPredictor
from maci2.vision.two_frame import INLIER_CHI2, PinholePair, points, residual_chi2

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


CERTAIN_INLIERS, CERTAIN_SHARE = 60, 0.7
"""Matches that agree on one motion, and their share, with which no image between is used."""

DIFFERENT = chi2_quantile(6, 0.999)
"""Squared Mahalanobis norm of a difference above which two relative poses are two motions: 99.9 %
of chi-square with 6 degrees of freedom."""

SAME_START = (0.01, 0.003)
"""[m, rad] Motions nearer to each other than this lead to the same matches."""

UNSEEN, LOST_SHARE = 0.5 * MIN_MATCHES, 0.05
"""Points granted to each candidate beside those that support it alone, and the share of all points
that is: as few as these are lost in matching and prove nothing."""

NO_PERIODS = np.empty((0, 3))

Source = Literal["measured", "chain", "period"]
"""Origin of a candidate: matches, motions from image to image, or a wall that repeats itself."""


@dataclass(frozen=True)
class Span:
    """Two keyframes, and the stereo pairs between them."""

    stamps_ns: tuple[int, int]
    first: Keyframe
    second: Keyframe
    between: Sequence[PreparedPair] = ()

    @property
    def unusable(self) -> str:
        """Reason why nothing is measured from these keyframes; empty where it can be."""
        return self.first.unusable or self.second.unusable

    def from_image_to_image(self) -> list["Span"]:
        """Spans through every pair between."""
        stamps = [self.stamps_ns[0], *(one.pair.stamp_ns for one in self.between)]
        keyframes = [self.first, *(one.keyframe for one in self.between), self.second]
        ends = zip(pairwise([*stamps, self.stamps_ns[1]]), pairwise(keyframes), strict=True)
        return [Span(stamps_ns, *pair) for stamps_ns, pair in ends]

    def halves(self) -> tuple["Span", "Span"]:
        """Spans to the pair half way, and from it."""
        half = len(self.between) // 2
        middle = self.between[half]
        middle_ns = middle.pair.stamp_ns
        return (
            Span((self.stamps_ns[0], middle_ns), self.first, middle.keyframe, self.between[:half]),
            Span((middle_ns, self.stamps_ns[1]), middle.keyframe, self.second,
                 self.between[half + 1 :]),
        )  # fmt: skip


@dataclass(frozen=True)
class Candidate:
    """A motion that may be the camera's, with all points that agree with it."""

    source: Source
    pose: RelativePose
    """Measured from matches that lie nearest to where the motion takes points."""

    supporters: Mask
    """(n,) points of the first keyframe that agree with it."""

    in_view: Mask
    """(n,) points that it keeps in the images: only these can contradict it."""

    @property
    def score(self) -> int:
        """Number of points that support it."""
        return int(self.supporters.sum())

    def alone(self, other: "Candidate") -> int:
        """Number of points that support this candidate and contradict the other."""
        return int((self.supporters & ~other.supporters & other.in_view).sum())

    def share_against(self, other: "Candidate") -> float:
        """Points that support this candidate alone over those that support one of the two."""
        lost = UNSEEN + LOST_SHARE * float(max(self.score, other.score))
        mine, others = self.alone(other) + lost, other.alone(self) + lost
        return mine / (mine + others)


@dataclass(frozen=True)
class MotionEstimator:
    """Measures the motion between keyframes of one camera."""

    model: CovarianceModel
    camera: PinholePair
    calibration: CalibrationUncertainty
    scale_by_residuals: bool
    predict: RotationPredictor

    def measured(self, span: Span) -> RelativePose:
        """Motion by the predicted rotation; where that fails, led by the images between without it,
        since a prediction may be wrong (another rig's extrinsics, a broken gyroscope); else as a
        chain."""
        pose = self.as_predicted(span)
        if not pose.reason or span.unusable:
            return pose
        # Without a prediction a repeating wall is matched a period off unless points are led.
        pose = better(self.matched(span, None, self._guides(span, led_by_prediction=False)), pose)
        return (self.bridged(span, self.measured) if pose.reason else None) or pose

    def as_predicted(self, span: Span, is_part: bool = False) -> RelativePose:
        """Motion by the predicted rotation: directly; where that fails, as a chain; where it is in
        doubt, the best supported candidate. A part of a chain is short: its keyframes suffice."""
        if span.unusable:
            return unmeasured(span.stamps_ns, span.unusable)
        predicted = self.predict(*span.stamps_ns)
        if predicted is None:
            return unmeasured(span.stamps_ns, "no rotation is predicted")
        direct = self.matched(span, predicted)
        repeated = NO_PERIODS if is_part else self.repeated(span, direct)
        if beyond_doubt(direct):
            # Most of what repeats is decided by the rest of the image, without those between.
            if len(repeated):
                direct = self.believed(span, predicted, [direct], [], repeated)
            if not direct.motions or not len(repeated):
                return direct
        elif direct.reason and span.between:
            chain = self.bridged(span, lambda half: self.as_predicted(half, is_part=True))
            if chain:
                return chain
        measured, parts = [direct], []
        if span.between and not is_part:
            if not beyond_doubt(direct):
                measured.append(self.matched(span, predicted, self._guides(span, True)))
            if len(repeated) or in_dispute(measured):
                parts = self._from_image_to_image(span)
        return self.believed(span, predicted, measured, parts, repeated)

    def matched(
        self, span: Span, predicted: PredictedRotation | None, guides: Sequence[Guide] = ()
    ) -> RelativePose:
        """Motion of matches found where the predicted rotation and the images between lead."""
        rows = span.first.row_offset
        found = match_keyframes(span.first, guides, span.second, rows, self.camera, predicted)
        return self._pose(span, predicted, found, self.model(found.features))

    def repeated(self, span: Span, pose: RelativePose) -> Array:
        """(m, 3) periods [m] of the surfaces whose points agree with a motion; none where the rest
        of the image contradicts every motion a period away."""
        period = periods(span.first, pose.points, self.camera)
        if len(period) and not rivals(span.first, span.second, pose.T_ck_ck1, period, self.camera):
            return period[:0]
        return period

    def bridged(self, span: Span, measure: Callable[[Span], RelativePose]) -> RelativePose | None:
        """Chain through the pair half way; None where a part of it cannot be measured."""
        if not span.between:
            return None
        parts = []
        for half in span.halves():
            parts.append(measure(half))
            if parts[-1].reason:
                return None
        return chained(parts)

    def believed(
        self,
        span: Span,
        predicted: PredictedRotation | None,
        measured: Sequence[RelativePose],
        parts: Sequence[RelativePose],
        repeated: Array,
    ) -> RelativePose:
        """The best supported of all candidates: the chain of the parts, everything that was
        measured, and motions a period away.

        Where points agree with none of them unless they are matched along it, nothing is known of
        the translation.
        """
        candidates: list[Candidate] = []
        # From image to image points move least: a motion of parts is the last to be a period off.
        chain = [chained(parts).T_ck_ck1] if parts else []
        self._add(span, predicted, candidates, "chain", chain)
        motions = [T for one in measured for T in motions_of(one)]
        self._add(span, predicted, candidates, "measured", motions)
        best = better(*measured)
        if not candidates:
            return best
        if len(repeated):
            around = leading(candidates).pose.T_ck_ck1
            away = rivals(span.first, span.second, around, repeated, self.camera)
            self._add(span, predicted, candidates, "period", away)
        pose = most_supported(candidates, best)
        if not best.scattered or (parts and not any(part.scattered for part in parts)):
            return pose
        few = replace(pose, matches=best.matches, inliers=best.inliers)
        return of_unknown_translation(few, predicted)

    def _add(
        self,
        span: Span,
        predicted: PredictedRotation | None,
        candidates: list[Candidate],
        source: Source,
        motions: Sequence[Array],
    ) -> None:
        """Add motions as candidates, unless they are known or points agree on nothing near them."""
        for T_ck_ck1 in motions:
            if any(_same_start(T_ck_ck1, one.pose.T_ck_ck1) for one in candidates):
                continue
            rows = span.first.row_offset
            found, in_view = match_along(span.first, span.second, rows, T_ck_ck1, self.camera)
            covs = self.model(found.features)
            pose = self._pose(span, predicted, found, covs)
            if pose.reason:
                continue
            chi2 = residual_chi2(pose.T_ck_ck1, found.matches, covs, self.camera)
            supporters = np.zeros(len(span.first.uv), dtype=bool)
            supporters[found.points[chi2 < INLIER_CHI2]] = True
            candidates.append(Candidate(source, pose, supporters, in_view))

    def _pose(
        self, span: Span, predicted: PredictedRotation | None, found: KeyframeMatches, covs: Array
    ) -> RelativePose:
        return measure_relative_pose(
            span.stamps_ns, found, covs, self.camera, self.calibration, self.scale_by_residuals,
            predicted,
        )  # fmt: skip

    def _from_image_to_image(self, span: Span) -> list[RelativePose]:
        """Motions through every pair between; none where one of them cannot be measured."""
        parts = []
        for part in span.from_image_to_image():
            parts.append(self.as_predicted(part, is_part=True))
            if parts[-1].reason:
                return []
        return parts

    def _guides(self, span: Span, led_by_prediction: bool) -> list[Guide]:
        """Images that lead the way; a dark one would lead nowhere."""
        guides = []
        for one in span.between:
            if one.leading_image is not None:
                ends = span.stamps_ns[0], one.pair.stamp_ns
                rotation = self.predict(*ends) if led_by_prediction else None
                guides.append(Guide(one.leading_image, homography(rotation, self.camera)))
        return guides


def beyond_doubt(pose: RelativePose) -> bool:
    """So many matches agree on one motion that no image between is needed; others that support a
    second one are too few for like support then."""
    return (
        not pose.reason
        and pose.inliers >= CERTAIN_INLIERS
        and pose.inliers >= CERTAIN_SHARE * pose.matches
    )


def in_dispute(measured: Sequence[RelativePose]) -> bool:
    """Measurements of one relative pose contradict each other, or half of the matches contradict
    the better one: points may have been lost or led astray."""
    best = better(*measured)
    others = [one for one in measured if one is not best and not one.reason]
    return not agreed(best) or any(differ(one, best) for one in others)


def agreed(pose: RelativePose) -> bool:
    """Half of the matches agree on the motion."""
    return not pose.reason and pose.inliers >= MIN_INLIER_SHARE * pose.matches


def better(*poses: RelativePose) -> RelativePose:
    """The pose that was measured, with most matches that agree."""
    return max(poses, key=lambda pose: (not pose.reason, pose.inliers))


def differ(one: RelativePose, other: RelativePose) -> bool:
    """Two measurements yield two motions; of a pose in doubt its first motion counts."""
    if other.reason or other.scattered:
        return True
    cov = first_motion(one).cov_T_ck_ck1 + first_motion(other).cov_T_ck_ck1
    return float(nees(difference(one, other), cov)) > DIFFERENT


def first_motion(pose: RelativePose) -> RelativePose:
    """The pose as it is if its first motion is the camera's."""
    return replace(pose, cov_T_ck_ck1=pose.motions[0].cov_T_ck_ck1) if pose.motions else pose


def motions_of(pose: RelativePose) -> list[Array]:
    """Every T_ck_ck1 of a measurement; none where nothing was measured."""
    if pose.reason:
        return []
    return [pose.T_ck_ck1, *(one.T_ck_ck1 for one in pose.motions[1:])]


def leading(candidates: Sequence[Candidate]) -> Candidate:
    """The candidate with the highest score; the first where it has like support."""
    most = max(candidates, key=lambda one: one.score)
    return candidates[0] if candidates[0].share_against(most) >= LIKE_SHARE else most


def most_supported(candidates: Sequence[Candidate], measured: RelativePose) -> RelativePose:
    """The leading candidate, with others as alternatives where fifteen points support them alone,
    and a covariance that covers those of like support.

    A motion that half of the matches `measured` stays as it is where it leads: points that are
    matched along it are found nearer to it than they are.
    """
    best = leading(candidates)
    pose = best.pose if best.pose.scattered else first_motion(best.pose)
    if agreed(measured) and not differ(pose, measured):
        pose = first_motion(measured)
    others: list[Candidate] = []
    for one in sorted(candidates, key=lambda one: -one.share_against(best)):
        if _counts(one, best) and all(differ(one.pose, other.pose) for other in [best, *others]):
            others.append(one)
    cov = pose.cov_T_ck_ck1
    for one in others:
        share, away = one.share_against(best), difference(one.pose, pose)
        if share >= LIKE_SHARE:
            cov = cov + share * np.outer(away, away)
    motions = _possible(pose, best, others) if others else ()
    return replace(pose, cov_T_ck_ck1=symmetrize(cov), motions=motions)


def _same_start(T_ck_ck1: Array, other: Array) -> bool:
    away = se3_log(np.ascontiguousarray(T_ck_ck1 @ se3_inv(other)))
    return bool(
        np.linalg.norm(away[:3]) < SAME_START[0] and np.linalg.norm(away[3:]) < SAME_START[1]
    )


def _counts(one: Candidate, best: Candidate) -> bool:
    return one.share_against(best) >= LIKE_SHARE or one.alone(best) >= MIN_MATCHES


def _possible(
    pose: RelativePose, best: Candidate, others: Sequence[Candidate]
) -> tuple[PossibleMotion, ...]:
    odds = [1.0] + [one.share_against(best) / (1.0 - one.share_against(best)) for one in others]
    poses = [pose] + [first_motion(one.pose) for one in others]
    return tuple(
        PossibleMotion(one.T_ck_ck1, one.cov_T_ck_ck1, odd / sum(odds))
        for one, odd in zip(poses, odds, strict=True)
    )
