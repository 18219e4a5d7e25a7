"""Basalt's calibration JSON: poses as quaternions, noise of samples, corrections of the IMU.

T_imu_cam is our T_b_c. Basalt corrects readings by (I + S) raw - b, the inverse of our intrinsics.
cam_time_offset_ns is added to the camera's timestamps.
"""

from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, PositiveFloat, PositiveInt

from maci2.errors import CalibrationError
from maci2.geometry.se3 import rotations_from_quat_wxyz
from maci2.rigs.parts import (
    FISHEYE,
    FOCAL,
    PARAMETERS,
    RADTAN,
    AnyNoise,
    RigParts,
    StatedNoise,
    make_camera,
)
from maci2.rigs.yaml_files import OpenSchema, load_yaml, rigid_transform, validate
from maci2.sensors.corrections import ideal_intrinsics, is_ideal
from maci2.sensors.rig_types import Camera, CameraModel, DistortionModel, ImuIntrinsics
from maci2.types import NS, Array

TOOL = "Basalt calibration"

MAX_NORM_ERROR = 1e-3
"""Largest error of a quaternion's norm that rounding of printed digits explains."""

_MODELS: dict[str, tuple[CameraModel, DistortionModel, tuple[str, ...]]] = {
    "ds": ("ds", "none", ()),
    "eucm": ("eucm", "none", ()),
    # The unified model by its alpha is the extended one with beta 1.
    "ucm": ("eucm", "none", ()),
    "fov": ("pinhole", "fov", ("w",)),
    "pinhole": ("pinhole", "none", ()),
    "kb4": ("pinhole", "equidistant", FISHEYE),
    "pinhole-radtan8": ("pinhole", "radtan", RADTAN),
}


class _Pose(OpenSchema):
    px: float
    py: float
    pz: float
    qx: float
    qy: float
    qz: float
    qw: float


class _Lens(OpenSchema):
    camera_type: str
    intrinsics: dict[str, float]


class _Calibration(OpenSchema):
    T_imu_cam: list[_Pose]
    intrinsics: list[_Lens]
    resolution: list[tuple[PositiveInt, PositiveInt]]
    imu_update_rate: PositiveFloat | None = None
    accel_noise_std: list[float] | float | None = None
    gyro_noise_std: list[float] | float | None = None
    accel_bias_std: list[float] | float | None = None
    gyro_bias_std: list[float] | float | None = None
    calib_accel_bias: list[float] = Field(default_factory=list)
    calib_gyro_bias: list[float] = Field(default_factory=list)
    cam_time_offset_ns: float = 0.0


def read_basalt(path: Path) -> RigParts:
    """Cameras, noise and corrections of a calibration."""
    data = load_yaml(path, "a calibration of Basalt")
    stated = validate(_Calibration, data["value0"], path, "value0")
    counts = {len(stated.T_imu_cam), len(stated.intrinsics), len(stated.resolution)}
    if len(counts) != 1 or 0 in counts:
        raise CalibrationError(
            f"{path}: T_imu_cam, intrinsics and resolution have "
            f"{', '.join(str(count) for count in sorted(counts))} entries, needed one of each for "
            "every camera."
        )
    cameras = tuple(_camera(stated, number, path) for number in range(len(stated.T_imu_cam)))
    return RigParts(
        TOOL,
        path,
        cameras,
        noise=_noise(stated),
        time_offset_s=stated.cam_time_offset_ns / NS,
        intrinsics=_intrinsics(stated, path),
    )


def _camera(stated: _Calibration, number: int, path: Path) -> Camera:
    lens = stated.intrinsics[number]
    where = f"{path}: intrinsics.{number}"
    if lens.camera_type not in _MODELS:
        raise CalibrationError(
            f"{where}.camera_type is '{lens.camera_type[:40]}', needed one of {', '.join(_MODELS)}."
        )
    model, distortion, names = _MODELS[lens.camera_type]
    given = {"beta": 1.0} | lens.intrinsics if lens.camera_type == "ucm" else lens.intrinsics
    for name in (*PARAMETERS[model], *FOCAL, *names):
        if name not in given:
            raise CalibrationError(f"{where}: key '{name}' is missing; add it.")
    return make_camera(
        where,
        [given[name] for name in FOCAL],
        [given[name] for name in names],
        distortion,
        stated.resolution[number],
        _pose(stated.T_imu_cam[number], path, f"T_imu_cam.{number}"),
        camera_model=model,
        model_parameters=[given[name] for name in PARAMETERS[model]],
    )


def _pose(pose: _Pose, path: Path, key: str) -> Array:
    quat_wxyz = np.array([pose.qw, pose.qx, pose.qy, pose.qz])
    norm = float(np.linalg.norm(quat_wxyz.clip(-2.0, 2.0)))
    if abs(norm - 1.0) > MAX_NORM_ERROR:
        raise CalibrationError(
            f"{path}: the quaternion of {key} has norm {norm:.4g}, needed 1; copy all its digits."
        )
    R_b_c = rotations_from_quat_wxyz(quat_wxyz[None] / norm)[0]
    return rigid_transform(np.column_stack([R_b_c, [pose.px, pose.py, pose.pz]]), path, key)


def _noise(stated: _Calibration) -> AnyNoise | None:
    """IMU noise; Basalt's values are densities, and the largest of the axes is used for all."""
    values = (
        stated.gyro_noise_std, stated.accel_noise_std, stated.gyro_bias_std, stated.accel_bias_std,
    )  # fmt: skip
    if any(value is None or value == [] for value in values):
        return None
    largest = (float(np.max(np.array(value))) for value in values)
    return StatedNoise(*largest).at_rate(stated.imu_update_rate)


def _intrinsics(stated: _Calibration, path: Path) -> ImuIntrinsics | None:
    acc, gyro = stated.calib_accel_bias, stated.calib_gyro_bias
    if len(acc) not in (0, 9) or len(gyro) not in (0, 12):
        raise CalibrationError(
            f"{path}: calib_accel_bias has {len(acc)} and calib_gyro_bias {len(gyro)} numbers, "
            "needed 9 and 12."
        )
    S_acc = np.zeros((3, 3))
    if acc:
        S_acc[:, 0], S_acc[1:, 1], S_acc[2, 2] = acc[3:6], acc[6:8], acc[8]
    S_gyro = np.array(gyro[3:]).reshape(3, 3).T if gyro else np.zeros((3, 3))
    M_acc, M_gyro = _inverted(S_acc, path), _inverted(S_gyro, path)
    ideal = ideal_intrinsics()
    found = ImuIntrinsics(
        M_gyro, ideal.R_gyro_b, M_acc, ideal.R_acc_b, ideal.g_sensitivity,
        offset_gyro=M_gyro @ np.array(gyro[:3] or [0.0] * 3),
        offset_acc=M_acc @ np.array(acc[:3] or [0.0] * 3),
    )  # fmt: skip
    return None if is_ideal(found) else found


def _inverted(S: Array, path: Path) -> Any:
    if np.abs(S).max() > 0.25:
        raise CalibrationError(
            f"{path}: a scale correction of the IMU is {np.abs(S).max():.3g}, needed at most 0.25."
        )
    return np.linalg.inv(np.eye(3) + S)
