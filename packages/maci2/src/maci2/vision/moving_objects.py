"""Moving objects found by a second look at consecutive relative poses.

A moving object that has most of the matches yields a motion of its own, sharply. What predicted
rotations err by is shared by all of them: the bias of a gyroscope is the same for seconds, so
whatever rotations the camera really made imply one bias, and a moving object implies another one
every time. The largest set of relative poses that agree on the shared errors is found from single
poses, and believed only where it explains the rotations far better than a motion of its own for
each of them, and no other set does so nearly as well.

With that known, matches whose rotation contradicts the sharpened prediction cannot be the camera's,
however many they are. The pose is then measured anew with the sharper prediction and without the
points that were seen to move. What moved is expected to go on: as long as most points that agree on
a motion lie on it, nothing is known of the camera's translation unless others support it.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from maci2.geometry import so3_exp, so3_log
from maci2.geometry.gaussian import chi2_quantile, nees, symmetrize
from maci2.types import Array, Mask
from maci2.vision.hypotheses import CERTAIN_INLIERS, MotionEstimator, Span, beyond_doubt
from maci2.vision.keyframe import Pair, PreparedPair
from maci2.vision.rectify import Rectification
from maci2.vision.relative_pose import (
    BEYOND_DOUBT,
    FEWEST,
    RelativePose,
    of_unknown_translation,
    unmeasured,
)
from maci2.vision.relative_poses import AGREEMENT_CHI2, SURE_CHI2, PredictedRotation

HISTORY = 50
"""Latest relative poses that are remembered: a bias hardly wanders for so long."""

OBJECT_STD = 0.02
"""[rad] Spread, per axis, of the rotation of a moving object against the camera's."""

EVIDENCE = 25.0
"""Natural logarithm of the odds above which shared errors are believed: four sharp poses that
agree."""

AHEAD_OF_OTHERS = 4.0
"""Least evidence, in multiples of that of any set of the other poses."""

MEDIAN_CHI2 = chi2_quantile(3, 0.5)
"""Median of chi-square with 3 degrees of freedom: of those that agree the mean would be too small,
since what scatters more does not agree."""

NOT_FAR_CHI2 = 4.0 * AGREEMENT_CHI2
"""Beyond this a rotation is no camera's that scatters more than its covariance states."""

SEEDS, MAX_ROUNDS = 12, 8


class Rotations(NamedTuple):
    """Differences of measured and predicted rotations of n relative poses."""

    away: Array
    """(n, 3) left difference of measured and predicted rotation [rad]."""

    by_shared: Array
    """(n, 3, m) its derivative by shared errors."""

    cov: Array
    """(n, 3, 3) covariance of the other errors."""

    def take(self, which: Mask) -> "Rotations":
        return Rotations(*(column[which] for column in self))


@dataclass(frozen=True)
class SharedErrors:
    """The errors that a set of relative poses agrees on, in units of their standard deviations."""

    mean: Array
    cov: Array
    agreeing: Mask
    """(n,) mask of the relative poses that agree."""

    evidence: float
    """Logarithm of the odds for errors that these share, against a motion of its own for each."""

    noise: float
    """Factor on all covariances: above 1 where rotations scatter by more than they state."""


class RotationConsensus:
    """Sharpens predicted rotations by the latest relative poses."""

    def __init__(self) -> None:
        self._history: deque[tuple[Array, Array, Array]] = deque(maxlen=HISTORY)
        self.shared: SharedErrors | None = None
        """Shared errors that are believed; None where none are."""

    def add(self, predicted: PredictedRotation, R_ck_ck1: Array, cov: Array) -> None:
        """Add a measured rotation with its covariance (3, 3), left. It must have been measured
        without the sharpened prediction, which would confirm itself."""
        away = so3_log(np.ascontiguousarray(R_ck_ck1 @ predicted.R_ck_ck1.T))
        own = symmetrize(cov + predicted.own_cov)
        self._history.append((away, predicted.by_shared, own))
        rotations = Rotations(*(np.array(column) for column in zip(*self._history, strict=True)))
        self.shared = believed(rotations, None if self.shared is None else self.shared.mean)

    def sharpened(self, predicted: PredictedRotation) -> PredictedRotation | None:
        """The prediction corrected for the shared errors; None where they are not known."""
        if self.shared is None:
            return None
        by_shared = predicted.by_shared
        R_ck_ck1 = so3_exp(by_shared @ self.shared.mean) @ predicted.R_ck_ck1
        cov = predicted.own_cov + by_shared @ self.shared.cov @ by_shared.T
        return PredictedRotation(R_ck_ck1, symmetrize(self.shared.noise * cov))


