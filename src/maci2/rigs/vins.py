"""Camera files of VINS-Mono and VINS-Fusion, as the library camodocal writes them.

PINHOLE: k1 k2 p1 p2. KANNALA_BRANDT: k2 to k5 are the four coefficients that Kalibr calls
equidistant, mu mv u0 v0 are fx fy cx cy. MEI: the unified model, gamma1 gamma2 are fx fy.

VINS-Mono's and VINS-Fusion's configurations read.

body_T_cam0, and VINS-Mono's extrinsicRotation with extrinsicTranslation, are our T_b_c. acc_n and
gyr_n are standard deviations of single samples, acc_w and gyr_w of a bias step divided by the
sample's period: density times the square root of the rate, which the files do not state.

VINS-Fusion written: one file with body_T_cam0, body_T_cam1 and IMU noise, one file per camera.

body_T_cam0 is our T_b_c. Its acc_n and gyr_n are standard deviations of single samples, acc_w and
gyr_w of a bias step divided by the sample's period: density times the square root of the rate.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from maci2.errors import CalibrationError
from maci2.lie import se3
from maci2.rigs.kalibr import in_first_camera
from maci2.rigs.parts import RigParts, SampleNoise, make_camera
from maci2.rigs.yaml_files import (
    Matrix3,
    Matrix4,
    OpenSchema,
    load_yaml,
    opencv_matrix,
    opencv_yaml,
    rigid_transform,
    validate,
)
from maci2.sensors.rig_types import Camera, ImuNoise, Rig
from maci2.types import Array

_PROJECTION = {
    "PINHOLE": ("fx", "fy", "cx", "cy"),
    "PINHOLE_FULL": ("fx", "fy", "cx", "cy"),
    "KANNALA_BRANDT": ("mu", "mv", "u0", "v0"),
    "MEI": ("gamma1", "gamma2", "u0", "v0"),
}
_DISTORTION = ("k1", "k2", "p1", "p2")
_FULL = ("k1", "k2", "p1", "p2", "k3", "k4", "k5", "k6")
_FISHEYE = ("k2", "k3", "k4", "k5")


class _CameraKeys(OpenSchema):
    model_type: str
    image_width: PositiveInt
    image_height: PositiveInt
    distortion_parameters: dict[str, float] | None = None
    projection_parameters: dict[str, float] | None = None
    mirror_parameters: dict[str, float] | None = None


def read_camera_file(path: Path) -> RigParts:
    """Rig with the single camera of a file."""
    data = load_yaml(path, "a camera of VINS-Fusion")
    camera = camodocal_camera(data, path, np.eye(4))
    return RigParts("VINS camera file (camodocal)", path, (camera,), extrinsics_known=False)


def camodocal_camera(data: dict[str, Any], path: Path, T_b_c: Array, topic: str = "") -> Camera:
    """Camera from the keys of a camera file or of VINS-Mono's configuration."""
    keys = validate(_CameraKeys, data, path)
    kind = keys.model_type.upper()
    if kind not in _PROJECTION:
        raise CalibrationError(
            f"{path}: model_type is '{keys.model_type[:40]}', needed one of "
            f"{', '.join(_PROJECTION)}. Calibrate with one of them."
        )
    focal = _numbers(keys.projection_parameters, _PROJECTION[kind], path, "projection_parameters")
    size = (keys.image_width, keys.image_height)
    if kind == "KANNALA_BRANDT":
        lens = _numbers(keys.projection_parameters, _FISHEYE, path, "projection_parameters")
        return make_camera(path, focal, lens, "equidistant", size, T_b_c, topic=topic)
    names = _FULL if kind == "PINHOLE_FULL" else _DISTORTION
    lens = _numbers(keys.distortion_parameters, names, path, "distortion_parameters")
    if kind == "MEI":
        xi = _numbers(keys.mirror_parameters, ("xi",), path, "mirror_parameters")
        return make_camera(
            path, focal, lens, "radtan", size, T_b_c,
            camera_model="omni", model_parameters=xi, topic=topic,
        )  # fmt: skip
    return make_camera(path, focal, lens, "radtan", size, T_b_c, topic=topic)


