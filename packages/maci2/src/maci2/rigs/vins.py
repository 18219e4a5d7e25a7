"""VINS-Mono's and VINS-Fusion's files, read and written: a configuration with extrinsics and IMU
noise, and one file for each camera, as the library camodocal writes them.

body_T_cam0, and VINS-Mono's extrinsicRotation with extrinsicTranslation, are our T_b_c. acc_n and
gyr_n are standard deviations of single samples, acc_w and gyr_w of a bias step divided by the
sample's period: density times the square root of the rate, which their own files do not state.
"""

import math
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from maci2.errors import CalibrationError
from maci2.rigs.parts import (
    FOCAL,
    RADTAN,
    AnyNoise,
    RigParts,
    StatedNoise,
    make_camera,
    unknown_model,
)
from maci2.rigs.yaml_files import (
    Matrix3,
    Matrix4,
    OpencvMatrix,
    OpenSchema,
    load_yaml,
    opencv_yaml,
    rigid_transform,
    validate,
)
from maci2.sensors.rig_types import Camera, CameraModel, DistortionModel, ImuNoise, Rig
from maci2.types import Array

_Kind = tuple[CameraModel, DistortionModel, tuple[str, ...], tuple[str, ...]]
_KINDS: dict[str, _Kind] = {
    "PINHOLE": ("pinhole", "radtan", FOCAL, RADTAN[:4]),
    "PINHOLE_FULL": ("pinhole", "radtan", FOCAL, RADTAN),
    "KANNALA_BRANDT": (
        "pinhole", "equidistant", ("mu", "mv", "u0", "v0"), ("k2", "k3", "k4", "k5"),
    ),
    "MEI": ("omni", "radtan", ("gamma1", "gamma2", "u0", "v0"), RADTAN[:4]),
}  # fmt: skip
"""Models of camodocal: ours, and its names of fx, fy, cx, cy and of the coefficients."""

_NOISE = {
    "gyr_n": "gyr_noise_density", "acc_n": "acc_noise_density",
    "gyr_w": "gyr_random_walk", "acc_w": "acc_random_walk",
}  # fmt: skip
"""Noise of samples in the order of `ImuNoise`, and keys of ours for the densities."""

MAX_NOISE_DIFFERENCE = 1e-9
"""Largest relative difference between acc_n and the density it was computed from; more means that
one was edited."""

ESTIMATE_FROM_NOTHING = 2
"""Value of estimate_extrinsic for which the extrinsics in the file are meaningless."""


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
    if keys.model_type.upper() not in _KINDS:
        raise CalibrationError(
            f"{path}: model_type is '{keys.model_type[:40]}', needed one of "
            f"{', '.join(_KINDS)}. Calibrate with one of them."
        )
    model, distortion, focal, lens = _KINDS[keys.model_type.upper()]
    lens_group = "projection" if distortion == "equidistant" else "distortion"
    return make_camera(
        path,
        _numbers(keys, "projection", focal, path),
        _numbers(keys, lens_group, lens, path),
        distortion,
        (keys.image_width, keys.image_height),
        T_b_c,
        camera_model=model,
        model_parameters=_numbers(keys, "mirror", ("xi",), path) if model == "omni" else (),
        topic=topic,
    )


def _numbers(keys: _CameraKeys, group: str, names: tuple[str, ...], path: Path) -> list[float]:
    values = getattr(keys, f"{group}_parameters")
    if values is None:
        raise CalibrationError(f"{path}: key '{group}_parameters' is missing; add it.")
    for name in names:
        if name not in values:
            raise CalibrationError(f"{path}: key '{group}_parameters.{name}' is missing; add it.")
    return [values[name] for name in names]


