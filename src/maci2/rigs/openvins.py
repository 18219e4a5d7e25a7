"""OpenVINS: estimator_config.yaml, and beside it a camera chain and an IMU file like Kalibr's.

Its T_imu_cam takes camera points to the IMU: it is our T_b_c, and the inverse of Kalibr's
T_cam_imu.
"""

from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import ConfigDict, PositiveFloat, PositiveInt

from maci2.errors import CalibrationError
from maci2.lie import se3_inv
from maci2.rigs.kalibr import read_imu_yaml
from maci2.rigs.opencv_yaml import write_opencv_yaml
from maci2.rigs.yaml_schema import Matrix4, Schema, load_yaml, rigid_transform, validate
from maci2.sensors.clocks import common_time_offset
from maci2.sensors.types import Camera, Rig
from maci2.types import Array

CONFIG = "estimator_config.yaml"
CAMERAS = "kalibr_imucam_chain.yaml"
IMU = "kalibr_imu_chain.yaml"
GRAVITY = 9.81

_CONVENTION = (
    "OpenVINS. T_imu_cam takes points from the camera frame to the IMU (body) frame:",
    "p_imu = T_imu_cam p_cam; it is the pose of the camera in the IMU frame, and the inverse of",
    "Kalibr's T_cam_imu.",
    "timeshift_cam_imu [s]: t_imu = t_cam + timeshift_cam_imu, one for all cameras.",
)
_INIT = (
    "OpenVINS. init_dyn_bias_g [rad/s] and init_dyn_bias_a [m/s^2] are the biases that",
    "initialization starts from, in the IMU frame: true = reading - bias. gravity_mag [m/s^2].",
    "Extrinsics are in the file of relative_config_imucam, noise in that of relative_config_imu.",
    "What is not here (tracker, updates, state options) is OpenVINS's own and keeps its defaults.",
)


class _Entry(Schema):
    """One camera of the chain; what else OpenVINS says of it is not needed here."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    T_imu_cam: Matrix4 | None = None
    T_cam_imu: Matrix4 | None = None
    camera_model: Literal["pinhole"] = "pinhole"
    intrinsics: tuple[PositiveFloat, PositiveFloat, float, float]
    distortion_model: Literal["radtan", "equidistant"]
    distortion_coeffs: tuple[float, float, float, float]
    resolution: tuple[PositiveInt, PositiveInt]
    rostopic: str = ""
    timeshift_cam_imu: float | None = None


class _Config(Schema):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    relative_config_imucam: str = CAMERAS
    relative_config_imu: str = IMU
    init_dyn_bias_g: tuple[float, float, float] = (0.0, 0.0, 0.0)
    init_dyn_bias_a: tuple[float, float, float] = (0.0, 0.0, 0.0)


def write_openvins(
    folder: Path, rig: Rig, bias_gyro: Array | None = None, bias_acc: Array | None = None
) -> list[Path]:
    """Write all three files; biases, where known, become the values initialization starts from."""
    zero = np.zeros(3)
    config = {
        "use_stereo": len(rig.cameras) > 1,
        "max_cameras": len(rig.cameras),
        "gravity_mag": GRAVITY,
        "init_dyn_use": True,
        "init_dyn_bias_g": (zero if bias_gyro is None else bias_gyro).tolist(),
        "init_dyn_bias_a": (zero if bias_acc is None else bias_acc).tolist(),
        "relative_config_imu": IMU,
        "relative_config_imucam": CAMERAS,
    }
    write_opencv_yaml(folder / CAMERAS, _chain(rig), _CONVENTION)
    write_opencv_yaml(folder / IMU, {"imu0": _imu(rig)}, ("OpenVINS. Densities, SI units.",))
    write_opencv_yaml(folder / CONFIG, config, _INIT)
    return [folder / CONFIG, folder / CAMERAS, folder / IMU]


def read_openvins(path: Path) -> Rig:
    """The rig of an estimator_config.yaml or of the folder that holds one."""
    path = path / CONFIG if path.is_dir() else path
    config = _config(path)
    chain_path = path.parent / config.relative_config_imucam
    cameras, offsets_s = [], []
    for key, value in load_yaml(chain_path, "OpenVINS's camera chain").items():
        entry = validate(_Entry, value, chain_path, key)
        cameras.append(_camera(entry, chain_path, key))
        offsets_s.append(entry.timeshift_cam_imu)
    noise = read_imu_yaml(path.parent / config.relative_config_imu)
    offset_s = common_time_offset(offsets_s, str(chain_path))
    return Rig(tuple(cameras), noise, str(path), time_offset_s=offset_s)


def read_openvins_biases(path: Path) -> tuple[Array, Array]:
    """Gyroscope and accelerometer bias that initialization starts from."""
    config = _config(path / CONFIG if path.is_dir() else path)
    return np.array(config.init_dyn_bias_g), np.array(config.init_dyn_bias_a)


def _config(path: Path) -> _Config:
    return validate(_Config, load_yaml(path, "OpenVINS's estimator configuration"), path)


def _chain(rig: Rig) -> dict[str, Any]:
    chain: dict[str, Any] = {}
    for number, camera in enumerate(rig.cameras):
        overlaps = [other for other in range(len(rig.cameras)) if other != number]
        chain[f"cam{number}"] = {
            "T_imu_cam": camera.T_b_c.tolist(),
            "cam_overlaps": overlaps,
            "camera_model": "pinhole",
            "distortion_coeffs": camera.distortion.tolist(),
            # OpenVINS knows no "none"; without coefficients radtan is the same.
            "distortion_model": camera.distortion_model.replace("none", "radtan"),
            "intrinsics": camera.intrinsics.tolist(),
            "resolution": list(camera.resolution),
            "timeshift_cam_imu": float(rig.time_offset_s),
        }
        if camera.topic:
            chain[f"cam{number}"]["rostopic"] = camera.topic
    return chain


def _imu(rig: Rig) -> dict[str, Any]:
    eye, noise = np.eye(3).tolist(), rig.imu
    return {
        "T_i_b": np.eye(4).tolist(),
        "accelerometer_noise_density": float(noise.density_acc),
        "accelerometer_random_walk": float(noise.walk_acc),
        "gyroscope_noise_density": float(noise.density_gyro),
        "gyroscope_random_walk": float(noise.walk_gyro),
        "update_rate": float(noise.rate_hz),
        "model": "kalibr",
        "Tw": eye,
        "R_IMUtoGYRO": eye,
        "Ta": eye,
        "R_IMUtoACC": eye,
        "Tg": np.zeros((3, 3)).tolist(),
    }


def _camera(entry: _Entry, path: Path, key: str) -> Camera:
    if entry.T_imu_cam is not None:
        T_b_c = rigid_transform(entry.T_imu_cam, path, f"{key}.T_imu_cam")
    elif entry.T_cam_imu is not None:
        T_b_c = se3_inv(rigid_transform(entry.T_cam_imu, path, f"{key}.T_cam_imu"))
    else:
        raise CalibrationError(f"{path}: {key} has neither T_imu_cam nor T_cam_imu; add one.")
    return Camera(
        T_b_c=T_b_c,
        intrinsics=np.array(entry.intrinsics),
        distortion=np.array(entry.distortion_coeffs),
        distortion_model="none" if not any(entry.distortion_coeffs) else entry.distortion_model,
        resolution=entry.resolution,
        rate_hz=np.nan,
        topic=entry.rostopic,
    )