def camodocal_entries(camera: Camera, name: str) -> dict[str, Any]:
    """Keys and values of a camera file; raises for models that VINS-Fusion does not know."""
    focal, lens = camera.intrinsics.tolist(), camera.distortion.tolist()
    kind = _kind(camera, name)
    entries: dict[str, Any] = {
        "model_type": kind,
        "camera_name": name.removesuffix(".yaml"),
        "image_width": camera.resolution[0],
        "image_height": camera.resolution[1],
    }
    projection = dict(zip(_PROJECTION[kind], focal, strict=True))
    if kind == "KANNALA_BRANDT":
        return entries | {
            "projection_parameters": dict(zip(_FISHEYE, lens, strict=True)) | projection
        }
    if kind == "MEI":
        entries["mirror_parameters"] = {"xi": float(camera.model_parameters[0])}
    names = _FULL if kind == "PINHOLE_FULL" else _DISTORTION
    lens += [0.0] * (len(names) - len(lens))
    entries["distortion_parameters"] = dict(zip(names, lens, strict=True))
    return entries | {"projection_parameters": projection}


def _kind(camera: Camera, name: str) -> str:
    if camera.camera_model == "pinhole" and camera.distortion_model == "equidistant":
        return "KANNALA_BRANDT"
    long = len(camera.distortion) > 4
    if camera.camera_model == "pinhole" and camera.distortion_model in ("radtan", "none"):
        return "PINHOLE_FULL" if long else "PINHOLE"
    if camera.camera_model == "omni" and not long:
        return "MEI"
    raise CalibrationError(
        f"{name}: the camera model is {camera.camera_model} with distortion "
        f"'{camera.distortion_model}' ({len(camera.distortion)} coefficients), which VINS-Fusion "
        "does not know; calibrate with pinhole-radtan, pinhole-equidistant or omni-radtan."
    )


def _numbers(
    group: dict[str, float] | None, names: tuple[str, ...], path: Path, key: str
) -> list[float]:
    if group is None:
        raise CalibrationError(f"{path}: key '{key}' is missing; add it.")
    for name in names:
        if name not in group:
            raise CalibrationError(f"{path}: key '{key}.{name}' is missing; add it.")
    return [group[name] for name in names]


MAX_NOISE_DIFFERENCE = 1e-9
"""Largest relative difference between acc_n and the density it was computed from; more means that
one was edited."""

ESTIMATE_FROM_NOTHING = 2
"""Value of estimate_extrinsic for which the extrinsics in the file are meaningless."""


class _Config(OpenSchema):
    imu: int = 1
    num_of_cam: PositiveInt = 1
    cam0_calib: str = ""
    cam1_calib: str = ""
    estimate_extrinsic: int = 0
    body_T_cam0: Matrix4 | None = None
    body_T_cam1: Matrix4 | None = None
    extrinsicRotation: Matrix3 | None = None
    extrinsicTranslation: Any = None
    image_topic: str | None = None
    image0_topic: str | None = None
    image1_topic: str | None = None
    acc_n: PositiveFloat | None = None
    gyr_n: PositiveFloat | None = None
    acc_w: NonNegativeFloat | None = None
    gyr_w: NonNegativeFloat | None = None
    td: float = 0.0
    imu_rate: PositiveFloat | None = None
    acc_noise_density: PositiveFloat | None = None
    gyr_noise_density: PositiveFloat | None = None
    acc_random_walk: NonNegativeFloat | None = None
    gyr_random_walk: NonNegativeFloat | None = None


def read_vins(path: Path) -> RigParts:
    """Cameras, extrinsics and noise of samples."""
    data = load_yaml(path, "VINS-Fusion's configuration")
    config = validate(_Config, data, path)
    mono = "model_type" in data
    known = config.imu != 0 and config.estimate_extrinsic != ESTIMATE_FROM_NOTHING
    cameras = [_mono(data, config, path)] if mono else _fusion(config, path)
    placed = known and (config.body_T_cam0 is not None or config.extrinsicRotation is not None)
    return RigParts(
        f"VINS-{'Mono' if mono else 'Fusion'} settings",
        path,
        tuple(cameras) if placed else in_first_camera(tuple(cameras)),
        extrinsics_known=placed,
        noise=_noise(config, path) if config.imu != 0 else None,
        rate_hz=config.imu_rate,
        time_offset_s=config.td,
    )


def _mono(data: dict[str, Any], config: _Config, path: Path) -> Camera:
    T_b_c = np.eye(4)
    if config.extrinsicRotation is not None:
        T_b_c = _stated_pose(config.extrinsicRotation, config.extrinsicTranslation, path)
    return camodocal_camera(data, path, T_b_c, config.image_topic or "")


