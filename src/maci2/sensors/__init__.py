"""Data types: samples, images, rigs, ground truth, recordings; their checks and clocks."""

from maci2.sensors.clocks import Clock, on_imu_clock
from maci2.sensors.interpolation import bridged, poses_at, truth_at, with_velocity
from maci2.sensors.plausibility import imu_faults, require_plausible
from maci2.sensors.rig_types import Camera, ImuNoise, Rig
from maci2.sensors.truth_covariance import TruthCovariance
from maci2.sensors.types import CameraTrajectory, GroundTruth, ImuSamples, Recording
from maci2.sensors.validation import gaps, require_overlap

__all__ = [
    "Camera",
    "CameraTrajectory",
    "Clock",
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
