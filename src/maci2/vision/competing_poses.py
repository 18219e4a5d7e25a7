"""Several measurements of one relative pose, and which of them is handed on."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from maci2.gaussian import chi2_quantile, nees, symmetrize
from maci2.lie import se3_inv, se3_log
from maci2.types import Array
from maci2.vision.relative_pose import MIN_INLIER_SHARE, RelativePose, chained
from maci2.vision.relative_poses import PossibleMotion

CERTAIN_INLIERS, CERTAIN_SHARE = 60, 0.7
"""Matches that agree on one motion, and their share, with which no image between is looked at."""

DIFFERENT = chi2_quantile(6, 0.999)
"""Squared Mahalanobis norm of a difference from which on two relative poses are two motions: 99.9 %
of chi-square with 6 degrees of freedom."""


def in_dispute(told: Sequence[RelativePose]) -> bool:
    """Whether measurements of one relative pose contradict each other, or half of the matches of
    the better one: then points may have been lost or led astray."""
    best = better(*told)
    others = [one for one in told if one is not best and not one.reason]
    return not agreed(best) or any(differ([one], best) for one in others)


def agreed(pose: RelativePose) -> bool:
    """Whether half of the matches agree on the motion."""
    return not pose.reason and pose.inliers >= MIN_INLIER_SHARE * pose.matches


def better(*poses: RelativePose) -> RelativePose:
    """The one that was measured, with most matches that agree."""
    return max(poses, key=lambda pose: (not pose.reason, pose.inliers))


def differ(parts: Sequence[RelativePose], whole: RelativePose) -> bool:
    """Whether parts of a motion make another one than was measured as a whole; of each that is in
    doubt its first motion counts."""
    if whole.reason or whole.scattered:
        return True
    one, other = chained([first_motion(part) for part in parts]), first_motion(whole)
    return float(nees(difference(one, other), one.cov_T_ck_ck1 + other.cov_T_ck_ck1)) > DIFFERENT


def either(parts: Sequence[RelativePose], whole: RelativePose) -> RelativePose:
    """The motion of the parts, with the other as an alternative that its covariance covers."""
    pose = chained(parts)
    if whole.reason or whole.scattered:
        return pose
    one, other = chained([first_motion(part) for part in parts]), first_motion(whole)
    away = difference(other, one)
    motions = tuple(PossibleMotion(each.T_ck_ck1, each.cov_T_ck_ck1, 0.5) for each in (one, other))
    cov = symmetrize(pose.cov_T_ck_ck1 + 0.5 * np.outer(away, away))
    return replace(pose, cov_T_ck_ck1=cov, motions=motions)


def difference(one: RelativePose, other: RelativePose) -> Array:
    """(6,) left difference of two motions, [rho, phi]."""
    return se3_log(np.ascontiguousarray(one.T_ck_ck1 @ se3_inv(other.T_ck_ck1)))


def first_motion(pose: RelativePose) -> RelativePose:
    """The pose as it is if its first motion is the camera's."""
    return replace(pose, cov_T_ck_ck1=pose.motions[0].cov_T_ck_ck1) if pose.motions else pose


def beyond_doubt(pose: RelativePose) -> bool:
    """Whether so many matches agree on one motion that no image between need be looked at; others
    that tell a second one have too few for like support then."""
    return (
        not pose.reason
        and pose.inliers >= CERTAIN_INLIERS
        and pose.inliers >= CERTAIN_SHARE * pose.matches
    )
