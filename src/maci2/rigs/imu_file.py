"""Kalibr's and OpenVINS' IMU files: noise densities, rate, and errors of scale and alignment.

Kalibr: gyro = M C_gyro_i w + A C_gyro_i a, acc = M a. OpenVINS: gyro = Tw R_IMUtoGYRO w + Tg a,
acc = Ta R_IMUtoACC a. Both with the angular rate w and the specific force a in the IMU frame.
"""

import logging
import re
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import NonNegativeFloat, PositiveFloat

from maci2.errors import CalibrationError
from maci2.rigs.parts import NoiseDensities
from maci2.rigs.yaml_schema import (
    CarefulSchema,
    Matrix3,
    Matrix4,
    OpenSchema,
    load_yaml,
    require_identity,
    rigid_transform,
    validate,
)
from maci2.sensors.imu_intrinsics import ideal_intrinsics, is_ideal
from maci2.sensors.rig_ranges import require_plausible_noise
from maci2.sensors.rig_types import ImuIntrinsics, ImuNoise
from maci2.types import Array

_LOG = logging.getLogger(__name__)

IMU_KEY = re.compile(r"imu\d+")

MAX_MISALIGNMENT = 0.5
"""Largest difference of M from the identity; more is neither scale nor misalignment."""

_EYE = np.eye(3).tolist()


class _Gyroscopes(OpenSchema):
    """Kalibr's errors of the gyroscope."""

    M: Matrix3 = _EYE
    C_gyro_i: Matrix3 = _EYE
    A: Matrix3 | None = None


class _Accelerometers(OpenSchema):
    """Kalibr's errors of the accelerometer."""

    M: Matrix3 = _EYE
    rx_i: list[float] | None = None
    ry_i: list[float] | None = None
    rz_i: list[float] | None = None


class _ImuEntry(CarefulSchema):
    """One IMU of a file, as both tools write it."""

    accelerometer_noise_density: PositiveFloat
    accelerometer_random_walk: NonNegativeFloat
    gyroscope_noise_density: PositiveFloat
    gyroscope_random_walk: NonNegativeFloat
    update_rate: PositiveFloat | None = None
    time_offset: float = 0.0
    model: str = "calibrated"
    rostopic: str = ""
    T_i_b: Matrix4 | None = None
    accelerometers: _Accelerometers | None = None
    gyroscopes: _Gyroscopes | None = None
    Tw: Matrix3 = _EYE
    Ta: Matrix3 = _EYE
    R_IMUtoGYRO: Matrix3 = _EYE
    R_IMUtoACC: Matrix3 = _EYE
    Tg: Matrix3 | None = None


def imu_entries(data: dict[str, Any]) -> list[dict[str, Any]]:
    """The groups imu0, imu1, ... of a file."""
    return [v for k, v in data.items() if IMU_KEY.fullmatch(k) and isinstance(v, dict)]


def read_imu_file(path: Path) -> tuple[ImuNoise | NoiseDensities, ImuIntrinsics | None]:
    """Noise (perhaps without rate) and, if stated, errors of the first IMU of a file."""
    data: Any = load_yaml(path, "the noise of an IMU")
    key = min((key for key in data if IMU_KEY.fullmatch(key)), default="")
    entry = validate(_ImuEntry, data[key] if key else data, path, key)
    stated = NoiseDensities(
        gyro=entry.gyroscope_noise_density,
        acc=entry.accelerometer_noise_density,
        walk_gyro=entry.gyroscope_random_walk,
        walk_acc=entry.accelerometer_random_walk,
    )
    noise = stated if entry.update_rate is None else stated.densities(entry.update_rate)
    if isinstance(noise, ImuNoise):
        require_plausible_noise(noise, str(path))
    if entry.T_i_b is not None:
        remedy = "the IMU must be the body: give the file of the IMU that the cameras refer to."
        require_identity(entry.T_i_b, path, "T_i_b", remedy)
    if entry.time_offset != 0.0:
        _LOG.warning(
            "%s: time_offset is %g s and is not applied: shift the IMU timestamps by it.",
            path, entry.time_offset,
        )  # fmt: skip
    return noise, _intrinsics(entry, path)


def _intrinsics(entry: _ImuEntry, path: Path) -> ImuIntrinsics | None:
    """Errors as either tool states them; None if they are the identity."""
    if entry.accelerometers is not None or entry.gyroscopes is not None:
        found = _kalibr_intrinsics(entry, path)
    else:
        ideal = ideal_intrinsics()
        found = ImuIntrinsics(
            M_gyro=_alignment(entry.Tw, path, "Tw"),
            R_gyro_b=_rotation(entry.R_IMUtoGYRO, path, "R_IMUtoGYRO"),
            M_acc=_alignment(entry.Ta, path, "Ta"),
            R_acc_b=_rotation(entry.R_IMUtoACC, path, "R_IMUtoACC"),
            g_sensitivity=np.zeros((3, 3)) if entry.Tg is None else _sensitivity(entry.Tg, path),
            offset_gyro=ideal.offset_gyro,
            offset_acc=ideal.offset_acc,
        )
    return None if is_ideal(found) else found


def _kalibr_intrinsics(entry: _ImuEntry, path: Path) -> ImuIntrinsics:
    accelerometers = entry.accelerometers or _Accelerometers()
    gyroscopes = entry.gyroscopes or _Gyroscopes()
    for name in ("rx_i", "ry_i", "rz_i"):
        lever = getattr(accelerometers, name)
        if lever is not None and np.abs(lever).max(initial=0.0) > 1e-6:
            raise CalibrationError(
                f"{path}: accelerometers.{name} is {lever}, needed 0: the size effect (axes that "
                "do not sit at one point) is not undone. Calibrate with scale-misalignment."
            )
    R_gyro_b = _rotation(gyroscopes.C_gyro_i, path, "gyroscopes.C_gyro_i")
    A = np.zeros((3, 3)) if gyroscopes.A is None else _sensitivity(gyroscopes.A, path)
    ideal = ideal_intrinsics()
    return ImuIntrinsics(
        M_gyro=_alignment(gyroscopes.M, path, "gyroscopes.M"),
        R_gyro_b=R_gyro_b,
        M_acc=_alignment(accelerometers.M, path, "accelerometers.M"),
        R_acc_b=ideal.R_acc_b,
        g_sensitivity=A @ R_gyro_b,
        offset_gyro=ideal.offset_gyro,
        offset_acc=ideal.offset_acc,
    )


def _alignment(rows: Matrix3, path: Path, key: str) -> Array:
    M = np.array(rows)
    off = float(np.abs(M - np.eye(3)).max())
    if off > MAX_MISALIGNMENT:
        raise CalibrationError(
            f"{path}: {key} differs from the identity by {off:.3g}, needed at most "
            f"{MAX_MISALIGNMENT}: no scale or misalignment of an IMU is as large."
        )
    return M


def _rotation(rows: Matrix3, path: Path, key: str) -> Array:
    T = [[*row, 0.0] for row in rows] + [[0.0, 0.0, 0.0, 1.0]]
    return rigid_transform(T, path, key)[:3, :3]


def _sensitivity(rows: Matrix3, path: Path) -> Array:
    A = np.array(rows)
    if np.abs(A).max() > MAX_MISALIGNMENT:
        raise CalibrationError(
            f"{path}: the g-sensitivity has an entry of {np.abs(A).max():.3g} rad/s per m/s^2, "
            f"needed at most {MAX_MISALIGNMENT}."
        )
    return A
