"""Pose and covariance of one relative pose; never a confident answer from too little."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from maci2.geometry import se3, se3_adj, se3_inv, se3_log
from maci2.geometry.gaussian import symmetrize
from maci2.geometry.se3 import skew_stack
from maci2.types import NS, Array, Mask
from maci2.vision.covariance import CalibrationUncertainty, calibration_covariance
from maci2.vision.keyframe import KeyframeMatches, spread
from maci2.vision.relative_poses import (
    CameraFrame,
    Possible,
    PossibleMotion,
    PredictedRotation,
    RelativePoses,
    any_motion,
)
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
"""Share of matches with one motion above which no other motion is searched."""

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
    matches: Matches, covs: Array, camera: PinholePair, predicted: PredictedRotation | None = None
) -> TwoFrame:
    """Pose by Eq. 5 of the largest set of matches that fit one motion; `covs` as in Eq. 5.

    Moving objects have many good matches of another motion, and a robust loss alone lets them pull,
    even away from the truth. So motions are computed from three matches at a time, too, among all
    matches and among those that do not fit the first answer. The answer with the smallest misfit
    counts, and only matches that fit it are used: `weights` are zero for all others. Where sets of
    several motions are found, those that agree with the predicted rotation come first.
    """
    everything = np.ones(len(matches), dtype=bool)
    start = np.eye(4) if predicted is None else se3(predicted.R_ck_ck1, np.zeros(3))
    first = _settled(matches, covs, camera, everything, start)
    if first.inliers >= BEYOND_DOUBT * len(matches) and (
        predicted is None or agrees(first, predicted)
    ):
        return first
    answers = [first]
    for tried in (everything, first.chi2 >= INLIER_CHI2):
        common = most_common_motion(matches, camera, tried)
        if common is not None:
            T_ck_ck1, carried = common
            answers.append(_settled(matches, covs, camera, carried, T_ck_ck1))
    if predicted is not None:
        answers = [pose for pose in answers if agrees(pose, predicted)] or answers
    # For outliers it does not matter how far they are off.
    return min(answers, key=lambda pose: float(np.minimum(pose.chi2, INLIER_CHI2).sum()))


def agrees(pose: TwoFrame, predicted: PredictedRotation) -> bool:
    """Whether the rotation of a pose may be the predicted one."""
    return pose.converged and predicted.agrees(pose.T_ck_ck1[:3, :3], pose.cov[3:, 3:])


class SecondMotion(NamedTuple):
    """Another motion that outliers of the first one agree on."""

    pose: TwoFrame
    share: float
    """Its matches over those of both motions."""


def second_motion(
    pose: TwoFrame, predicted: PredictedRotation | None = None
) -> SecondMotion | None:
    """Another motion that so many other matches agree on that it may be the camera's; None where
    there is none.

    A wall that was matched a period off, or an object as large as the world, has such a motion.
    With the predicted rotation it needs no more matches than any motion; without, like support.
    """
    fewest = LIKE_SHARE / (1.0 - LIKE_SHARE) * pose.inliers
    if predicted is not None:
        fewest = min(fewest, max(MIN_WITNESSED_SHARE * len(pose.matches), MIN_MATCHES))
    fewest = max(fewest, FEWEST)
    outliers = pose.chi2 >= INLIER_CHI2
    if outliers.sum() < fewest:
        return None
    common = most_common_motion(pose.matches, pose.camera, outliers)
    if common is None:
        return None
    T_ck_ck1, carried = common
    second = _settled(pose.matches, pose.covs, pose.camera, carried, T_ck_ck1)
    others = int(((second.chi2 < INLIER_CHI2) & outliers).sum())
    if not second.converged or others < fewest:
        return None
    if predicted is not None and not agrees(second, predicted):
        return None
    return SecondMotion(second, others / (others + pose.inliers))


def pose_of_others(pose: TwoFrame, part: Mask) -> TwoFrame | None:
    """The pose without a part of the matches; None where the others are too few for one."""
    others = ~part
    if others.sum() < MIN_MATCHES:
        return None
    rest, everything = pose.matches.take(others), np.ones(int(others.sum()), dtype=bool)
    found = _settled(rest, pose.covs[others], pose.camera, everything, pose.T_ck_ck1)
    return found if found.converged and found.inliers >= MIN_MATCHES else None


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
    return replace(pose, weights=weights, chi2=chi2, matches=matches, covs=covs)


def most_common_motion(
    matches: Matches, camera: PinholePair, tried: Mask
) -> tuple[Array, Mask] | None:
    """T_ck_ck1 that carries most of the points tried onto their matches, rough, from three of them;
    and which matches these are.

    Reprojection, not distance, counts: depth is the worst known of all.
    """
    if tried.sum() < FEWEST:
        return None
    p0 = points(matches.uv0[tried], matches.disparity0[tried], camera)
    # OpenCV draws its triples from a generator of its own with a fixed seed.
    found, rotation, translation, which = cv2.solvePnPRansac(
        p0, matches.uv1[tried], camera.K, None, iterationsCount=TRIALS,
        reprojectionError=REACH_PX, confidence=CONFIDENCE, flags=cv2.SOLVEPNP_P3P,
    )  # fmt: skip
    if not found or not np.isfinite([rotation, translation]).all() or len(which) < FEWEST:
        return None
    R_ck1_ck = np.asarray(cv2.Rodrigues(rotation)[0], np.float64)
    T_ck1_ck = se3(R_ck1_ck, np.asarray(translation, np.float64).ravel())
    carried = np.zeros(len(matches), dtype=bool)
    carried[np.flatnonzero(tried)[which]] = True
    return se3_inv(T_ck1_ck), carried


PART_RADIUS_PX = 90.0
"""Radius of the part of an image that may be one object."""

LARGE_LEVERAGE = 2.0
"""Leverage from which on a pose hangs on a part: that of all matches together is 6, one for each
degree of freedom, and such a part has a fourteenth of an image that is covered evenly."""

MOVING = 0.1
"""Probability that such a part moves by itself, in rooms of which a quarter of the objects do."""


def leverages(pose: TwoFrame) -> Array:
    """(n,) share of each match in what is known of a pose, 6 in all: trace(H^-1 H_n)."""
    _, cov_r, q = residual_terms(pose.T_ck_ck1, pose.matches, pose.covs, pose.camera)
    J = np.concatenate([np.broadcast_to(-np.eye(3), (len(q), 3, 3)), skew_stack(q)], axis=2)
    explained = J @ (pose.cov / ROBUST_FACTOR) @ np.swapaxes(J, 1, 2)
    return pose.weights * np.trace(np.linalg.solve(cov_r, explained), axis1=1, axis2=2)


def influential_part(pose: TwoFrame) -> Mask | None:
    """(n,) matches in the part of the image that a pose hangs on most; None where it hangs on
    none."""
    leverage = np.where(pose.chi2 < INLIER_CHI2, leverages(pose), 0.0)
    u, v = pose.matches.uv0.T
    near = (u[:, None] - u) ** 2 + (v[:, None] - v) ** 2 < PART_RADIUS_PX**2
    in_reach = near @ leverage
    center = int(np.argmax(in_reach))
    return near[center] if in_reach[center] > LARGE_LEVERAGE else None


def either_way(cov: Array, cov_without: Array, away: Array) -> Array:
    """(6, 6) covariance of a pose with one part, where the others alone yield another one that is
    `away` from it: that of a choice between the two."""
    return symmetrize((1.0 - MOVING) * cov + MOVING * (cov_without + np.outer(away, away)))


Indices = NDArray[np.intp]

MAX_MATCHES = 400
RADIUS_PX = 12.0
"""Least distance of matches that are used: their patches overlap by less than half."""

MIN_INLIER_SHARE = 0.5

CONTAMINATION = 2.0
"""Variance added for each rejected match, in shares of Eq. 6 over the matches that agree. Chosen on
a rendering along V1_02: NEES is 1.8 without it where 15 to 50 % are rejected, 0.8 elsewhere."""


SCATTERED_SHARE = 1.0 / 3.0
"""Share of the matches below which those that agree on one translation may do so by chance: on a
repeating wall the others are spread over many periods, and most such translations are wrong."""


@dataclass(frozen=True)
class RelativePose:
    """Motion of the camera between two keyframes, as vision measured it."""

    stamps_ns: tuple[int, int]
    T_ck_ck1: Array
    """Takes points from the rectified left camera k+1 to camera k; identity where nothing could be
    measured."""

    cov_T_ck_ck1: Array
    """(6, 6) left perturbation, order [rho, phi], [m, rad] (Eq. 6)."""

    matches: int
    """Matches among which the pose was searched."""

    inliers: int
    """Matches that agree with it."""

    row_error_px: float
    """Median of |row left - row right| [px]."""

    reason: str = ""
    """Why it could not be measured: its covariance then covers any motion. Empty where it was."""

    motions: Possible = ()
    """Motions of which one is the camera's, this one first; empty where there is no doubt."""

    points: Indices = field(default_factory=lambda: np.empty(0, dtype=np.intp), repr=False)
    """Which points of the first keyframe agree with it, where that is known."""

    ends: Array = field(default_factory=lambda: np.empty((0, 4)), repr=False)
    """(n, 4) where its matches are in both left images [px], where that is known."""

    agreeing: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, dtype=bool), repr=False)
    """(n,) which of these agree with it."""

    @property
    def scattered(self) -> bool:
        """So few matches agree that nothing is known of the translation."""
        return self.inliers < SCATTERED_SHARE * self.matches


