"""VINS-Fusion: one file with body_T_cam0, body_T_cam1 and IMU noise, one file per camera.

body_T_cam0 is our T_b_c. Its acc_n and gyr_n are standard deviations of single samples, acc_w and
gyr_w of a bias step divided by the sample's period: density times the square root of the rate.
"""

import math
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import ConfigDict, NonNegativeFloat, PositiveFloat, PositiveInt

from maci2.errors import CalibrationError
from maci2.rigs.opencv_yaml import (
    OpenCvMatrix,
    opencv_matrix,
    transform_of,
    write_opencv_yaml,
)
from maci2.rigs.yaml_schema import Schema, load_yaml, validate
from maci2.sensors.types import Camera, DistortionModel, ImuNoise, Rig

CONFIG = "stereo_imu_config.yaml"
MAX_NOISE_DIFFERENCE = 1e-9
"""Relative, between acc_n and the density it was made from: more means that one was edited."""

_CONVENTION = (
    "VINS-Fusion, camera and IMU part. body_T_cam0 takes points from the camera frame to the body",
    "(IMU) frame: p_body = body_T_cam0 p_cam; it is the pose of the camera in the body frame, and",
    "the inverse of Kalibr's T_cam_imu.",
    "acc_n [m/s^2], gyr_n [rad/s]: standard deviation of one sample, density * sqrt(rate).",
    "acc_w, gyr_w: standard deviation of a bias step over the sample's period.",
    "td [s]: image clock + td = IMU clock.",
    "Topics that are not here and the tracker's settings are yours to add.",
)
_CAMERA = (
    "VINS-Fusion, one camera, in pixels. PINHOLE: k1 k2 p1 p2. KANNALA_BRANDT: k2 to k5 are the",
    "four coefficients that Kalibr calls equidistant, mu mv u0 v0 are fx fy cx cy.",
)


class _Own(Schema):
    # The tool's other settings stand in the same files.
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)


class _Config(_Own):
    num_of_cam: PositiveInt
    image_width: PositiveInt
    image_height: PositiveInt
    cam0_calib: str
    cam1_calib: str = ""
    body_T_cam0: OpenCvMatrix
    body_T_cam1: OpenCvMatrix | None = None
    image0_topic: str = ""
    image1_topic: str = ""
    acc_n: PositiveFloat
    gyr_n: PositiveFloat
    acc_w: NonNegativeFloat
    gyr_w: NonNegativeFloat
    td: float = 0.0
    imu_rate: PositiveFloat | None = None
    acc_noise_density: PositiveFloat | None = None
    gyr_noise_density: PositiveFloat | None = None
    acc_random_walk: NonNegativeFloat | None = None
    gyr_random_walk: NonNegativeFloat | None = None


class _Radtan(Schema):
    k1: float
    k2: float
    p1: float
    p2: float


class _Pinhole(Schema):
    fx: PositiveFloat
    fy: PositiveFloat
    cx: float
    cy: float


class _KannalaBrandt(Schema):
    k2: float
    k3: float
    k4: float
    k5: float
    mu: PositiveFloat
    mv: PositiveFloat
    u0: float
    v0: float


class _CameraFile(_Own):
    model_type: Literal["PINHOLE", "KANNALA_BRANDT"]
    image_width: PositiveInt
    image_height: PositiveInt
    distortion_parameters: _Radtan | None = None
    projection_parameters: dict[str, float]


def write_vins_fusion(folder: Path, rig: Rig) -> list[Path]:
    """Write the configuration and one file per camera."""
    names = [f"cam{number}.yaml" for number in range(len(rig.cameras))]
    for name, camera in zip(names, rig.cameras, strict=True):
        write_opencv_yaml(folder / name, _camera_entries(camera, name), _CAMERA)
    width, height = rig.cameras[0].resolution
    config: dict[str, Any] = {"imu": 1, "num_of_cam": len(rig.cameras)}
    for number, camera in enumerate(rig.cameras):
        if camera.topic:
            config[f"image{number}_topic"] = camera.topic
    config |= {f"cam{number}_calib": name for number, name in enumerate(names)}
    config |= {"image_width": width, "image_height": height, "estimate_extrinsic": 0}
    for number, camera in enumerate(rig.cameras):
        config[f"body_T_cam{number}"] = opencv_matrix(camera.T_b_c)
    config["td"] = float(rig.time_offset_s)
    write_opencv_yaml(folder / CONFIG, config | _noise_entries(rig.imu), _CONVENTION)
    return [folder / CONFIG, *[folder / name for name in names]]


