"""VBR ("Vision Benchmark in Rome"): ROS 1 bags that follow one another, vbr_calib.yaml, and poses.

A sequence is a folder with NAME_00.bag, NAME_01.bag, ..., vbr_calib.yaml and, for training
sequences, NAME_gt.txt. Every sensor of the calibration states `T_b`, its pose in the rig's base
frame, which is the LiDAR's. The poses of NAME_gt.txt are those of the LiDAR.
"""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import PositiveFloat, PositiveInt

from maci2.datasets.bag_recording import read_bag
from maci2.datasets.bags import Topics
from maci2.datasets.tables import read_trajectory
from maci2.geometry import se3_inv
from maci2.rigs.kalibr import NoiseKeys
from maci2.rigs.yaml_files import Matrix4, OpenSchema, load_yaml, rigid_transform, validate
from maci2.sensors.rig_types import Camera, Rig
from maci2.sensors.types import GroundTruth, Recording
from maci2.types import Array

CALIBRATION = "vbr_calib.yaml"
TRUTH = "lidar_gt"
TOPICS = Topics(imu="/imu/data", left="/camera_left/image_raw", right="/camera_right/image_raw")


class _Sensor(OpenSchema):
    # What else the file states of a sensor (LiDAR rows, topics) is not needed here.
    T_b: Matrix4


class _CameraSensor(_Sensor):
    camera_model: Literal["pinhole"] = "pinhole"
    intrinsics: tuple[PositiveFloat, PositiveFloat, float, float]
    distortion_model: Literal["radtan", "equidistant"] = "radtan"
    distortion_coeffs: tuple[float, float, float, float]
    resolution: tuple[PositiveInt, PositiveInt]


class _ImuSensor(_Sensor, NoiseKeys):
    update_rate: PositiveFloat


class _Calibration(OpenSchema):
    cam_l: _CameraSensor
    cam_r: _CameraSensor
    imu: _ImuSensor
    lidar: _Sensor


def is_vbr(path: Path) -> bool:
    """True for a folder with VBR's calibration."""
    return path.is_dir() and (path / CALIBRATION).is_file()


def read_vbr(path: Path, rig: Rig | None = None, topics: Topics = TOPICS) -> Recording:
    """Open a VBR sequence; `rig` replaces its cameras and IMU noise."""
    file = path / CALIBRATION
    calibration = validate(_Calibration, load_yaml(file, "the calibration of VBR"), file)
    recording = read_bag(path, rig or _rig(calibration, file), topics if topics.roles() else TOPICS)
    poses = sorted(path.glob("*_gt.txt"))
    if not poses:
        return recording
    note = f"{TRUTH}: poses of the LiDAR in {poses[0].name}, carried to the IMU by {CALIBRATION}"
    return replace(
        recording,
        truths={TRUTH: _truth(poses[0], calibration, file), **recording.truths},
        notes=(*recording.notes, note),
    )


def _rig(calibration: _Calibration, file: Path) -> Rig:
    """The rig with the IMU as its body."""
    T_imu_base = se3_inv(_pose(calibration.imu, file, "imu"))
    sensors = {"cam_l": calibration.cam_l, "cam_r": calibration.cam_r}
    cameras = tuple(
        Camera(
            T_b_c=T_imu_base @ _pose(sensor, file, key),
            intrinsics=np.array(sensor.intrinsics),
            distortion=np.array(sensor.distortion_coeffs),
            distortion_model=sensor.distortion_model,
            resolution=sensor.resolution,
            rate_hz=np.nan,
        )
        for key, sensor in sensors.items()
    )
    return Rig(cameras, calibration.imu.stated().densities(calibration.imu.update_rate), str(file))


def _truth(poses: Path, calibration: _Calibration, file: Path) -> GroundTruth:
    """Poses of the IMU, from those of the LiDAR."""
    trajectory = read_trajectory(poses)
    T_base_lidar = _pose(calibration.lidar, file, "lidar")
    T_base_imu = _pose(calibration.imu, file, "imu")
    # The trajectory's frame is named c by its reader; here it is the LiDAR.
    Ts_w_b = trajectory.Ts_w_c @ se3_inv(T_base_lidar) @ T_base_imu
    return GroundTruth.of_poses(trajectory.stamps_ns, Ts_w_b, str(poses))


def _pose(sensor: _Sensor, file: Path, key: str) -> Array:
    """T_base_sensor."""
    return rigid_transform(sensor.T_b, file, f"{key}.T_b")
