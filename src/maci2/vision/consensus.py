"""The motion that most matches agree on, from those that agree.

Things that move by themselves give many good matches of a motion that is not the camera's, and a
robust loss alone lets them pull. So the largest set of matches with one motion is looked for, and
only what fits it is used.
"""

from dataclasses import replace

import cv2
import numpy as np

from maci2.gaussian import Array
from maci2.lie import se3, se3_inv
from maci2.vision.two_frame import (
    INLIER_CHI2,
    Matches,
    PinholePair,
    TwoFrame,
    points,
    residual_chi2,
    two_frame_pose,
)

BEYOND_DOUBT = 0.9
"""Share of matches with one motion above which no other motion is looked for."""

REACH_PX = 3.0
"""How near a point of frame k must come to its match in frame k+1 to count for a motion tried."""

TRIALS, CONFIDENCE = 200, 0.999
MAX_ROUNDS = 5
"""Of leaving out what does not fit: what fits changes with the pose."""


def agreed_pose(matches: Matches, covs: Array, camera: PinholePair) -> TwoFrame:
    """Pose by Eq. 5 of the largest set of matches that fit one motion; `covs` as in Eq. 5.

    `weights` are zero for matches outside that set.
    """
    pose = two_frame_pose(matches, covs, camera)
    if pose.inliers < BEYOND_DOUBT * len(matches):
        start = most_common_motion(matches, camera)
        if start is not None:
            other = two_frame_pose(matches, covs, camera, start)
            pose = other if other.inliers > pose.inliers else pose
    return _without_the_rest(pose, matches, covs, camera)


def most_common_motion(matches: Matches, camera: PinholePair) -> Array | None:
    """T_ck_ck1 that carries most points of frame k onto their matches; rough, from three points.

    Reprojection, not distance, counts: depth is the worst known of all.
    """
    p0 = points(matches.uv0, matches.disparity0, camera)
    K = np.array(
        [[camera.focal, 0.0, camera.center[0]], [0.0, camera.focal, camera.center[1]], [0, 0, 1.0]]
    )
    # OpenCV draws its triples from a generator of its own with a fixed seed.
    found, rotation, translation, _ = cv2.solvePnPRansac(
        p0, matches.uv1, K, None, iterationsCount=TRIALS, reprojectionError=REACH_PX,
        confidence=CONFIDENCE, flags=cv2.SOLVEPNP_P3P,
    )  # fmt: skip
    if not found or not (np.isfinite(rotation).all() and np.isfinite(translation).all()):
        return None
    R_ck1_ck = np.asarray(cv2.Rodrigues(rotation)[0], np.float64)
    return se3_inv(se3(R_ck1_ck, np.asarray(translation, np.float64).ravel()))


def _without_the_rest(
    pose: TwoFrame, matches: Matches, covs: Array, camera: PinholePair
) -> TwoFrame:
    """Solve again with the matches that fit only, until these stay the same."""
    used = np.ones(len(matches), dtype=bool)
    weights, chi2 = pose.weights, pose.chi2
    for _ in range(MAX_ROUNDS):
        fits = chi2 < INLIER_CHI2
        if (fits == used).all() or fits.sum() < 3:
            break
        used = fits
        pose = two_frame_pose(matches.take(used), covs[used], camera, pose.T_ck_ck1)
        chi2 = residual_chi2(pose.T_ck_ck1, matches, covs, camera)
        weights = np.zeros(len(matches))
        weights[used] = pose.weights
    return replace(pose, weights=weights, chi2=chi2)
