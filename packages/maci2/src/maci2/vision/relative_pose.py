"""Pose and covariance of one relative pose; never a confident answer from too little."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from maci2.geometry import se3_adj, se3_inv, se3_log
from maci2.geometry.gaussian import symmetrize
from maci2.types import NS, Array
from maci2.vision.covariance import CalibrationUncertainty, calibration_covariance
from maci2.vision.keyframe import KeyframeMatches
from maci2.vision.klt import spread
from maci2.vision.outlier_rejection import (
    LIKE_SHARE,
    MIN_MATCHES,
    MIN_WITNESSED_SHARE,
    SecondMotion,
    agrees,
    consensus_pose,
    either_way,
    influential_part,
    pose_of_others,
    second_motion,
)
from maci2.vision.predicted_rotation import PredictedRotation
from maci2.vision.relative_poses import (
    CameraFrame,
    Possible,
    PossibleMotion,
    RelativePoses,
    any_motion,
)
from maci2.vision.two_frame import INLIER_CHI2, Matches, PinholePair, TwoFrame

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
    """Matches that the pose was looked for in."""

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
    matches, covs = found.matches.take(chosen), covs[chosen]
    pose = consensus_pose(matches, covs, camera, predicted)
    witnessed = predicted is not None and agrees(pose, predicted)
    share = pose.inliers / len(matches)
    enough = share >= (MIN_WITNESSED_SHARE if witnessed else MIN_INLIER_SHARE)
    if not pose.converged or pose.inliers < MIN_MATCHES or not enough:
        return unmeasured(
            stamps_ns,
            f"{pose.inliers} of {len(matches)} matches agree on one motion, needed {MIN_MATCHES} "
            f"and {100 * MIN_INLIER_SHARE:.0f} %",
            len(matches),
        )
    dt = (stamps_ns[1] - stamps_ns[0]) / NS
    moved_px = _displacement_px(matches)

    def covariance(one: TwoFrame) -> Array:
        cov = residual_scale(one, scale_by_residuals) * one.cov
        cov = cov if scale_by_residuals else contamination_scale(one) * cov
        return cov + calibration_covariance(calibration, one.T_ck_ck1, dt, moved_px)

    cov = covariance(pose)
    if not scale_by_residuals:
        part = influential_part(matches, covs, camera, pose)
        rest = None if part is None else pose_of_others(matches, covs, camera, pose, part)
        if rest is not None:
            cov = either_way(cov, covariance(rest), difference(rest, pose))
    motions: Possible = ()
    second = None if scale_by_residuals else second_motion(matches, covs, camera, pose, predicted)
    if second is not None:
        motions = (
            PossibleMotion(pose.T_ck_ck1, symmetrize(cov), 1.0 - second.share),
            PossibleMotion(second.pose.T_ck_ck1, symmetrize(covariance(second.pose)), second.share),
        )
        cov = cov + doubt(pose, second)
    row_error_px = float(np.median(np.abs(found.row_errors[chosen])))
    fits = pose.chi2 < INLIER_CHI2
    measured = RelativePose(
        stamps_ns,
        pose.T_ck_ck1,
        symmetrize(cov),
        len(matches),
        pose.inliers,
        row_error_px,
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


def _displacement_px(matches: Matches) -> float:
    return float(np.median(np.linalg.norm(matches.uv1 - matches.uv0, axis=1)))
