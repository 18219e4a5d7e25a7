"""ORB-SLAM3: one file with both cameras, their baseline and their place on the IMU.

Its IMU.T_b_c1 is our T_b_c of the left camera, Stereo.T_c1_c2 the pose of the right camera in the
left one. It reads matrices as floats (dt: f); the text carries all digits all the same.
"""

import math
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import ConfigDict, Field, NonNegativeFloat, PositiveFloat, PositiveInt

from maci2.errors import CalibrationError
from maci2.lie import se3_inv
from maci2.rigs.opencv_yaml import (
    OpenCvMatrix,
    opencv_matrix,
    transform_of,
    write_opencv_yaml,
)
from maci2.rigs.yaml_schema import Schema, load_yaml, validate
from maci2.sensors.types import Camera, DistortionModel, ImuNoise, Rig
from maci2.types import Array

CONFIG = "stereo_inertial.yaml"
ASSUMED_RATE_HZ = 20
"""ORB-SLAM3 must be told a frame rate; Kalibr's files have none."""

_FOCAL = ("fx", "fy", "cx", "cy")
_LENS: dict[str, tuple[str, ...]] = {
    "PinHole": ("k1", "k2", "p1", "p2"),
    "KannalaBrandt8": ("k1", "k2", "k3", "k4"),
}
_CONVENTION = (
    "ORB-SLAM3, camera and IMU part. IMU.T_b_c1 takes points from the left camera to the body, the",
    "IMU: p_b = IMU.T_b_c1 p_c1; it is the pose of the camera in the body frame, and the inverse",
    "of Kalibr's T_cam_imu. Stereo.T_c1_c2 takes points from the right camera to the left one.",
    "IMU noise as densities and random walks per sqrt(Hz), SI units.",
    "maci2.time_offset [s]: t_imu = t_camera + maci2.time_offset. ORB-SLAM3 has none and does not",
    "read it: add it to the stamps of the images that you give to ORB-SLAM3.",
    "ORBextractor.* and Viewer.* are ORB-SLAM3's own settings and are not here.",
)


class _Config(Schema):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    kind: Literal["PinHole", "KannalaBrandt8"] = Field(alias="Camera.type")
    width: PositiveInt = Field(alias="Camera.width")
    height: PositiveInt = Field(alias="Camera.height")
    rate_hz: PositiveFloat = Field(alias="Camera.fps")
    T_b_c1: OpenCvMatrix = Field(alias="IMU.T_b_c1")
    T_c1_c2: OpenCvMatrix | None = Field(None, alias="Stereo.T_c1_c2")
    noise_gyro: PositiveFloat = Field(alias="IMU.NoiseGyro")
    noise_acc: PositiveFloat = Field(alias="IMU.NoiseAcc")
    walk_gyro: NonNegativeFloat = Field(alias="IMU.GyroWalk")
    walk_acc: NonNegativeFloat = Field(alias="IMU.AccWalk")
    time_offset_s: float = Field(0.0, alias="maci2.time_offset")
    imu_rate_hz: PositiveFloat = Field(alias="IMU.Frequency")