def measure_relative_pose(
    stamps_ns: tuple[int, int],
    found: KeyframeMatches,
    covs: Array,
    camera: PinholePair,
    calibration: CalibrationUncertainty,
    scale_by_residuals: bool = False,
    predicted: PredictedRotation | None = None,
) -> RelativePose:
    """Choose matches by their covariance, find the pose, complete its covariance.

    A motion is certain when half of the matches agree on it, or with fewer where its rotation is
    the predicted one. `covs` are (n, 4, 4) of the matches [px^2].
    """
    count = len(found.matches)
    if count < MIN_MATCHES:
        return unmeasured(
            stamps_ns, f"{count} points could be followed, needed {MIN_MATCHES}", count
        )
    chosen = spread(found.matches.uv0, np.linalg.det(covs), MAX_MATCHES, RADIUS_PX)
    matches = found.matches.take(chosen)
    pose = consensus_pose(matches, covs[chosen], camera, predicted)
    witnessed = predicted is not None and agrees(pose, predicted)
    enough = MIN_WITNESSED_SHARE if witnessed else MIN_INLIER_SHARE
    if not pose.converged or pose.inliers < max(MIN_MATCHES, enough * len(matches)):
        return unmeasured(
            stamps_ns,
            f"{pose.inliers} of {len(matches)} matches agree on one motion, needed {MIN_MATCHES} "
            f"and {100 * MIN_INLIER_SHARE:.0f} %",
            len(matches),
        )
    dt = (stamps_ns[1] - stamps_ns[0]) / NS
    moved_px = float(np.median(np.linalg.norm(matches.uv1 - matches.uv0, axis=1)))

    def covariance(one: TwoFrame) -> Array:
        cov = residual_scale(one, scale_by_residuals) * one.cov
        cov = cov if scale_by_residuals else contamination_scale(one) * cov
        return cov + calibration_covariance(calibration, one.T_ck_ck1, dt, moved_px)

    cov = covariance(pose)
    motions: Possible = ()
    if not scale_by_residuals:
        part = influential_part(pose)
        rest = None if part is None else pose_of_others(pose, part)
        if rest is not None:
            cov = either_way(cov, covariance(rest), difference(rest, pose))
        second = second_motion(pose, predicted)
        if second is not None:
            share, other = second.share, covariance(second.pose)
            both = (pose, cov, 1.0 - share), (second.pose, other, share)
            motions = tuple(
                PossibleMotion(one.T_ck_ck1, symmetrize(own), part) for one, own, part in both
            )
            cov = cov + doubt(pose, second)
    fits = pose.chi2 < INLIER_CHI2
    measured = RelativePose(
        stamps_ns,
        pose.T_ck_ck1,
        symmetrize(cov),
        len(matches),
        pose.inliers,
        row_error_px=float(np.median(np.abs(found.row_errors[chosen]))),
        motions=motions,
        points=found.points[chosen[fits]],
        ends=np.column_stack([matches.uv0, matches.uv1]),
        agreeing=fits,
    )
    if measured.scattered and not scale_by_residuals:
        # Matches that agree by chance do so with any rotation near the predicted one.
        return of_unknown_translation(measured, predicted)
    return measured


