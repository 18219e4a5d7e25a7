"""Support that the points of two keyframes give to each of several motions.

A wall that repeats itself agrees with many motions, a period apart, and by chance most of it may be
matched to a wrong one; what does not repeat agrees with one motion. So each is asked anew: points
are matched where it takes them, and of two motions that one is believed which points support that
do not support the other. Where there are none, either may be the camera's.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from maci2.gaussian import symmetrize
from maci2.types import NS, Array
from maci2.vision.competing_poses import agreed, differ, difference, first_motion
from maci2.vision.outlier_rejection import LIKE_SHARE, MIN_MATCHES
from maci2.vision.relative_pose import RelativePose, contamination
from maci2.vision.relative_poses import MAX_SPEED, PossibleMotion

UNSEEN, LOST_SHARE = 0.5 * MIN_MATCHES, 0.05
"""Points granted to each motion beside those that support it alone, and the share of all points
that is: as few as these are lost in matching and prove nothing."""

NEW_DIRECTION = 0.3
"""Sine of the angle from which on a difference of two motions points in a direction of its own."""


@dataclass(frozen=True)
class SupportedMotion:
    """A motion with all points that agree with it."""

    pose: RelativePose
    """Measured from matches that lie nearest to where the motion takes points."""

    supporters: NDArray[np.bool_]
    """(n,) which points of the first keyframe agree with it."""

    in_view: NDArray[np.bool_]
    """(n,) which points it keeps in the images: only these can contradict it."""

    @property
    def convincing(self) -> bool:
        """Whether most of the points that could contradict it agree with it."""
        return 2 * int(self.supporters.sum()) > int(self.in_view.sum())

    def alone(self, other: "SupportedMotion") -> int:
        """How many points support this motion and contradict the other."""
        return int((self.supporters & ~other.supporters & other.in_view).sum())

    def shares_points(self, other: "SupportedMotion") -> bool:
        """Whether most of its points agree with the other motion, too."""
        return 2 * int((self.supporters & other.supporters).sum()) > int(self.supporters.sum())

    def share_against(self, other: "SupportedMotion") -> float:
        """Points that support this motion alone over those that support one of the two."""
        lost = UNSEEN + LOST_SHARE * float(max(self.supporters.sum(), other.supporters.sum()))
        mine, others = self.alone(other) + lost, other.alone(self) + lost
        return mine / (mine + others)


def contradicted(pose: RelativePose, in_view: int, supporters: int) -> RelativePose:
    """A motion that points were asked along, of which so many were in view and so many agree.

    Points that lie elsewhere are mostly lost on the way, instead of found there and rejected: the
    covariance of those found would not know of them.
    """
    scale = contamination(in_view, supporters) / contamination(pose.matches, pose.inliers)
    return replace(pose, cov_T_ck_ck1=max(scale, 1.0) * pose.cov_T_ck_ck1)


def leading(motions: Sequence[SupportedMotion]) -> SupportedMotion:
    """The motion that most points support; the first where it has like support."""
    most = max(motions, key=lambda one: int(one.supporters.sum()))
    return motions[0] if motions[0].share_against(most) >= LIKE_SHARE else most


def motions_of(pose: RelativePose) -> list[Array]:
    """Every T_ck_ck1 that a measurement tells; none where nothing was measured."""
    if pose.reason:
        return []
    return [pose.T_ck_ck1, *(one.T_ck_ck1 for one in pose.motions[1:])]


def most_supported(
    motions: Sequence[SupportedMotion], measured: RelativePose, repeating: bool
) -> RelativePose:
    """The leading motion, with others as alternatives where fifteen points support them alone, and
    a covariance that covers those of like support.

    Where what is seen is `repeating`, nothing is known of the motion along its periods then: what
    lies one of them away is as probable two of them away. Where its periods are not known but the
    same points agree with both motions, nothing is known of the translation. A motion that half of
    the matches `measured` stays as it is where it leads: points that are asked along it are found
    nearer to it than they are.
    """
    best = leading(motions)
    pose = best.pose if best.pose.scattered else first_motion(best.pose)
    if agreed(measured) and not differ([pose], measured):
        pose = first_motion(measured)
    rivals = _distinct(
        sorted(
            (one for one in motions if differ([one.pose], best.pose) and _counts(one, best)),
            key=lambda one: -one.share_against(best),
        )
    )
    if not rivals:
        return replace(pose, motions=())
    cov = pose.cov_T_ck_ck1
    reach = MAX_SPEED * (pose.stamps_ns[1] - pose.stamps_ns[0]) / NS
    like = [one for one in rivals if one.share_against(best) >= LIKE_SHARE]
    away = [difference(one.pose, pose) for one in like]
    if repeating:
        cov = cov + reach**2 * _along_periods(away)
    elif any(one.shares_points(best) for one in like):
        cov = cov + reach**2 * np.diag([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    else:
        shares = (one.share_against(best) for one in like)
        cov = cov + sum(p * np.outer(d, d) for p, d in zip(shares, away, strict=True))
    return replace(pose, cov_T_ck_ck1=symmetrize(cov), motions=_possible(pose, best, rivals))


def with_slip(
    found: RelativePose, told: Sequence[RelativePose], supported: Sequence[SupportedMotion]
) -> RelativePose:
    """The motion found; where none that is supported is the nearest one told, with what it differs
    by from that as noise: points that were asked along a motion told another one."""
    motions = [first_motion(one) for one in told if not one.reason]
    motions += [
        replace(one, T_ck_ck1=other.T_ck_ck1, cov_T_ck_ck1=other.cov_T_ck_ck1, motions=())
        for one in told
        for other in one.motions[1:]
    ]
    if not motions:
        return found
    nearest = min(motions, key=lambda one: float(np.linalg.norm(difference(one, found)[:3])))
    if not all(differ([one.pose], nearest) for one in supported):
        return found
    away = difference(nearest, found)
    cov = symmetrize(found.cov_T_ck_ck1 + 0.5 * np.outer(away, away))
    return replace(found, cov_T_ck_ck1=cov)


def _counts(one: SupportedMotion, best: SupportedMotion) -> bool:
    return one.share_against(best) >= LIKE_SHARE or one.alone(best) >= MIN_MATCHES


def _distinct(motions: Sequence[SupportedMotion]) -> list[SupportedMotion]:
    """Each motion once."""
    kept: list[SupportedMotion] = []
    for one in motions:
        if all(differ([one.pose], other.pose) for other in kept):
            kept.append(one)
    return kept


def _possible(
    pose: RelativePose, best: SupportedMotion, rivals: Sequence[SupportedMotion]
) -> tuple[PossibleMotion, ...]:
    odds = [1.0] + [one.share_against(best) / (1.0 - one.share_against(best)) for one in rivals]
    poses = [pose] + [first_motion(one.pose) for one in rivals]
    return tuple(
        PossibleMotion(one.T_ck_ck1, one.cov_T_ck_ck1, odd / sum(odds))
        for one, odd in zip(poses, odds, strict=True)
    )


def _along_periods(differences: Sequence[Array]) -> Array:
    """(6, 6) covariance of a motion that is off by a metre along the differences [rho, phi]; what
    of them does not grow in proportion, since a wall looks another way from elsewhere, as noise."""
    directions = _directions(differences)
    cov = np.zeros((6, 6))
    for one in directions:
        cov += np.outer(one, one)
    for away in differences:
        rest = away / np.linalg.norm(away[:3])
        for one in directions:
            rest = rest - (rest[:3] @ one[:3]) * one
        cov += np.outer(rest, rest) / len(differences)
    return cov


def _directions(differences: Sequence[Array]) -> list[Array]:
    """Differences [rho, phi] as directions: rho of unit length and at right angles."""
    found: list[Array] = []
    for away in differences:
        rest = away / np.linalg.norm(away[:3])
        for one in found:
            rest = rest - (rest[:3] @ one[:3]) * one
        length = float(np.linalg.norm(rest[:3]))
        if length > NEW_DIRECTION:
            found.append(rest / length)
    return found