def write_orbslam3(folder: Path, rig: Rig) -> list[Path]:
    """Write the camera and IMU part of a configuration."""
    left = rig.cameras[0]
    if len(rig.cameras) != 2 or rig.cameras[1].resolution != left.resolution:
        raise CalibrationError(
            f"{rig.source}: has {len(rig.cameras)} cameras; ORB-SLAM3's stereo file needs two of "
            "one image size."
        )
    right, noise = rig.cameras[1], rig.imu
    kind = "KannalaBrandt8" if left.distortion_model == "equidistant" else "PinHole"
    if (right.distortion_model == "equidistant") != (kind == "KannalaBrandt8"):
        raise CalibrationError(
            f"{rig.source}: the cameras are {left.distortion_model} and {right.distortion_model}; "
            "ORB-SLAM3 needs one model for both."
        )
    entries: dict[str, Any] = {"File.version": "1.0", "Camera.type": kind}
    for number, camera in enumerate(rig.cameras, start=1):
        names = [f"Camera{number}.{name}" for name in (*_FOCAL, *_LENS[kind])]
        values = [*camera.intrinsics.tolist(), *camera.distortion.tolist()]
        entries |= dict(zip(names, values, strict=True))
    entries |= {"Camera.width": left.resolution[0], "Camera.height": left.resolution[1]}
    entries |= _frame_rate(left.rate_hz)
    entries |= {
        "Camera.RGB": 1,
        "Stereo.ThDepth": 60.0,
        "Stereo.T_c1_c2": opencv_matrix(se3_inv(left.T_b_c) @ right.T_b_c, "f"),
        "IMU.T_b_c1": opencv_matrix(left.T_b_c, "f"),
        "IMU.NoiseGyro": float(noise.density_gyro),
        "IMU.NoiseAcc": float(noise.density_acc),
        "IMU.GyroWalk": float(noise.walk_gyro),
        "IMU.AccWalk": float(noise.walk_acc),
        "IMU.Frequency": float(noise.rate_hz),
        "maci2.time_offset": float(rig.time_offset_s),
    }
    write_opencv_yaml(folder / CONFIG, entries, _CONVENTION)
    return [folder / CONFIG]


def read_orbslam3(path: Path) -> Rig:
    """The rig of a configuration or of the folder that holds one named as we name it."""
    path = path / CONFIG if path.is_dir() else path
    data = load_yaml(path, "ORB-SLAM3's configuration")
    config = validate(_Config, data, path)
    T_b_c1 = transform_of(config.T_b_c1, path, "IMU.T_b_c1")
    cameras = [_camera(data, config, 1, T_b_c1, path)]
    if config.T_c1_c2 is not None:
        T_b_c2 = T_b_c1 @ transform_of(config.T_c1_c2, path, "Stereo.T_c1_c2")
        cameras.append(_camera(data, config, 2, T_b_c2, path))
    noise = ImuNoise(
        density_gyro=config.noise_gyro,
        density_acc=config.noise_acc,
        walk_gyro=config.walk_gyro,
        walk_acc=config.walk_acc,
        rate_hz=config.imu_rate_hz,
    )
    return Rig(tuple(cameras), noise, str(path), time_offset_s=config.time_offset_s)


def _frame_rate(rate_hz: float) -> dict[str, Any]:
    """ORB-SLAM3 takes whole frames per second."""
    if math.isnan(rate_hz):
        note = f"The source does not state a frame rate; {ASSUMED_RATE_HZ} is assumed."
        return {"# fps": note, "Camera.fps": ASSUMED_RATE_HZ}
    return {"Camera.fps": round(rate_hz)}


def _camera(data: dict[str, Any], config: _Config, number: int, T_b_c: Array, path: Path) -> Camera:
    names = [f"Camera{number}.{name}" for name in (*_FOCAL, *_LENS[config.kind])]
    values = [_number(data, name, path) for name in names]
    lens = np.array(values[4:])
    model: DistortionModel = "equidistant" if config.kind == "KannalaBrandt8" else "radtan"
    if config.kind == "PinHole" and data.get(f"Camera{number}.k3", 0.0) != 0.0:
        raise CalibrationError(
            f"{path}: Camera{number}.k3 is {data[f'Camera{number}.k3']}, needed 0; a third radial "
            "coefficient is not supported. Calibrate with k1, k2, p1, p2."
        )
    return Camera(
        T_b_c=T_b_c,
        intrinsics=np.array(values[:4]),
        distortion=lens,
        distortion_model=model if lens.any() else "none",
        resolution=(config.width, config.height),
        rate_hz=config.rate_hz,
    )


def _number(data: dict[str, Any], key: str, path: Path) -> float:
    value = data.get(key)
    if not isinstance(value, int | float) or not math.isfinite(value):
        found = "missing" if value is None else repr(value)
        raise CalibrationError(f"{path}: key '{key}' is {found}, needed a number.")
    return float(value)