def of_unknown_translation(pose: RelativePose, predicted: PredictedRotation | None) -> RelativePose:
    """The pose with nothing known of its translation, and a rotation as uncertain as the predicted
    one."""
    cov = pose.cov_T_ck_ck1.copy()
    cov[:3, :3] += any_motion((pose.stamps_ns[1] - pose.stamps_ns[0]) / NS)[:3, :3]
    if predicted is not None:
        cov[3:, 3:] += predicted.cov
    return replace(pose, cov_T_ck_ck1=symmetrize(cov))


def residual_scale(pose: TwoFrame, both_ways: bool = False) -> float:
    """Chi-square of the matches that fit over its degrees of freedom.

    Residuals larger than predicted mean that match noise was underestimated; smaller ones prove
    nothing, unless `both_ways`, as for noise whose size was never known.
    """
    fits = pose.chi2 < INLIER_CHI2
    ratio = float(pose.chi2[fits].sum() / max(3 * int(fits.sum()) - 6, 1))
    return ratio if both_ways else max(ratio, 1.0)


def contamination_scale(pose: TwoFrame) -> float:
    """Factor on Eq. 6: where many matches were rejected, some that should have been were not."""
    return 1.0 + CONTAMINATION * (len(pose.chi2) - pose.inliers) / max(pose.inliers, 1)


