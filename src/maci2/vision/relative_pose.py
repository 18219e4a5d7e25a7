"""Pose and covariance of one keyframe step; never a confident answer from too little."""

from dataclasses import dataclass

import numpy as np

from maci2.gaussian import symmetrize
from maci2.lie import se3_adj
from maci2.types import NS, Array
from maci2.vision.calibration_uncertainty import CalibrationUncertainty, calibration_covariance
from maci2.vision.covariance_models import CovarianceModel
from maci2.vision.keyframe import KeyframeMatches
from maci2.vision.keypoints import spread
from maci2.vision.outlier_rejection import consensus_pose
from maci2.vision.relative_poses import any_motion
from maci2.vision.two_frame import INLIER_CHI2, Matches, PinholePair, TwoFrame

MAX_MATCHES = 400
RADIUS_PX = 12.0
"""Between matches that are used: their patches overlap by less than half."""

MIN_MATCHES = 15
MIN_INLIER_SHARE = 0.5


@dataclass(frozen=True)
class RelativePose:
    """What vision measured between two keyframes."""

    stamps_ns: tuple[int, int]
    T_ck_ck1: Array
    """Rectified left camera; identity where nothing could be measured."""

    cov_T_ck_ck1: Array
    """(6, 6) left, [rho, phi]."""

    matches: int
    inliers: int
    row_error_px: float
    """Median of |row left - row right| [px]."""

    reason: str = ""
    """Why it could not be measured: its covariance then covers any motion. Empty if it was."""


def measure_relative_pose(
    stamps: tuple[int, int],
    found: KeyframeMatches,
    model: CovarianceModel,
    camera: PinholePair,
    shared: CalibrationUncertainty,
    scale_by_residuals: bool = False,
) -> RelativePose:
    """Choose matches by their covariance, find the pose, complete its covariance."""
    count = len(found.matches)
    if count < MIN_MATCHES:
        return unmeasured(stamps, f"{count} points could be followed, needed {MIN_MATCHES}", count)
    covs = model(found.evidence)
    chosen = spread(found.matches.uv0, np.linalg.det(covs), MAX_MATCHES, RADIUS_PX)
    matches, covs = found.matches.take(chosen), covs[chosen]
    pose = consensus_pose(matches, covs, camera)
    share = pose.inliers / len(matches)
    if not pose.converged or pose.inliers < MIN_MATCHES or share < MIN_INLIER_SHARE:
        return unmeasured(
            stamps,
            f"{pose.inliers} of {len(matches)} matches agree on one motion, needed {MIN_MATCHES} "
            f"and {100 * MIN_INLIER_SHARE:.0f} %",
            len(matches),
        )
    dt = (stamps[1] - stamps[0]) / NS
    cov = residual_scale(pose, scale_by_residuals) * pose.cov
    cov = cov + calibration_covariance(shared, pose.T_ck_ck1, dt, _displacement_px(matches))
    row_error_px = float(np.median(np.abs(found.row_errors[chosen])))
    return RelativePose(
        stamps, pose.T_ck_ck1, symmetrize(cov), len(matches), pose.inliers, row_error_px
    )


def residual_scale(pose: TwoFrame, both_ways: bool = False) -> float:
    """Chi-square of the matches that fit over its degrees of freedom.

    Residuals larger than predicted mean that match noise was underestimated; smaller ones prove
    nothing, unless `both_ways`, as for noise whose size was never known.
    """
    fits = pose.chi2 < INLIER_CHI2
    ratio = float(pose.chi2[fits].sum() / max(3 * int(fits.sum()) - 6, 1))
    return ratio if both_ways else max(ratio, 1.0)


def unmeasured(stamps: tuple[int, int], reason: str, matches: int = 0) -> RelativePose:
    """A step of which nothing is known but that a camera moves no faster than it can."""
    dt = (stamps[1] - stamps[0]) / NS
    return RelativePose(stamps, np.eye(4), any_motion(dt), matches, 0, float("nan"), reason)


def chained(steps: list[RelativePose]) -> RelativePose:
    """Steps one after the other as one: S = S1 + Ad(T1) S2 Ad(T1)^T."""
    T, cov = steps[0].T_ck_ck1, steps[0].cov_T_ck_ck1
    for one in steps[1:]:
        Ad = se3_adj(np.ascontiguousarray(T))
        cov = symmetrize(cov + Ad @ one.cov_T_ck_ck1 @ Ad.T)
        T = T @ one.T_ck_ck1
    return RelativePose(
        (steps[0].stamps_ns[0], steps[-1].stamps_ns[1]),
        T,
        cov,
        min(step.matches for step in steps),
        min(step.inliers for step in steps),
        float(np.mean([step.row_error_px for step in steps])),
        next((step.reason for step in steps if step.reason), ""),
    )


def _displacement_px(matches: Matches) -> float:
    return float(np.median(np.linalg.norm(matches.uv1 - matches.uv0, axis=1)))
