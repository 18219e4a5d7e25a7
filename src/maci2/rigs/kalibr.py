"""Kalibr's YAML: camera chains with their place on the IMU, and IMU noise.

Kalibr's T_cam_imu takes IMU points to the camera; our T_b_c is its inverse.
"""

import logging
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from maci2.errors import CalibrationError
from maci2.lie import se3_inv
from maci2.rigs.yaml_schema import (
    Matrix3,
    Matrix4,
    Schema,
    load_yaml,
    require_identity,
    rigid_transform,
    validate,
)
from maci2.sensors.clocks import common_time_offset
from maci2.sensors.types import Camera, ImuNoise, Rig
from maci2.types import NS, Array, Stamps

_LOG = logging.getLogger(__name__)

CAMCHAIN_NAMES = ("camchain.yaml", "camchain-imucam.yaml", "kalibr_imucam_chain.yaml")
IMU_NAMES = ("imu_config.yaml", "imu.yaml", "kalibr_imu_chain.yaml")

_IMU_REMEDY = (
    "Write imu.yaml with the noise of the IMU's data sheet, SI units per sqrt(Hz): "
    "gyroscope_noise_density, gyroscope_random_walk, accelerometer_noise_density, "
    "accelerometer_random_walk, and update_rate [Hz]."
)


class _CameraEntry(Schema):
    """One camera of a camchain."""

    camera_model: Literal["pinhole"]
    intrinsics: tuple[PositiveFloat, PositiveFloat, float, float]
    distortion_model: Literal["radtan", "equidistant", "none"]
    distortion_coeffs: tuple[float, ...] = ()
    resolution: tuple[PositiveInt, PositiveInt]
    T_cam_imu: Matrix4 | None = None
    T_cn_cnm1: Matrix4 | None = None
    timeshift_cam_imu: float | None = None
    cam_overlaps: tuple[int, ...] = ()
    rostopic: str = ""


class _ImuEntry(Schema):
    """Noise of one IMU; intrinsics are accepted only where they do nothing."""

    accelerometer_noise_density: PositiveFloat
    accelerometer_random_walk: NonNegativeFloat
    gyroscope_noise_density: PositiveFloat
    gyroscope_random_walk: NonNegativeFloat
    update_rate: PositiveFloat
    time_offset: float = 0.0
    rostopic: str = ""
    model: str = "calibrated"
    T_i_b: Matrix4 | None = None
    Tw: Matrix3 | None = None
    Ta: Matrix3 | None = None
    R_IMUtoGYRO: Matrix3 | None = None
    R_IMUtoACC: Matrix3 | None = None
    Tg: Matrix3 | None = None


def read_rig(path: Path, own_noise: ImuNoise | None = None) -> Rig:
    """A rig from a folder with a camchain and an IMU file, or from a camchain with the IMU file
    beside it; without an IMU file, the recording's `own_noise` stands.

    A camchain without T_cam_imu, as Kalibr's camera calibration writes it, gives a rig whose
    extrinsics are not known. Kalibr does not say the frame rate: it is NaN.
    """
    camchain = _find(path, CAMCHAIN_NAMES, "camchain") if path.is_dir() else path
    entries = _entries(camchain)
    own = own_noise is not None and not _candidates(camchain.parent, IMU_NAMES, "imu")
    noise = own_noise if own else read_imu_yaml(_find(camchain.parent, IMU_NAMES, "imu"))
    assert noise is not None
    return Rig(
        _cameras(entries, camchain),
        noise,
        str(camchain),
        extrinsics_known=_has_extrinsics(entries),
        time_offset_s=common_time_offset(
            [entry.timeshift_cam_imu for entry in entries.values()], str(camchain)
        ),
    )


def read_camchain(path: Path) -> tuple[Camera, ...]:
    """The cameras cam0, cam1, ... of a camchain-imucam file."""
    entries = _entries(path)
    if not _has_extrinsics(entries):
        raise CalibrationError(
            f"{path}: cam0 has no T_cam_imu; needed for cam0, and T_cam_imu or T_cn_cnm1 for the "
            "others. Use the file that Kalibr's camera-IMU calibration or `maci2 calibrate` wrote "
            "(camchain-imucam)."
        )
    return _cameras(entries, path)


def require_extrinsics(rig: Rig, what: str) -> None:
    """Raise where the cameras' place on the IMU, which `what` needs, is not known."""
    if not rig.extrinsics_known:
        raise CalibrationError(
            f"{rig.source}: no camera has T_cam_imu, so their place on the IMU is not known, and "
            f"{what} cannot do without. Run `maci2 calibrate` with this file as --rig first, and "
            "give the camchain-imucam.yaml that it writes."
        )


def _entries(path: Path) -> dict[str, _CameraEntry]:
    data = load_yaml(path, "a Kalibr camchain")
    for number, key in enumerate(data):
        if key != f"cam{number}":
            needed = f"cam{number}" if re.fullmatch(r"cam\d+", key) else "cam0, cam1, ..."
            raise CalibrationError(
                f"{path}: unknown key '{key}' at the top of a camchain; accepted is {needed}."
            )
    return {key: validate(_CameraEntry, value, path, key) for key, value in data.items()}


def _has_extrinsics(entries: dict[str, _CameraEntry]) -> bool:
    return any(entry.T_cam_imu is not None for entry in entries.values())