def doubt(pose: TwoFrame, second: SecondMotion) -> Array:
    """(6, 6) what a second motion of like support adds to the covariance: that of a choice between
    the two."""
    if second.share < LIKE_SHARE:
        return np.zeros((6, 6))
    away = difference(second.pose, pose)
    return second.share * np.outer(away, away)


def difference(one: "RelativePose | TwoFrame", other: "RelativePose | TwoFrame") -> Array:
    """(6,) left difference of two motions, [rho, phi]."""
    return se3_log(np.ascontiguousarray(one.T_ck_ck1 @ se3_inv(other.T_ck_ck1)))


def unmeasured(stamps_ns: tuple[int, int], reason: str, matches: int = 0) -> RelativePose:
    """A relative pose of which nothing is known but that a camera moves no faster than it can."""
    dt = (stamps_ns[1] - stamps_ns[0]) / NS
    return RelativePose(stamps_ns, np.eye(4), any_motion(dt), matches, 0, float("nan"), reason)


def chained(poses: Sequence[RelativePose]) -> RelativePose:
    """Consecutive relative poses as one: S = S1 + Ad(T1) S2 Ad(T1)^T."""
    T, cov = poses[0].T_ck_ck1, poses[0].cov_T_ck_ck1
    for pose in poses[1:]:
        Ad = se3_adj(np.ascontiguousarray(T))
        cov = symmetrize(cov + Ad @ pose.cov_T_ck_ck1 @ Ad.T)
        T = T @ pose.T_ck_ck1
    return RelativePose(
        (poses[0].stamps_ns[0], poses[-1].stamps_ns[1]),
        T,
        cov,
        min(pose.matches for pose in poses),
        min(pose.inliers for pose in poses),
        float(np.mean([pose.row_error_px for pose in poses])),
        next((pose.reason for pose in poses if pose.reason), ""),
    )


def stacked(
    poses: Sequence[RelativePose], frame: CameraFrame, calibration: CalibrationUncertainty
) -> RelativePoses:
    """Consecutive relative poses as what estimation takes, with the scale that they share."""
    stamps_ns = [poses[0].stamps_ns[0], *(pose.stamps_ns[1] for pose in poses)]
    return RelativePoses(
        np.array(stamps_ns, dtype=np.int64),
        np.array([pose.T_ck_ck1 for pose in poses]),
        np.array([pose.cov_T_ck_ck1 for pose in poses]),
        frame,
        calibration.scale,
        reasons=tuple(pose.reason for pose in poses),
        motions=tuple(pose.motions for pose in poses),
    )
