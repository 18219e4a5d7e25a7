"""Camera motion with covariance."""

from maci2.vision.pose_sources import (
    MeasuredPoses,
    load_relative_poses,
    pose_noise,
    poses_from_measurements,
    poses_from_trajectory,
    poses_from_truth,
    save_relative_poses,
)
from maci2.vision.rectify import rectified_extrinsics
from maci2.vision.relative_poses import (
    AbsoluteErrors,
    CameraFrame,
    PossibleMotion,
    RelativePoses,
    any_motion,
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