def _stated_pose(R: Matrix3, translation: Any, path: Path) -> Array:
    p = translation.get("data") if isinstance(translation, dict) else translation
    numbers = isinstance(p, list) and len(p) == 3 and all(_is_number(value) for value in p)
    if not numbers:
        raise CalibrationError(f"{path}: extrinsicTranslation needs three numbers; add it.")
    T = se3(np.array(R), np.array(p, dtype=np.float64))
    return rigid_transform(T.tolist(), path, "extrinsicRotation")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _fusion(config: _Config, path: Path) -> list[Camera]:
    if config.num_of_cam > 2:
        raise CalibrationError(
            f"{path}: num_of_cam is {config.num_of_cam}, needed 1 or 2; VINS-Fusion knows no more."
        )
    poses = [config.body_T_cam0, config.body_T_cam1][: config.num_of_cam]
    files = [config.cam0_calib, config.cam1_calib]
    topics = [config.image0_topic or config.image_topic, config.image1_topic]
    cameras = []
    for number, rows in enumerate(poses):
        key = f"body_T_cam{number}"
        if not files[number] or (rows is None and config.num_of_cam > 1):
            raise CalibrationError(
                f"{path}: num_of_cam is {config.num_of_cam} but {key} or cam{number}_calib is "
                "missing; add it."
            )
        T_b_c = np.eye(4) if rows is None else rigid_transform(rows, path, key)
        file = _camera_file(path, files[number])
        data = load_yaml(file, f"cam{number}_calib, a camera of VINS-Fusion")
        cameras.append(camodocal_camera(data, file, T_b_c, topics[number] or ""))
    return cameras


def _camera_file(path: Path, name: str) -> Path:
    """Camera file: VINS-Fusion takes every name, even one that begins with a slash, relative to the
    configuration's folder; an absolute path of another machine means the file of that name
    there."""
    beside = path.parent / name.lstrip("/")
    copied = path.parent / Path(name).name
    return copied if copied.is_file() and not beside.is_file() else beside


def _noise(config: _Config, path: Path) -> ImuNoise | SampleNoise | None:
    """Densities if the file states them, otherwise noise of samples."""
    gyr_n, acc_n, gyr_w, acc_w = config.gyr_n, config.acc_n, config.gyr_w, config.acc_w
    if gyr_n is None or acc_n is None or gyr_w is None or acc_w is None:
        return None
    noise = SampleNoise(gyr_n, acc_n, gyr_w, acc_w)
    densities = (
        config.gyr_noise_density, config.acc_noise_density,
        config.gyr_random_walk, config.acc_random_walk,
    )  # fmt: skip
    stated = [density for density in densities if density is not None]
    if config.imu_rate is None or len(stated) < len(densities):
        return noise
    root = math.sqrt(config.imu_rate)
    keys = ("gyr_n", "acc_n", "gyr_w", "acc_w")
    for key, sample, density in zip(keys, (gyr_n, acc_n, gyr_w, acc_w), stated, strict=True):
        if abs(sample - density * root) > MAX_NOISE_DIFFERENCE * sample:
            raise CalibrationError(
                f"{path}: {key} is {sample:g}, but the density below it times sqrt(imu_rate) is "
                f"{density * root:g}; correct one of them, or remove the density."
            )
    return ImuNoise(stated[0], stated[1], stated[2], stated[3], config.imu_rate)


CONFIG = "stereo_imu_config.yaml"
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
    "four coefficients that Kalibr calls equidistant, mu mv u0 v0 are fx fy cx cy. MEI: the",
    "unified model, which Kalibr calls omni.",
)


def vins_fusion_files(folder: Path, rig: Rig) -> dict[Path, str]:
    """The configuration and one file per camera."""
    if len(rig.cameras) > 2:
        raise CalibrationError(
            f"{rig.source}: has {len(rig.cameras)} cameras, and VINS-Fusion's files hold at most "
            "two; write kalibr or openvins, which hold all."
        )
    names = [f"cam{number}.yaml" for number in range(len(rig.cameras))]
    cameras = {
        folder / name: opencv_yaml(camodocal_entries(camera, name), _CAMERA)
        for name, camera in zip(names, rig.cameras, strict=True)
    }
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
    return {folder / CONFIG: opencv_yaml(config | _noise_entries(rig.imu), _CONVENTION), **cameras}


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
