"""Parts of a calibration given as options: IMU rate, IMU noise, extrinsics."""

import math
from pathlib import Path

import numpy as np
from pydantic import AliasChoices, Field

from maci2.errors import CalibrationError, OptionError
from maci2.lie import se3_inv
from maci2.rigs.imu_file import read_imu_file
from maci2.rigs.parts import ASSUMED_NOISE, MAX_RATE_HZ, Given, NoiseDensities
from maci2.rigs.yaml_schema import Matrix4, OpenSchema, load_yaml, rigid_transform, validate
from maci2.sensors.rig_ranges import require_plausible_noise
from maci2.sensors.rig_types import ImuNoise


class _Extrinsics(OpenSchema):
    T_b_c: Matrix4 | None = Field(
        None, validation_alias=AliasChoices("T_b_c", "T_imu_cam", "T_BS", "body_T_cam0")
    )
    T_cam_imu: Matrix4 | None = None


def given_by(imu_rate: float | None = None, imu_noise: str = "", T_b_c: str = "") -> Given:
    """Parts of a calibration from the options --imu-rate, --imu-noise and --T-b-c."""
    if imu_rate is not None and not 0.0 < imu_rate <= MAX_RATE_HZ:
        raise OptionError(
            f"--imu-rate is {imu_rate:g}, needed more than 0 and at most {MAX_RATE_HZ:g} Hz."
        )
    noise = _noise(imu_noise) if imu_noise else None
    return Given(noise, imu_rate, extrinsics_from(T_b_c, "--T-b-c") if T_b_c else None)


def _noise(text: str) -> ImuNoise | NoiseDensities:
    """Noise of a Kalibr file, or four densities whose rate is not known yet."""
    numbers = _numbers(text)
    if numbers is None:
        return read_imu_file(Path(text))[0]
    if len(numbers) != 4 or not min(numbers) >= 0.0:
        raise OptionError(
            f"--imu-noise is '{text}', needed a Kalibr imu.yaml or GYRO,ACC,GYRO_WALK,ACC_WALK: "
            "four densities in SI units per sqrt(Hz)."
        )
    noise = NoiseDensities(*numbers)
    # At any rate: only the densities are judged.
    require_plausible_noise(noise.densities(ASSUMED_NOISE.rate_hz), "--imu-noise")
    return noise


def extrinsics_from(text: str, option: str) -> tuple[tuple[float, ...], ...]:
    """Pose of the first camera in the body frame: 16 numbers row by row, or a file with them."""
    numbers = _numbers(text)
    if numbers is not None and len(numbers) == 12:
        numbers += [0.0, 0.0, 0.0, 1.0]
    if numbers is None:
        path = Path(text)
        data = load_yaml(path, "T_b_c, the pose of the camera in the IMU frame")
        stated = validate(_Extrinsics, data.get("cam0", data), path)
        if stated.T_b_c is None and stated.T_cam_imu is None:
            raise CalibrationError(
                f"{path}: has neither T_b_c nor T_cam_imu; add one of them, 4x4 numbers."
            )
        if stated.T_b_c is not None:
            T_b_c = rigid_transform(stated.T_b_c, path, "T_b_c")
        else:
            assert stated.T_cam_imu is not None
            T_b_c = se3_inv(rigid_transform(stated.T_cam_imu, path, "T_cam_imu"))
    elif len(numbers) == 16:
        T_b_c = rigid_transform(np.reshape(numbers, (4, 4)).tolist(), Path(option), "T_b_c")
    else:
        raise OptionError(
            f"{option} has {len(numbers)} numbers, needed a file with T_b_c or 16 numbers, row by "
            "row, with commas between: p_b = T_b_c p_c."
        )
    return tuple(tuple(float(value) for value in row) for row in T_b_c)


def _numbers(text: str) -> list[float] | None:
    """Comma-separated finite numbers; None if the text is something else."""
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        return None
    return numbers if all(math.isfinite(number) for number in numbers) else []
