"""Camera motion with covariance."""

from maci2.vision.rectify import rectified_extrinsics
from maci2.vision.relative_poses import (
    AbsoluteErrors,
    CameraFrame,
    MeasuredPoses,
    PossibleMotion,
    RelativePoses,
    any_motion,
    load_relative_poses,
    pose_noise,
    poses_from_measurements,
    poses_from_trajectory,
    poses_from_truth,
    save_relative_poses,
)

__all__ = [
    "AbsoluteErrors",
    "CameraFrame",
    "MeasuredPoses",
    "PossibleMotion",
    "RelativePoses",
    "any_motion",
    "load_relative_poses",
    "pose_noise",
    "poses_from_measurements",
    "poses_from_trajectory",
    "poses_from_truth",
    "rectified_extrinsics",
    "save_relative_poses",
]