def believed(rotations: Rotations, before: Array | None = None) -> SharedErrors | None:
    """The shared errors that most rotations agree on; None where another set may be the camera's.

    `before` are the shared errors believed without the latest rotation, if any were.
    """
    most = _most_probable(rotations, before)
    if most.evidence < EVIDENCE:
        return None
    others = ~most.agreeing
    if others.any():
        rest = _most_probable(rotations.take(others))
        if AHEAD_OF_OTHERS * rest.evidence > most.evidence:
            return None
    return most


def _most_probable(rotations: Rotations, before: Array | None = None) -> SharedErrors:
    """The set with most evidence, starting from the former shared errors and from single poses."""
    if before is not None:
        kept = _settled(rotations, before, np.zeros((len(before), len(before))))
        if 2 * int(kept.agreeing.sum()) > len(kept.agreeing):
            return kept
    sharpest = np.argsort(np.linalg.det(rotations.cov), kind="stable")[:SEEDS]
    starts = [_solved(rotations, np.arange(len(rotations.away)) == k) for k in sharpest]
    sets = [_settled(rotations, *start) for start in starts]
    if before is not None:
        sets.append(kept)
    return max(sets, key=lambda errors: errors.evidence)


def _settled(rotations: Rotations, mean: Array, cov: Array) -> SharedErrors:
    """Solve with the rotations that agree until these stay the same."""
    agreeing = np.zeros(len(rotations.away), dtype=bool)
    for _ in range(MAX_ROUNDS):
        spread = rotations.cov + rotations.by_shared @ cov @ np.swapaxes(rotations.by_shared, 1, 2)
        agree = nees(rotations.away - rotations.by_shared @ mean, spread) < SURE_CHI2
        if (agree == agreeing).all():
            break
        agreeing = agree
        mean, cov = _solved(rotations, agreeing)
    chi2 = nees(rotations.away - rotations.by_shared @ mean, rotations.cov)
    noise = float(np.median(chi2[chi2 < NOT_FAR_CHI2])) if agreeing.any() else 0.0
    noise = max(1.0, noise / MEDIAN_CHI2)
    return SharedErrors(mean, cov, agreeing, _evidence(rotations.take(agreeing), mean, cov), noise)


def _solved(rotations: Rotations, which: Mask) -> tuple[Array, Array]:
    """Shared errors with covariance from some rotations; the prior is the identity."""
    J, cov = rotations.by_shared[which], rotations.cov[which]
    JtW = np.swapaxes(np.linalg.solve(cov, J), 1, 2)
    H = np.eye(J.shape[2]) + (JtW @ J).sum(axis=0)
    P = symmetrize(np.linalg.inv(H))
    return P @ np.einsum("nij,nj->i", JtW, rotations.away[which]), P


def _evidence(rotations: Rotations, mean: Array, cov: Array) -> float:
    """Logarithm of the odds for shared errors against objects that each move by themselves."""
    J = rotations.by_shared
    own = rotations.cov + J @ np.swapaxes(J, 1, 2) + OBJECT_STD**2 * np.eye(3)
    shared = _log_density(rotations.away - rotations.by_shared @ mean, rotations.cov)
    # The density of a joint Gaussian at its maximum, times the volume of what is left unknown.
    known = 0.5 * float(np.linalg.slogdet(cov)[1]) - 0.5 * float(mean @ mean)
    return float((shared - _log_density(rotations.away, own)).sum()) + known


def _log_density(errors: Array, covs: Array) -> Array:
    """(n,) logarithm of Gaussian densities, but for a constant."""
    return np.asarray(-0.5 * (nees(errors, covs) + np.linalg.slogdet(covs)[1]))


NEAR_PX = 20.0
"""Points nearer than this to one that moved lie on the same object: the side of the cells that
points are chosen from."""

SAME_PX = 0.5
"""Points nearer to each other than this are one."""

LASTING = 3
"""Relative poses for which an object is expected to go on moving after it was last exposed."""

CONTRADICTED = (
    "matches tell a rotation that contradicts the predicted one: they lie on a thing that moves by "
    "itself"
)


