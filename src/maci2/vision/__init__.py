"""Camera motion with covariance."""

from maci2.sensors import Stamps
from maci2.vision.rectify import rectified_extrinsics
from maci2.vision.relative_poses import (
    CameraFrame,
    MeasuredSteps,
    RelativePoses,
    any_motion,
    load_relative_poses,
    save_relative_poses,
)
from maci2.vision.sources import (
    poses_from_steps,
    poses_from_trajectory,
    poses_from_truth,
    step_covariance,
)

__all__ = [
    "CameraFrame",
    "MeasuredSteps",
    "RelativePoses",
    "Stamps",
    "any_motion",
    "load_relative_poses",
    "poses_from_steps",
    "poses_from_trajectory",
    "poses_from_truth",
    "rectified_extrinsics",
    "save_relative_poses",
    "step_covariance",
]
