"""Camera chains cam0, cam1, ... as Kalibr, OpenVINS, MSCKF-VIO and 4Seasons write them.

T_cam_imu takes IMU points to the camera, T_imu_cam is its inverse and our T_b_c; T_cn_cnm1, also
written T_cam1_cam0, takes points of the camera before to this one. MSCKF-VIO's T_imu_body places
another frame on the robot and says nothing of the cameras: the IMU is the body here.
"""

import logging
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic import Field, PositiveInt

from maci2.errors import CalibrationError
from maci2.lie import se3_inv
from maci2.rigs.lens import PARAMETERS, make_camera
from maci2.rigs.parts import RigParts
from maci2.rigs.yaml_schema import CarefulSchema, Matrix4, rigid_transform, validate
from maci2.sensors.clocks import common_time_offset
from maci2.sensors.rig_types import Camera, CameraModel, DistortionModel
from maci2.types import Array

_LOG = logging.getLogger(__name__)

Model = TypeVar("Model", CameraModel, DistortionModel)

ROLLING_SHUTTER = "-rs"
"""Suffix of Kalibr's camera models for rolling shutters."""

CAMERA_KEY = re.compile(r"cam(\d+)")
_BESIDE = re.compile(r"T_cam(\d+)_cam(\d+)")

_CAMERA_MODELS: dict[str, CameraModel] = {
    "pinhole": "pinhole", "omni": "omni", "mei": "omni", "ds": "ds", "eucm": "eucm",
}  # fmt: skip
DISTORTION_NAMES: dict[str, DistortionModel] = {
    "radtan": "radtan", "plumb_bob": "radtan", "radial-tangential": "radtan",
    "rational_polynomial": "radtan", "equidistant": "equidistant", "equi": "equidistant",
    "kannala_brandt": "equidistant", "fisheye": "equidistant", "fov": "fov", "none": "none",
}  # fmt: skip
"""Names of the distortion models in different tools."""


class ChainEntry(CarefulSchema):
    """One camera of a chain."""

    camera_model: str = "pinhole"
    intrinsics: list[float]
    distortion_model: str = "none"
    distortion_coeffs: list[float] | None = None
    resolution: tuple[PositiveInt, PositiveInt]
    T_cam_imu: Matrix4 | None = None
    T_imu_cam: Matrix4 | None = None
    T_cn_cnm1: Matrix4 | None = None
    timeshift_cam_imu: float | None = None
    line_delay: float = 0.0
    cam_overlaps: list[int] = Field(default_factory=list)
    rostopic: str | None = None


def read_chain(data: dict[str, Any], path: Path, tool: str) -> RigParts:
    """Cameras of a chain; without T_cam_imu, only their relative poses are known."""
    entries = _entries(data, path)
    cameras = _cameras(entries, path)
    return RigParts(
        tool,
        path,
        cameras,
        extrinsics_known=has_extrinsics(entries),
        time_offset_s=common_time_offset(
            [entry.timeshift_cam_imu for entry in entries.values()], str(path)
        ),
    )


def has_extrinsics(entries: dict[str, ChainEntry]) -> bool:
    """Whether any camera has extrinsics."""
    return any(
        entry.T_cam_imu is not None or entry.T_imu_cam is not None for entry in entries.values()
    )


def _entries(data: dict[str, Any], path: Path) -> dict[str, ChainEntry]:
    """Entries in order of their numbers, which must start at 0 without gaps."""
    keys = sorted((key for key in data if CAMERA_KEY.fullmatch(key)), key=lambda key: int(key[3:]))
    for number, key in enumerate(keys):
        if key != f"cam{number}":
            raise CalibrationError(
                f"{path}: cam{number} is missing at the top of a camchain, found {key}; number the "
                "cameras from cam0 on."
            )
    return {key: _entry(data, key, path) for key in keys}


def _entry(data: dict[str, Any], key: str, path: Path) -> ChainEntry:
    value = data[key]
    entry = validate(ChainEntry, value, path, key)
    if entry.T_cn_cnm1 is not None:
        return entry
    # 4Seasons names both cameras, in the entry or at the top.
    for name, matrix in (*value.items(), *data.items()):
        pair = _BESIDE.fullmatch(name)
        if pair and (int(pair[1]), int(pair[2])) == (int(key[3:]), int(key[3:]) - 1):
            beside = validate(ChainEntry, {**value, "T_cn_cnm1": matrix}, path, key)
            return beside
    return entry


