"""Recordings in: samples, stamps, calibration, truth."""

from maci2.sensors.clocks import on_camera_clock, on_imu_clock
from maci2.sensors.euroc import read_euroc
from maci2.sensors.euroc_writer import write_euroc
from maci2.sensors.exchange import read_any_rig, write_rig
from maci2.sensors.interpolate import poses_at, truth_at
from maci2.sensors.kalibr import read_camchain, read_imu_yaml, read_rig, require_extrinsics
from maci2.sensors.kalibr_writer import write_camchain, write_imu_yaml
from maci2.sensors.motion import GRAVITY_W, Motion, Trajectory
from maci2.sensors.motion_kinds import MotionKind, random_trajectory
from maci2.sensors.open import open_recording
from maci2.sensors.plausibility import imu_faults, require_plausible
from maci2.sensors.sanity import gaps, require_no_gap, require_overlap
from maci2.sensors.simulate import SimulationConfig, simulate
from maci2.sensors.smoothing import with_velocity
from maci2.sensors.trajectory import CameraTrajectory, read_trajectory
from maci2.sensors.tumvi import read_tumvi
from maci2.sensors.types import (
    NS,
    Camera,
    GroundTruth,
    ImuNoise,
    ImuSamples,
    Recording,
    Rig,
    Stamps,
)

__all__ = [
    "GRAVITY_W",
    "NS",
    "Camera",
    "CameraTrajectory",
    "GroundTruth",
    "ImuNoise",
    "ImuSamples",
    "Motion",
    "MotionKind",
    "Recording",
    "Rig",
    "SimulationConfig",
    "Stamps",
    "Trajectory",
    "gaps",
    "imu_faults",
    "on_camera_clock",
    "on_imu_clock",
    "open_recording",
    "poses_at",
    "random_trajectory",
    "read_any_rig",
    "read_camchain",
    "read_euroc",
    "read_imu_yaml",
    "read_rig",
    "read_trajectory",
    "read_tumvi",
    "require_extrinsics",
    "require_no_gap",
    "require_overlap",
    "require_plausible",
    "simulate",
    "truth_at",
    "with_velocity",
    "write_camchain",
    "write_euroc",
    "write_imu_yaml",
    "write_rig",
]