def read_vins_fusion(path: Path) -> Rig:
    """The rig of a configuration or of the folder that holds one named as we name it."""
    path = path / CONFIG if path.is_dir() else path
    config = validate(_Config, load_yaml(path, "VINS-Fusion's configuration"), path)
    matrices = [config.body_T_cam0, config.body_T_cam1][: config.num_of_cam]
    files = [config.cam0_calib, config.cam1_calib]
    topics = [config.image0_topic, config.image1_topic]
    cameras = []
    for number, matrix in enumerate(matrices):
        key = f"body_T_cam{number}"
        if matrix is None or not files[number]:
            raise CalibrationError(
                f"{path}: num_of_cam is {config.num_of_cam} but {key} or cam{number}_calib is "
                "missing; add it."
            )
        camera = _read_camera(path.parent / files[number])
        T_b_c = transform_of(matrix, path, key)
        cameras.append(Camera(T_b_c, *camera, rate_hz=np.nan, topic=topics[number]))
    return Rig(tuple(cameras), _noise(config, path), str(path), time_offset_s=config.td)


def _noise_entries(noise: ImuNoise) -> dict[str, Any]:
    root = math.sqrt(noise.rate_hz)
    return {
        "acc_n": float(noise.density_acc * root),
        "gyr_n": float(noise.density_gyro * root),
        "acc_w": float(noise.walk_acc * root),
        "gyr_w": float(noise.walk_gyro * root),
        "g_norm": 9.81,
        "# densities": "What acc_n to gyr_w were made from, as Kalibr states it; VINS-Fusion does "
        "not read these.",
        "imu_rate": float(noise.rate_hz),
        "acc_noise_density": float(noise.density_acc),
        "gyr_noise_density": float(noise.density_gyro),
        "acc_random_walk": float(noise.walk_acc),
        "gyr_random_walk": float(noise.walk_gyro),
    }


def _noise(config: _Config, path: Path) -> ImuNoise:
    """Densities as stated, else from the noise of samples and the rate."""
    if config.imu_rate is None:
        raise CalibrationError(
            f"{path}: acc_n and its likes are of single samples, and the file does not say at "
            "which rate; add a line such as 'imu_rate: 200.0' [Hz], which VINS-Fusion ignores."
        )
    root = math.sqrt(config.imu_rate)
    stated = {
        "acc_n": config.acc_noise_density,
        "gyr_n": config.gyr_noise_density,
        "acc_w": config.acc_random_walk,
        "gyr_w": config.gyr_random_walk,
    }
    densities = {}
    for key, density in stated.items():
        sample = getattr(config, key)
        if density is not None and abs(sample - density * root) > MAX_NOISE_DIFFERENCE * sample:
            raise CalibrationError(
                f"{path}: {key} is {sample:g}, but the density below it times sqrt(imu_rate) is "
                f"{density * root:g}; correct one of them, or remove the density."
            )
        densities[key] = sample / root if density is None else density
    return ImuNoise(
        density_gyro=densities["gyr_n"],
        density_acc=densities["acc_n"],
        walk_gyro=densities["gyr_w"],
        walk_acc=densities["acc_w"],
        rate_hz=config.imu_rate,
    )


def _camera_entries(camera: Camera, name: str) -> dict[str, Any]:
    focal, distortion = camera.intrinsics.tolist(), camera.distortion.tolist()
    fisheye = camera.distortion_model == "equidistant"
    entries: dict[str, Any] = {
        "model_type": "KANNALA_BRANDT" if fisheye else "PINHOLE",
        "camera_name": name.removesuffix(".yaml"),
        "image_width": camera.resolution[0],
        "image_height": camera.resolution[1],
    }
    if fisheye:
        keys = ("k2", "k3", "k4", "k5", "mu", "mv", "u0", "v0")
        projection = dict(zip(keys, [*distortion, *focal], strict=True))
        return entries | {"projection_parameters": projection}
    lens = dict(zip(("k1", "k2", "p1", "p2"), distortion, strict=True))
    projection = dict(zip(("fx", "fy", "cx", "cy"), focal, strict=True))
    return entries | {"distortion_parameters": lens, "projection_parameters": projection}


_Lens = tuple[np.ndarray, np.ndarray, DistortionModel, tuple[int, int]]


def _read_camera(path: Path) -> _Lens:
    """Intrinsics, distortion, its model, and the image size."""
    entry = validate(_CameraFile, load_yaml(path, "a camera of VINS-Fusion"), path)
    size = (entry.image_width, entry.image_height)
    place = "projection_parameters"
    if entry.model_type == "KANNALA_BRANDT":
        fisheye = validate(_KannalaBrandt, entry.projection_parameters, path, place)
        focal = np.array([fisheye.mu, fisheye.mv, fisheye.u0, fisheye.v0])
        lens = np.array([fisheye.k2, fisheye.k3, fisheye.k4, fisheye.k5])
        return focal, lens, "equidistant", size
    pinhole = validate(_Pinhole, entry.projection_parameters, path, place)
    focal = np.array([pinhole.fx, pinhole.fy, pinhole.cx, pinhole.cy])
    if entry.distortion_parameters is None:
        raise CalibrationError(f"{path}: key 'distortion_parameters' is missing; add it.")
    radtan = entry.distortion_parameters
    lens = np.array([radtan.k1, radtan.k2, radtan.p1, radtan.p2])
    return focal, lens, "radtan" if lens.any() else "none", size
