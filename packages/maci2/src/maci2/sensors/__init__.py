"""Data types: samples, images, rigs, ground truth, recordings; their checks and clocks."""

from maci2.sensors.corrections import on_imu_clock
from maci2.sensors.interpolation import bridged, poses_at, truth_at, with_velocity
from maci2.sensors.rig_types import Camera, ImuNoise, Rig
from maci2.sensors.types import (
    CameraTrajectory,
    GroundTruth,
    ImuSamples,
    Recording,
    TruthCovariance,
)
from maci2.sensors.validation import gaps, imu_faults, require_overlap, require_plausible

__all__ = [
    "Camera",
    "CameraTrajectory",
    "GroundTruth",
    "ImuNoise",
    "ImuSamples",
    "Recording",
    "Rig",
    "TruthCovariance",
    "bridged",
    "gaps",
    "imu_faults",
    "on_imu_clock",
    "poses_at",
    "require_overlap",
    "require_plausible",
    "truth_at",
    "with_velocity",
]
