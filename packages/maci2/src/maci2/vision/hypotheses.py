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
from functools import partial
from itertools import pairwise

import cv2
import numpy as np

from maci2.geometry import se3, se3_inv, se3_log
from maci2.geometry.gaussian import chi2_quantile, nees, symmetrize
from maci2.sensors.stereo import Image
from maci2.types import Array, Mask
from maci2.vision.covariance import CalibrationUncertainty, CovarianceModel
from maci2.vision.keyframe import (
    MIN_DISPARITY,
    Guide,
    Keyframe,
    KeyframeMatches,
    PreparedPair,
    follow,
    homography,
    match_along,
    match_keyframes,
    shifted,
    shrunk,
    taken_along,
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
"""Points that are searched in their surroundings, at most."""

REPEATING_SHARE = 0.5
"""Share of the points searched that must look like others nearby for anything to repeat."""

SURE_AFTER = 8
"""Points searched before it is concluded that nothing repeats."""

HALF_PATCH, REACH, NEAR = 5, 48, 4
"""[px at half size] Half side of the patch that is compared, how far, and from where on."""

ALIKE = 0.75
"""Normalized correlation from which on two places look the same."""

PLACES = 4
"""Places taken for each point, the nearest ones."""

SAME_PERIOD = 0.04
"""[m] Distance up to which two periods are the same one: depths of single points err by this."""

SAME_SHARE = 0.3
"""Share of the points searched that must have a period in common."""

PERIODS = 2
"""Periods returned, those that most points have: a wall has two of its own."""

COMPARED = 64
"""Points by which a motion a period away is compared with the one measured, at most."""

SLACK = 3
"""[px at half size] How far from where a motion takes it a point is searched: periods err."""

RIVAL_SHARE = 0.5
"""Points that must look the same along a motion a period away, in shares of those along the one
measured, before it becomes a candidate. What is not the camera's motion though it has this few is
no rival: with less than 0.6 times as many points it would be rejected (`LIKE_SHARE`)."""


NO_PERIODS = np.empty((0, 3))


def periods(keyframe: Keyframe, agreeing: Indices, camera: PinholePair) -> Array:
    """(m, 3) vectors [m] in the left camera by which that repeats itself which points that agree on
    a motion show; none where most of them look like nothing nearby.

    A tiled wall, a facade or a grating looks the same when the camera has moved by one of its
    periods. They are found in one keyframe alone: places that look like a point's own, with their
    depth.
    """
    image = shrunk(keyframe.left, 0.5)
    # Every so many of the stronger half; points are sorted by strength.
    agreeing = np.sort(agreeing)
    strong = agreeing[: max(len(agreeing) // 2, min(len(agreeing), ASKED))]
    some = strong[:: max(len(strong) // ASKED, 1)][:ASKED]
    doubles: list[Array] = []
    for uv in keyframe.uv[some]:
        doubles.append(_doubles(image, uv))
        repeating = sum(len(places) > 0 for places in doubles)
        if len(doubles) >= SURE_AFTER and repeating < REPEATING_SHARE * len(doubles):
            return NO_PERIODS
    if len(some) < SURE_AFTER:
        return NO_PERIODS
    index = np.repeat(some, [len(places) for places in doubles])
    vectors = _vectors(keyframe, index, np.concatenate(doubles), camera)
    return _most_common(vectors, SAME_SHARE * len(some))


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
    R_ck_ck1, p_ck_ck1 = T_ck_ck1[:3, :3], T_ck_ck1[:3, 3]
    motions = [se3(R_ck_ck1, p_ck_ck1 + vector) for vector in (*period, *-period)]
    known = np.flatnonzero(first.with_depth)
    some = known[:: max(len(known) // COMPARED, 1)][:COMPARED]
    images = shrunk(first.left, 0.5), shrunk(second.left, 0.5)

    def seen_along(motion: Array) -> tuple[Mask, Mask]:
        """(n,) which points look the same where a motion takes them; which it keeps in view."""
        uv, in_view = taken_along(first, some, motion, camera)
        pairs = zip(first.uv[some], uv, in_view, strict=True)
        alike = [shown and _likeness(*images, here, there) > ALIKE for here, there, shown in pairs]
        return np.array(alike, dtype=bool), in_view

    alike, _ = seen_along(T_ck_ck1)
    found = []
    for motion in motions:
        alike_there, in_view = seen_along(motion)
        if (alike_there & in_view).sum() >= RIVAL_SHARE * (alike & in_view).sum():
            found.append(motion)
    return found


def _likeness(image: Image, other: Image, uv: Array, uv_other: Array) -> float:
    """Largest normalized correlation of the patch at `uv` with those near `uv_other`."""
    patch, around = _crop(image, uv, HALF_PATCH), _crop(other, uv_other, HALF_PATCH + SLACK)
    if min(around.shape) < 2 * HALF_PATCH + 1 or patch.shape != (2 * HALF_PATCH + 1,) * 2:
        return 0.0
    return float(cv2.matchTemplate(around, patch, cv2.TM_CCOEFF_NORMED).max())


def _half_pixel(uv: Array) -> tuple[int, int]:
    """The pixel of the image at half size that a point lies in."""
    u, v = uv.tolist()
    return round((u - 0.5) / 2.0), round((v - 0.5) / 2.0)


def _crop(image: Image, uv: Array, reach: int) -> Image:
    """Part of an image at half size around a point, cut at the borders."""
    u, v = _half_pixel(uv)
    return image[max(v - reach, 0) : v + reach + 1, max(u - reach, 0) : u + reach + 1]


def _doubles(image: Image, uv: Array) -> Array:
    """(k, 2) the nearest places that look like the one at `uv`, relative to it [px]."""
    patch, around = _crop(image, uv, HALF_PATCH), _crop(image, uv, REACH + HALF_PATCH)
    if patch.shape != (2 * HALF_PATCH + 1, 2 * HALF_PATCH + 1) or patch.min() == patch.max():
        return np.empty((0, 2))
    score = cv2.matchTemplate(around, patch, cv2.TM_CCOEFF_NORMED)
    peaks = cv2.dilate(score, np.ones((2 * NEAR + 1, 2 * NEAR + 1), np.uint8))
    rows, columns = np.nonzero((score >= peaks) & (score > ALIKE))
    # Where the patch itself is in `score`.
    own = np.minimum(np.array(_half_pixel(uv)) - HALF_PATCH, REACH)
    offsets = np.column_stack([columns, rows]) - own
    distance = np.linalg.norm(offsets, axis=1)
    order = np.argsort(distance, kind="stable")
    order = order[distance[order] > NEAR]
    return 2.0 * offsets[order[:PLACES]].astype(np.float64)


def _vectors(keyframe: Keyframe, index: Indices, offsets: Array, camera: PinholePair) -> Array:
    """(k, 3) from points to places that look like them [m], where those have a depth."""
    uv, disparity = keyframe.uv[index], keyframe.across[index, 0]
    places = uv + offsets
    across = follow(keyframe.left, keyframe.right, places, shifted(places, disparity))
    there = places[:, 0] - across.uv[:, 0]
    known = across.found & (there > MIN_DISPARITY)
    here = points(uv[known], disparity[known], camera)
    return np.asarray(points(places[known], there[known], camera) - here, np.float64)


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


@dataclass(frozen=True)
class Span:
    """Two keyframes, and the stereo pairs between them."""

    stamps_ns: tuple[int, int]
    first: Keyframe
    second: Keyframe
    between: Sequence[PreparedPair] = ()
    predicted: PredictedRotation | None = None
    """Predicted rotation with which it is measured; None without one."""

    @classmethod
    def over(cls, pairs: Sequence[PreparedPair]) -> "Span":
        """From the first of some pairs to the last."""
        first, *between, second = pairs
        stamps_ns = first.pair.stamp_ns, second.pair.stamp_ns
        return cls(stamps_ns, first.keyframe, second.keyframe, between)

    @property
    def unusable(self) -> str:
        """Reason why nothing is measured from these keyframes; empty where it can be."""
        return self.first.unusable or self.second.unusable

    def through(self, middles: Sequence[int]) -> list["Span"]:
        """Consecutive spans through some of the pairs between, by their index."""
        pairs = [self.between[k] for k in middles]
        stamps = [self.stamps_ns[0], *(one.pair.stamp_ns for one in pairs), self.stamps_ns[1]]
        keyframes = [self.first, *(one.keyframe for one in pairs), self.second]
        cuts = pairwise([-1, *middles, len(self.between)])
        between = [self.between[first + 1 : last] for first, last in cuts]
        ends = zip(pairwise(stamps), pairwise(keyframes), between, strict=True)
        return [Span(stamps_ns, *pair, inner) for stamps_ns, pair, inner in ends]


@dataclass(frozen=True)
class Candidate:
    """A motion that may be the camera's, with all points that agree with it."""

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
        pose = better(self.matched(span, self._guides(span)), pose)
        return (self.bridged(span, self.measured) if pose.reason else None) or pose

    def as_predicted(self, span: Span, is_part: bool = False) -> RelativePose:
        """Motion by the predicted rotation: directly; where that fails, as a chain; where it is in
        doubt, the best supported candidate. A part of a chain is short: its keyframes suffice."""
        if span.unusable:
            return unmeasured(span.stamps_ns, span.unusable)
        span = replace(span, predicted=self.predict(*span.stamps_ns))
        if span.predicted is None:
            return unmeasured(span.stamps_ns, "no rotation is predicted")
        direct = self.matched(span)
        repeated = NO_PERIODS if is_part else self.repeated(span, direct)
        if beyond_doubt(direct):
            # Most of what repeats is decided by the rest of the image, without those between.
            if len(repeated):
                direct = self.believed(span, [direct], [], repeated)
            if not direct.motions or not len(repeated):
                return direct
        elif direct.reason and span.between:
            chain = self.bridged(span, partial(self.as_predicted, is_part=True))
            if chain:
                return chain
        measured, parts = [direct], []
        if span.between and not is_part:
            if not beyond_doubt(direct):
                measured.append(self.matched(span, self._guides(span)))
            if len(repeated) or in_dispute(measured):
                every = range(len(span.between))
                parts = _all_measured(span, every, partial(self.as_predicted, is_part=True))
        return self.believed(span, measured, parts, repeated)

    def matched(self, span: Span, guides: Sequence[Guide] = ()) -> RelativePose:
        """Motion of matches found where the predicted rotation and the images between lead."""
        found = match_keyframes(span.first, guides, span.second, self.camera, span.predicted)
        return self._pose(span, found, self.model(found.features))

    def repeated(self, span: Span, pose: RelativePose) -> Array:
        """(m, 3) periods [m] of the surfaces whose points agree with a motion; none where the rest
        of the image contradicts every motion a period away."""
        period = periods(span.first, pose.points, self.camera)
        if len(period) and not rivals(span.first, span.second, pose.T_ck_ck1, period, self.camera):
            return period[:0]
        return period

    def bridged(self, span: Span, measure: Callable[[Span], RelativePose]) -> RelativePose | None:
        """Chain through the pair half way; None where a part of it cannot be measured."""
        parts = _all_measured(span, [len(span.between) // 2], measure) if span.between else []
        return chained(parts) if parts else None

    def believed(
        self,
        span: Span,
        measured: Sequence[RelativePose],
        parts: Sequence[RelativePose],
        repeated: Array,
    ) -> RelativePose:
        """The best supported of all candidates: the chain of the parts, everything that was
        measured, and motions a period away.

        Where points agree with none of them unless they are matched along it, nothing is known of
        the translation.
        """
        # From image to image points move least: a motion of parts is the last to be a period off.
        motions = [chained(parts).T_ck_ck1] if parts else []
        motions += [T for one in measured for T in motions_of(one)]
        candidates = self._candidates(span, motions)
        best = better(*measured)
        if not candidates:
            return best
        if len(repeated):
            around = leading(candidates).pose.T_ck_ck1
            away = rivals(span.first, span.second, around, repeated, self.camera)
            candidates = self._candidates(span, away, candidates)
        pose = most_supported(candidates, best)
        if not best.scattered or (parts and not any(part.scattered for part in parts)):
            return pose
        few = replace(pose, matches=best.matches, inliers=best.inliers)
        return of_unknown_translation(few, span.predicted)

    def _candidates(
        self, span: Span, motions: Sequence[Array], known: Sequence[Candidate] = ()
    ) -> list[Candidate]:
        """Candidates that are known, and one of each motion that is not yet among them and that
        points matched along it agree with."""
        candidates = list(known)
        for T_ck_ck1 in motions:
            if any(_same_start(T_ck_ck1, one.pose.T_ck_ck1) for one in candidates):
                continue
            found, in_view = match_along(span.first, span.second, T_ck_ck1, self.camera)
            covs = self.model(found.features)
            pose = self._pose(span, found, covs)
            if pose.reason:
                continue
            chi2 = residual_chi2(pose.T_ck_ck1, found.matches, covs, self.camera)
            supporters = np.zeros(len(span.first.uv), dtype=bool)
            supporters[found.points[chi2 < INLIER_CHI2]] = True
            candidates.append(Candidate(pose, supporters, in_view))
        return candidates

    def _pose(self, span: Span, found: KeyframeMatches, covs: Array) -> RelativePose:
        return measure_relative_pose(
            span.stamps_ns, found, covs, self.camera, self.calibration, self.scale_by_residuals,
            span.predicted,
        )  # fmt: skip

    def _guides(self, span: Span) -> list[Guide]:
        """Images between that guide the search; a dark one would lead nowhere."""
        guides = []
        for one in span.between:
            if one.leading_image is not None:
                ends = span.stamps_ns[0], one.pair.stamp_ns
                rotation = self.predict(*ends) if span.predicted else None
                guides.append(Guide(one.leading_image, homography(rotation, self.camera)))
        return guides


def _all_measured(
    span: Span, middles: Sequence[int], measure: Callable[[Span], RelativePose]
) -> list[RelativePose]:
    """Motions through some of the pairs between; none where one of them cannot be measured."""
    parts = []
    for part in span.through(middles):
        parts.append(measure(part))
        if parts[-1].reason:
            return []
    return parts


def beyond_doubt(pose: RelativePose) -> bool:
    """So many matches agree on one motion that no image between is needed; others that support a
    second one are too few for like support then."""
    return not pose.reason and pose.inliers >= max(CERTAIN_INLIERS, CERTAIN_SHARE * pose.matches)


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
        counts = one.share_against(best) >= LIKE_SHARE or one.alone(best) >= MIN_MATCHES
        if counts and all(differ(one.pose, other.pose) for other in [best, *others]):
            others.append(one)
    if not others:
        return replace(pose, cov_T_ck_ck1=symmetrize(pose.cov_T_ck_ck1), motions=())
    cov = pose.cov_T_ck_ck1
    shares = [one.share_against(best) for one in others]
    for one, share in zip(others, shares, strict=True):
        if share >= LIKE_SHARE:
            away = difference(one.pose, pose)
            cov = cov + share * np.outer(away, away)
    odds = np.array([1.0, *(share / (1.0 - share) for share in shares)])
    motions = tuple(
        PossibleMotion(one.T_ck_ck1, one.cov_T_ck_ck1, float(probability))
        for one, probability in zip(
            [pose, *(first_motion(one.pose) for one in others)], odds / odds.sum(), strict=True
        )
    )
    return replace(pose, cov_T_ck_ck1=symmetrize(cov), motions=motions)


def _same_start(T_ck_ck1: Array, other: Array) -> bool:
    away = se3_log(np.ascontiguousarray(T_ck_ck1 @ se3_inv(other)))
    return bool(
        np.linalg.norm(away[:3]) < SAME_START[0] and np.linalg.norm(away[3:]) < SAME_START[1]
    )