class SecondLook:
    """Judges consecutive relative poses in the order of time, each by those before it."""

    def __init__(self, estimator: MotionEstimator, rectification: Rectification) -> None:
        self._estimator = estimator
        self._rectification = rectification
        self._consensus = RotationConsensus()
        self._forget()

    def _forget(self) -> None:
        self._moving = np.empty((0, 2))  # [px] where, at the latest keyframe
        self._moving_ns = 0
        self._lasts = 0

    def learn(self, pose: RelativePose) -> None:
        """Learn the shared errors from a pose as it was measured first."""
        if pose.reason or pose.scattered:
            return
        predicted = self._estimator.predict(*pose.stamps_ns)
        if predicted is not None:
            self._consensus.add(predicted, pose.T_ck_ck1[:3, :3], pose.cov_T_ck_ck1[3:, 3:])

    def judged(self, pose: RelativePose, pairs: Sequence[Pair]) -> RelativePose:
        """The pose as it was measured first, or anew from its keyframes and the pairs between."""
        sharp = None if pose.reason else self._sharpened(*pose.stamps_ns)
        moving = self._moving if self._moving_ns == pose.stamps_ns[0] else self._moving[:0]
        exposed = sharp is not None and not _agrees(pose, sharp, AGREEMENT_CHI2)
        if (exposed or len(moving)) and not (len(pose.ends) or pose.reason):
            # Read from a file: its matches are needed.
            pose = self._estimator.measured(self._span(pairs))
        # A pose that next to all matches agree with follows nothing.
        undisputed = pose.inliers >= max(CERTAIN_INLIERS, BEYOND_DOUBT * pose.matches)
        followed = follows(pose, moving) and not (undisputed and _is_sure(pose, sharp))
        if not (exposed or followed):
            self._forget()
            return pose
        if followed:
            moving = np.vstack([moving, pose.ends[pose.agreeing, :2]])
        anew = self._anew(self._span(pairs), moving, sharp)
        found = _is_sure(anew, sharp) and (beyond_doubt(anew) or not followed)
        self._lasts = LASTING if exposed else self._lasts - 1
        self._moving, self._moving_ns = (
            self._moved(pose, anew if found else None),
            pose.stamps_ns[1],
        )
        if found:
            return anew
        if exposed:
            return unmeasured(pose.stamps_ns, CONTRADICTED, pose.matches)
        return of_unknown_translation(pose, sharp or self._estimator.predict(*pose.stamps_ns))

    def _moved(self, pose: RelativePose, anew: RelativePose | None) -> Array:
        """(m, 2) places of points that agree with a pose that is not the camera's motion, without
        those that agree with its motion, too."""
        if self._lasts <= 0:
            return np.empty((0, 2))
        if anew is None:
            return pose.ends[pose.agreeing, 2:]
        stays = near(pose.ends[:, :2], anew.ends[anew.agreeing, :2], SAME_PX)
        return pose.ends[pose.agreeing & ~stays, 2:]

    def _sharpened(self, start_ns: int, end_ns: int) -> PredictedRotation | None:
        """The prediction corrected for its shared errors; None where they are not known."""
        predicted = self._estimator.predict(start_ns, end_ns)
        return None if predicted is None else self._consensus.sharpened(predicted)

    def _span(self, pairs: Sequence[Pair]) -> Span:
        return Span.over([PreparedPair(pair, self._rectification) for pair in pairs])

    def _anew(self, span: Span, moving: Array, sharp: PredictedRotation | None) -> RelativePose:
        """The pose by sharpened predictions, without points on moving objects; where that
        contradicts them, too, as a chain through the pairs between."""
        estimator = replace(self._estimator, predict=self._sharpened)
        span = replace(span, first=span.first.with_points(~near(span.first.uv, moving)))
        anew = estimator.as_predicted(span)
        if not len(moving) and not _is_sure(anew, sharp):
            anew = estimator.bridged(span, lambda half: estimator.as_predicted(half, True)) or anew
        return anew


def near(uv: Array, others: Array, reach_px: float = NEAR_PX) -> Mask:
    """(n,) mask of the points (n, 2) that lie near one of the others (m, 2)."""
    if len(others) == 0:
        return np.zeros(len(uv), dtype=bool)
    away = np.linalg.norm(uv[:, None] - others, axis=2)
    return np.asarray(away.min(axis=1) < reach_px)


def follows(pose: RelativePose, moving: Array) -> bool:
    """Most of the matches on a moving object agree with the pose: with the camera's motion they
    would not."""
    on_it = near(pose.ends[:, :2], moving)
    return int(on_it.sum()) >= FEWEST and 2 * int((on_it & pose.agreeing).sum()) > int(on_it.sum())


def _agrees(pose: RelativePose, predicted: PredictedRotation, limit: float) -> bool:
    return predicted.agrees(pose.T_ck_ck1[:3, :3], pose.cov_T_ck_ck1[3:, 3:], limit)


def _is_sure(pose: RelativePose, predicted: PredictedRotation | None) -> bool:
    return not pose.reason and predicted is not None and _agrees(pose, predicted, SURE_CHI2)
