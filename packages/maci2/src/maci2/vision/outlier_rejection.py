"""Motion that most matches agree on, computed from those that agree.

Moving objects give many good matches of a motion that is not the camera's, and a robust loss alone
lets them pull, even away from the truth. So motions are computed from three matches at a time, too,
among all matches and among those that the first answer leaves over. The answer with the smallest
misfit counts, and only matches that fit it are used.
"""

from dataclasses import dataclass, replace

import cv2
import numpy as np

from maci2.geometry import se3, se3_inv
from maci2.geometry.gaussian import symmetrize
from maci2.types import Array, Mask
from maci2.vision.predicted_rotation import PredictedRotation
from maci2.vision.two_frame import (
    INLIER_CHI2,
    ROBUST_FACTOR,
    Matches,
    PinholePair,
    TwoFrame,
    points,
    residual_chi2,
    residual_terms,
    two_frame_pose,
)

BEYOND_DOUBT = 0.9
"""Share of matches with one motion above which no other motion is looked for."""

REACH_PX = 3.0
"""How near a point of frame k must come to its match in frame k+1 to count for a motion tried."""

TRIALS, CONFIDENCE = 200, 0.999
FEWEST = 6
"""Matches from which a pose is found."""

MIN_MATCHES = 15
"""Matches that must agree before a motion is believed to be one."""

MIN_WITNESSED_SHARE = 0.1
"""Least share of the matches that must agree on a motion whose rotation is the predicted one."""

LIKE_SHARE = 0.375
"""Matches of a second motion over those of both from which on it has like support, 0.6 times as
many as the first."""

MAX_ROUNDS = 5
"""Rounds of outlier rejection: what fits changes with the pose."""


def consensus_pose(
    matches: Matches,
    covs: Array,
    camera: PinholePair,
    predicted: PredictedRotation | None = None,
) -> TwoFrame:
    """Pose by Eq. 5 of the largest set of matches that fit one motion; `covs` as in Eq. 5.

    Where sets of several motions are found, those that agree with the predicted rotation come
    first. `weights` are zero for matches outside that set.
    """
    everything = np.ones(len(matches), dtype=bool)
    start = np.eye(4) if predicted is None else se3(predicted.R_ck_ck1, np.zeros(3))
    found = _settled(matches, covs, camera, everything, start)
    if found.inliers >= BEYOND_DOUBT * len(matches) and (
        predicted is None or agrees(found, predicted)
    ):
        return found
    answers = [found]
    for asked in (everything, found.chi2 >= INLIER_CHI2):
        common = most_common_motion(matches, camera, asked)
        if common is not None:
            T_ck_ck1, carried = common
            answers.append(_settled(matches, covs, camera, carried, T_ck_ck1))
    if predicted is not None:
        agreeing = [one for one in answers if agrees(one, predicted)]
        answers = agreeing or answers
    return min(answers, key=_misfit)


def agrees(pose: TwoFrame, predicted: PredictedRotation) -> bool:
    """Whether the rotation of a pose may be the predicted one."""
    return pose.converged and predicted.agrees(pose.T_ck_ck1[:3, :3], pose.cov[3:, 3:])


@dataclass(frozen=True)
class SecondMotion:
    """Another motion that matches left over agree on."""

    pose: TwoFrame
    share: float
    """Its matches over those of both motions."""


def second_motion(
    matches: Matches,
    covs: Array,
    camera: PinholePair,
    pose: TwoFrame,
    predicted: PredictedRotation | None = None,
) -> SecondMotion | None:
    """Another motion that so many other matches agree on that it may be the camera's; None where
    there is none.

    A wall that was matched a period off, or a thing as large as the world, tells such a one. With
    the predicted rotation it needs no more matches than any motion; without, like support.
    """
    fewest = LIKE_SHARE / (1.0 - LIKE_SHARE) * pose.inliers
    if predicted is not None:
        fewest = min(fewest, max(MIN_WITNESSED_SHARE * len(matches), MIN_MATCHES))
    fewest = max(fewest, FEWEST)
    left_over = pose.chi2 >= INLIER_CHI2
    if left_over.sum() < fewest:
        return None
    common = most_common_motion(matches, camera, left_over)
    if common is None:
        return None
    T_ck_ck1, carried = common
    second = _settled(matches, covs, camera, carried, T_ck_ck1)
    others = int(((second.chi2 < INLIER_CHI2) & left_over).sum())
    if not second.converged or others < fewest:
        return None
    if predicted is not None and not agrees(second, predicted):
        return None
    return SecondMotion(second, others / (others + pose.inliers))


def pose_of_others(
    matches: Matches, covs: Array, camera: PinholePair, pose: TwoFrame, part: Mask
) -> TwoFrame | None:
    """The pose without a part of the matches; None where the others are too few for one."""
    others = ~part
    if others.sum() < MIN_MATCHES:
        return None
    rest = matches.take(others)
    found = _settled(rest, covs[others], camera, np.ones(len(rest), dtype=bool), pose.T_ck_ck1)
    return found if found.converged and found.inliers >= MIN_MATCHES else None