def _cameras(entries: dict[str, ChainEntry], path: Path) -> tuple[Camera, ...]:
    """Cameras in the body frame, or in that of cam0 if no extrinsics are stated."""
    known = has_extrinsics(entries)
    cameras: list[Camera] = []
    for key, entry in entries.items():
        first = not known and not cameras
        T_b_c = np.eye(4) if first else _camera_pose(entry, cameras, path, key)
        cameras.append(_camera(entry, T_b_c, path, key))
    return tuple(cameras)


def _camera_pose(entry: ChainEntry, before: list[Camera], path: Path, key: str) -> Array:
    """T_b_c from T_imu_cam or T_cam_imu, otherwise chained from the previous camera."""
    if entry.T_imu_cam is not None:
        return rigid_transform(entry.T_imu_cam, path, f"{key}.T_imu_cam")
    if entry.T_cam_imu is not None:
        return se3_inv(rigid_transform(entry.T_cam_imu, path, f"{key}.T_cam_imu"))
    if entry.T_cn_cnm1 is None or not before:
        raise CalibrationError(
            f"{path}: {key} has no T_cam_imu; needed for cam0, and T_cam_imu or T_cn_cnm1 for the "
            "others. Use the file that Kalibr's camera-IMU calibration wrote (camchain-imucam)."
        )
    T_cn_cnm1 = rigid_transform(entry.T_cn_cnm1, path, f"{key}.T_cn_cnm1")
    return before[-1].T_b_c @ se3_inv(T_cn_cnm1)


def _camera(entry: ChainEntry, T_b_c: Array, path: Path, key: str) -> Camera:
    """Camera of an entry; Kalibr puts the model's own parameters before fx, fy, cx, cy."""
    # Kalibr's command line, and some people's files, name both models together.
    name, _, beside = entry.camera_model.removesuffix(ROLLING_SHUTTER).partition("-")
    if entry.camera_model.endswith(ROLLING_SHUTTER) or entry.line_delay != 0.0:
        _LOG.warning(
            "%s: %s has a rolling shutter, which is taken as a global one: images of fast motion "
            "will disagree with the IMU.", path, key,
        )  # fmt: skip
    model = _known(name, _CAMERA_MODELS, path, f"{key}.camera_model")
    distortion = _known(entry.distortion_model, DISTORTION_NAMES, path, f"{key}.distortion_model")
    if beside and _known(beside, DISTORTION_NAMES, path, f"{key}.camera_model") != distortion:
        raise CalibrationError(
            f"{path}: {key}.camera_model is '{entry.camera_model[:40]}', but its distortion_model "
            f"'{entry.distortion_model[:40]}'; correct one of them."
        )
    own = len(PARAMETERS[model])
    if len(entry.intrinsics) != own + 4:
        names = ", ".join((*PARAMETERS[model], "fx", "fy", "cx", "cy"))
        raise CalibrationError(
            f"{path}: {key}.intrinsics has {len(entry.intrinsics)} numbers, needed {own + 4} for "
            f"the model '{model}': {names}."
        )
    return make_camera(
        f"{path}: {key}",
        entry.intrinsics[own:],
        entry.distortion_coeffs or [],
        distortion,
        entry.resolution,
        T_b_c,
        camera_model=model,
        model_parameters=entry.intrinsics[:own],
        topic=entry.rostopic or "",
    )


def _known(name: str, models: dict[str, Model], path: Path, key: str) -> Model:
    found = models.get(name.lower())
    if found is None:
        accepted = ", ".join(f"'{value}'" for value in dict.fromkeys(models.values()))
        raise CalibrationError(f"{path}: {key} is '{name[:40]}', needed one of {accepted}.")
    return found


def lens_entries(camera: Camera) -> dict[str, Any]:
    """Model, intrinsics and distortion of a camera, as a chain states them."""
    return {
        "camera_model": camera.camera_model,
        "distortion_coeffs": camera.distortion.tolist(),
        "distortion_model": camera.distortion_model,
        "intrinsics": [*camera.model_parameters.tolist(), *camera.intrinsics.tolist()],
    }


def require_four(camera: Camera, source: str, tool: str) -> None:
    """Raise for distortion with more coefficients than a chain holds."""
    if len(camera.distortion) > 4:
        raise CalibrationError(
            f"{source}: radtan distortion has {len(camera.distortion)} coefficients, and files of "
            f"{tool} hold k1, k2, p1, p2 alone; calibrate with four."
        )


def in_first_camera(cameras: tuple[Camera, ...]) -> tuple[Camera, ...]:
    """Cameras in the frame of the first one."""
    T_c0_b = se3_inv(cameras[0].T_b_c)
    return tuple(replace(camera, T_b_c=T_c0_b @ camera.T_b_c) for camera in cameras)