def camodocal_entries(camera: Camera, name: str) -> dict[str, Any]:
    """Keys and values of a camera file; raises for models that VINS-Fusion does not know."""
    ours = (camera.camera_model, camera.distortion_model.replace("none", "radtan"))
    count = len(camera.distortion)
    fitting = [kind for kind, (*models, _, lens) in _KINDS.items()
               if tuple(models) == ours and len(lens) >= count]  # fmt: skip
    if not fitting:
        remedy = "pinhole-radtan, pinhole-equidistant or omni-radtan"
        raise unknown_model(camera, name, "VINS-Fusion", remedy)
    *_, focal_names, lens_names = _KINDS[fitting[0]]
    lens = [*camera.distortion.tolist(), *[0.0] * (len(lens_names) - count)]
    entries: dict[str, Any] = {
        "model_type": fitting[0],
        "camera_name": name.removesuffix(".yaml"),
        "image_width": camera.resolution[0],
        "image_height": camera.resolution[1],
    }
    distortion = dict(zip(lens_names, lens, strict=True))
    projection = dict(zip(focal_names, camera.intrinsics.tolist(), strict=True))
    if camera.distortion_model == "equidistant":
        return entries | {"projection_parameters": distortion | projection}
    if camera.camera_model == "omni":
        entries["mirror_parameters"] = {"xi": float(camera.model_parameters[0])}
    return entries | {"distortion_parameters": distortion, "projection_parameters": projection}


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
        tuple(cameras),
        extrinsics_known=placed,
        noise=_noise(config, path) if config.imu != 0 else None,
        rate_hz=config.imu_rate,
        time_offset_s=config.td,
    )


def _mono(data: dict[str, Any], config: _Config, path: Path) -> Camera:
    T_b_c = np.eye(4)
    if config.extrinsicRotation is not None:
        stated = config.extrinsicTranslation
        p = stated.get("data") if isinstance(stated, dict) else stated
        numbers = p if isinstance(p, list) and all(isinstance(v, int | float) for v in p) else []
        if len(numbers) != 3 or not all(map(math.isfinite, numbers)):
            raise CalibrationError(f"{path}: extrinsicTranslation needs three numbers; add it.")
        T = np.column_stack([config.extrinsicRotation, np.array(numbers, dtype=np.float64)])
        T_b_c = rigid_transform(T, path, "extrinsicRotation")
    return camodocal_camera(data, path, T_b_c, config.image_topic or "")


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
        # VINS-Fusion takes every name, even one that begins with a slash, relative to the
        # configuration's folder; an absolute path of another machine means the file of that name
        # there.
        file = path.parent / files[number].lstrip("/")
        copied = path.parent / Path(files[number]).name
        file = copied if copied.is_file() and not file.is_file() else file
        data = load_yaml(file, f"cam{number}_calib, a camera of VINS-Fusion")
        cameras.append(camodocal_camera(data, file, T_b_c, topics[number] or ""))
    return cameras


def _noise(config: _Config, path: Path) -> AnyNoise | None:
    """Densities if the file states them, otherwise noise of samples."""
    samples = [getattr(config, key) for key in _NOISE]
    densities = [getattr(config, key) for key in _NOISE.values()]
    if None in samples:
        return None
    if config.imu_rate is None or None in densities:
        return StatedNoise(*samples, of_samples=True)
    root = math.sqrt(config.imu_rate)
    for key, sample, density in zip(_NOISE, samples, densities, strict=True):
        if abs(sample - density * root) > MAX_NOISE_DIFFERENCE * sample:
            raise CalibrationError(
                f"{path}: {key} is {sample:g}, but the density below it times sqrt(imu_rate) is "
                f"{density * root:g}; correct one of them, or remove the density."
            )
    return StatedNoise(*densities).densities(config.imu_rate)


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
    config |= {
        f"image{k}_topic": camera.topic for k, camera in enumerate(rig.cameras) if camera.topic
    }
    config |= {f"cam{number}_calib": name for number, name in enumerate(names)}
    config |= {"image_width": width, "image_height": height, "estimate_extrinsic": 0}
    config |= {f"body_T_cam{k}": OpencvMatrix(cam.T_b_c) for k, cam in enumerate(rig.cameras)}
    config["td"] = float(rig.time_offset_s)
    return {folder / CONFIG: opencv_yaml(config | _noise_entries(rig.imu), _CONVENTION), **cameras}


def _noise_entries(noise: ImuNoise) -> dict[str, Any]:
    densities = dict(zip(_NOISE, astuple(noise)[:4], strict=True))
    keys = ("acc_n", "gyr_n", "acc_w", "gyr_w")
    return {
        **{key: densities[key] * math.sqrt(noise.rate_hz) for key in keys},
        "g_norm": 9.81,
        "# densities": "What acc_n to gyr_w were made from, as Kalibr states it; VINS-Fusion does "
        "not read these.",
        "imu_rate": noise.rate_hz,
        **{_NOISE[key]: densities[key] for key in keys},
    }