def _misfit(pose: TwoFrame) -> float:
    """Misfit of all matches; for outliers it does not matter how far they are off."""
    return float(np.minimum(pose.chi2, INLIER_CHI2).sum())


def _settled(
    matches: Matches, covs: Array, camera: PinholePair, used: Mask, T_ck_ck1: Array
) -> TwoFrame:
    """Solve with some of the matches, then with those that fit, until these stay the same."""
    for _ in range(MAX_ROUNDS):
        pose = two_frame_pose(matches.take(used), covs[used], camera, T_ck_ck1)
        chi2, weights = np.empty(len(matches)), np.zeros(len(matches))
        chi2[used], weights[used] = pose.chi2, pose.weights
        T_ck_ck1 = pose.T_ck_ck1
        chi2[~used] = residual_chi2(T_ck_ck1, matches.take(~used), covs[~used], camera)
        fits = chi2 < INLIER_CHI2
        if (fits == used).all() or fits.sum() < FEWEST:
            break
        used = fits
    return replace(pose, weights=weights, chi2=chi2)


def most_common_motion(
    matches: Matches, camera: PinholePair, asked: Mask
) -> tuple[Array, Mask] | None:
    """T_ck_ck1 that carries most of the points asked onto their matches, rough, from three of them;
    and which matches these are.

    Reprojection, not distance, counts: depth is the worst known of all.
    """
    if asked.sum() < FEWEST:
        return None
    p0 = points(matches.uv0[asked], matches.disparity0[asked], camera)
    K = np.array(
        [[camera.focal, 0.0, camera.center[0]], [0.0, camera.focal, camera.center[1]], [0, 0, 1.0]]
    )
    # OpenCV draws its triples from a generator of its own with a fixed seed.
    found, rotation, translation, which = cv2.solvePnPRansac(
        p0, matches.uv1[asked], K, None, iterationsCount=TRIALS, reprojectionError=REACH_PX,
        confidence=CONFIDENCE, flags=cv2.SOLVEPNP_P3P,
    )  # fmt: skip
    if not found or not (np.isfinite(rotation).all() and np.isfinite(translation).all()):
        return None
    if len(which) < FEWEST:
        return None
    R_ck1_ck = np.asarray(cv2.Rodrigues(rotation)[0], np.float64)
    T_ck1_ck = se3(R_ck1_ck, np.asarray(translation, np.float64).ravel())
    carried = np.zeros(len(matches), dtype=bool)
    carried[np.flatnonzero(asked)[which]] = True
    return se3_inv(T_ck1_ck), carried


PART_RADIUS_PX = 90.0
"""Radius of the part of an image that may be one thing."""

LARGE_LEVERAGE = 2.0
"""Leverage from which on a pose hangs on a part: that of all matches together is 6, one for each
degree of freedom, and such a part has a fourteenth of an image that is covered evenly."""

MOVING = 0.1
"""Probability that such a part moves by itself, in rooms of which a quarter of the things do."""


def leverages(matches: Matches, covs: Array, camera: PinholePair, pose: TwoFrame) -> Array:
    """(n,) share of each match in what is known of a pose, 6 in all: trace(H^-1 H_n)."""
    _, cov_r, q = residual_terms(pose.T_ck_ck1, matches, covs, camera)
    J = np.zeros((len(q), 3, 6))
    J[:, range(3), range(3)] = -1.0
    J[:, 0, 4], J[:, 0, 5] = -q[:, 2], q[:, 1]
    J[:, 1, 3], J[:, 1, 5] = q[:, 2], -q[:, 0]
    J[:, 2, 3], J[:, 2, 4] = -q[:, 1], q[:, 0]
    explained = J @ (pose.cov / ROBUST_FACTOR) @ np.swapaxes(J, 1, 2)
    return pose.weights * np.trace(np.linalg.solve(cov_r, explained), axis1=1, axis2=2)


def influential_part(
    matches: Matches, covs: Array, camera: PinholePair, pose: TwoFrame
) -> Mask | None:
    """(n,) matches in the part of the image that a pose hangs on most; None where it hangs on
    none."""
    leverage = np.where(pose.chi2 < INLIER_CHI2, leverages(matches, covs, camera, pose), 0.0)
    u, v = matches.uv0.T
    near = (u[:, None] - u) ** 2 + (v[:, None] - v) ** 2 < PART_RADIUS_PX**2
    in_reach = near @ leverage
    center = int(np.argmax(in_reach))
    return near[center] if in_reach[center] > LARGE_LEVERAGE else None


def either_way(cov: Array, cov_without: Array, away: Array) -> Array:
    """(6, 6) covariance of a pose with one part, where the others alone tell another one that is
    `away` from it: that of a choice between the two."""
    return symmetrize((1.0 - MOVING) * cov + MOVING * (cov_without + np.outer(away, away)))
