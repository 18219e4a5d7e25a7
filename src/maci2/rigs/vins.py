"""VINS-Mono's and VINS-Fusion's configurations read.

body_T_cam0, and VINS-Mono's extrinsicRotation with extrinsicTranslation, are our T_b_c. acc_n and
gyr_n are standard deviations of single samples, acc_w and gyr_w of a bias step divided by the
sample's period: density times the square root of the rate, which the files do not state.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from maci2.errors import CalibrationError
from maci2.lie import se3
from maci2.rigs.camodocal import camodocal_camera
from maci2.rigs.chain import in_first_camera
from maci2.rigs.parts import RigParts, SampleNoise
from maci2.rigs.yaml_schema import (
    Matrix3,
    Matrix4,
    OpenSchema,
    load_yaml,
    rigid_transform,
    validate,
)
from maci2.sensors.rig_types import Camera, ImuNoise
from maci2.types import Array

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