def _cameras(entries: dict[str, _CameraEntry], path: Path) -> tuple[Camera, ...]:
    """In the body frame, or in that of cam0 where no extrinsics are stated."""
    known = _has_extrinsics(entries)
    cameras: list[Camera] = []
    for key, entry in entries.items():
        first = not known and not cameras
        T_c_b = np.eye(4) if first else _camera_from_imu(entry, cameras, path, key)
        cameras.append(_camera(entry, se3_inv(T_c_b), path, key))
    return tuple(cameras)


def read_imu_yaml(path: Path) -> ImuNoise:
    """IMU noise from an imu.yaml, with the top key `imu0` or without."""
    data: Any = load_yaml(path, "the noise of an IMU")
    place = ""
    if "imu0" in data:
        if len(data) > 1:
            others = ", ".join(sorted(set(data) - {"imu0"}))
            raise CalibrationError(f"{path}: unknown key '{others}' beside imu0; remove it.")
        data, place = data["imu0"], "imu0"
    entry = validate(_ImuEntry, data, path, place)
    _require_no_intrinsics(entry, path)
    return ImuNoise(
        density_gyro=entry.gyroscope_noise_density,
        density_acc=entry.accelerometer_noise_density,
        walk_gyro=entry.gyroscope_random_walk,
        walk_acc=entry.accelerometer_random_walk,
        rate_hz=entry.update_rate,
    )


def with_frame_rates(rig: Rig, stamps_ns: tuple[Stamps, ...]) -> Rig:
    """Kalibr's files do not say the frame rate; the stamps do."""
    cameras = list(rig.cameras)
    for number, stamps in enumerate(stamps_ns[: len(cameras)]):
        if np.isnan(cameras[number].rate_hz) and len(stamps) > 1:
            rate_hz = NS / float(np.median(np.diff(stamps)))
            cameras[number] = replace(cameras[number], rate_hz=rate_hz)
    return replace(rig, cameras=tuple(cameras))


def _candidates(folder: Path, names: tuple[str, ...], prefix: str) -> list[Path]:
    """Files of these names, the first name first; else all that begin with `prefix`."""
    named = [folder / name for name in names if (folder / name).is_file()]
    return named[:1] or sorted(folder.glob(f"{prefix}*.yaml"))


def _find(folder: Path, names: tuple[str, ...], prefix: str) -> Path:
    """The one file to read."""
    files = _candidates(folder, names, prefix)
    if len(files) == 1:
        return files[0]
    found = f"found {', '.join(file.name for file in files)}" if files else "found none"
    remedy = "Rename the one to use." if files or prefix != "imu" else _IMU_REMEDY
    raise CalibrationError(
        f"{folder}: no single file to read; {found}, needed one of {', '.join(names)} "
        f"or exactly one {prefix}*.yaml. {remedy}"
    )


def _camera_from_imu(entry: _CameraEntry, before: list[Camera], path: Path, key: str) -> Array:
    """T_c_b from T_cam_imu, else chained from the camera before."""
    if entry.T_cam_imu is not None:
        return rigid_transform(entry.T_cam_imu, path, f"{key}.T_cam_imu")
    if entry.T_cn_cnm1 is None or not before:
        raise CalibrationError(
            f"{path}: {key} has no T_cam_imu; needed for cam0, and T_cam_imu or T_cn_cnm1 for the "
            "others. Use the file that Kalibr's camera-IMU calibration wrote (camchain-imucam)."
        )
    T_cn_cnm1 = rigid_transform(entry.T_cn_cnm1, path, f"{key}.T_cn_cnm1")
    return T_cn_cnm1 @ se3_inv(before[-1].T_b_c)


def _camera(entry: _CameraEntry, T_b_c: Array, path: Path, key: str) -> Camera:
    needed = 0 if entry.distortion_model == "none" else 4
    found = len(entry.distortion_coeffs)
    if found != needed and not (needed == 0 and not any(entry.distortion_coeffs)):
        raise CalibrationError(
            f"{path}: {key}.distortion_coeffs has {found} numbers, needed {needed} for the model "
            f"'{entry.distortion_model}'."
        )
    return Camera(
        T_b_c=T_b_c,
        intrinsics=np.array(entry.intrinsics),
        distortion=np.array(entry.distortion_coeffs) if needed else np.zeros(4),
        distortion_model=entry.distortion_model,
        resolution=entry.resolution,
        rate_hz=math.nan,
        topic=entry.rostopic,
    )


def _require_no_intrinsics(entry: _ImuEntry, path: Path) -> None:
    """IMU intrinsics would be dropped in silence: they must do nothing."""
    remedy = "IMU intrinsics are not applied: correct the samples first and set it to identity."
    for key in ("T_i_b", "Tw", "Ta", "R_IMUtoGYRO", "R_IMUtoACC"):
        rows = getattr(entry, key)
        if rows is not None:
            require_identity(rows, path, key, remedy)
    if entry.Tg is not None and np.abs(entry.Tg).max() > 1e-9:
        raise CalibrationError(
            f"{path}: Tg has an entry of {np.abs(entry.Tg).max():.3g}, needed 0; g-sensitivity is "
            "not applied: correct the samples first and set it to zero."
        )
    if entry.time_offset != 0.0:
        _LOG.warning(
            "%s: time_offset is %g s and is not applied: shift the IMU stamps by it.",
            path, entry.time_offset,
        )  # fmt: skip
