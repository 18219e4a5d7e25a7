"""Calibrations named by users: files of any tool, options that complete them, and conversion.

The tool that wrote a file is recognized from its contents.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from pydantic import AliasChoices, Field

from maci2.errors import CalibrationError, OptionError
from maci2.files import read_json, write_together
from maci2.geometry import se3_inv
from maci2.rigs import basalt, devices, kalibr, orbslam, vins
from maci2.rigs.parts import (
    ASSUMED_NOISE,
    MAX_RATE_HZ,
    NOTHING_GIVEN,
    AnyNoise,
    Given,
    RigParts,
    StatedNoise,
    assemble,
    require_extrinsics,
    require_noise,
)
from maci2.rigs.recognition import FileKind, identify, identify_lines, identify_text
from maci2.rigs.yaml_files import (
    Matrix4,
    OpenSchema,
    load_yaml,
    read_text,
    rigid_transform,
    validate,
)
from maci2.sensors.rig_types import ImuNoise, Rig
from maci2.sensors.validation import require_plausible_noise
from maci2.types import Array


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


def _noise(text: str) -> AnyNoise:
    """Noise of a Kalibr file, or four densities whose rate is not known yet."""
    numbers = _numbers(text)
    if numbers is None:
        return kalibr.read_imu_file(Path(text))[0]
    if len(numbers) != 4 or not min(numbers) >= 0.0:
        raise OptionError(
            f"--imu-noise is '{text}', needed a Kalibr imu.yaml or GYRO,ACC,GYRO_WALK,ACC_WALK: "
            "four densities in SI units per sqrt(Hz)."
        )
    noise = StatedNoise(*numbers)
    # At any rate: only the densities are judged.
    require_plausible_noise(noise.densities(ASSUMED_NOISE.rate_hz), "--imu-noise")
    return noise


def extrinsics_from(text: str, option: str) -> tuple[tuple[float, ...], ...]:
    """Pose of the first camera in the body frame: 16 numbers row by row, or a file with them."""
    numbers = _numbers(text)
    if numbers is None:
        T_b_c = _pose_in_file(Path(text))
    elif len(numbers) in (12, 16):
        T_b_c = rigid_transform(np.reshape(numbers, (-1, 4)), Path(option), "T_b_c")
    else:
        raise OptionError(
            f"{option} has {len(numbers)} numbers, needed a file with T_b_c or 16 numbers, row by "
            "row, with commas between: p_b = T_b_c p_c."
        )
    return tuple(tuple(row) for row in T_b_c.tolist())


def _pose_in_file(path: Path) -> Array:
    """T_b_c of a file, or the inverse of its T_cam_imu."""
    data = load_yaml(path, "T_b_c, the pose of the camera in the IMU frame")
    stated = validate(_Extrinsics, data.get("cam0", data), path)
    if stated.T_b_c is not None:
        return rigid_transform(stated.T_b_c, path, "T_b_c")
    if stated.T_cam_imu is not None:
        return se3_inv(rigid_transform(stated.T_cam_imu, path, "T_cam_imu"))
    raise CalibrationError(
        f"{path}: has neither T_b_c nor T_cam_imu; add one of them, 4x4 numbers."
    )


def _numbers(text: str) -> list[float] | None:
    """Comma-separated finite numbers; None if the text is something else."""
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        return None
    return numbers if all(math.isfinite(number) for number in numbers) else []


Tool = Literal["kalibr", "openvins", "vins-fusion", "orbslam3"]
TOOLS: tuple[Tool, ...] = get_args(Tool)

_READERS: dict[str, Callable[[Path], RigParts]] = {
    "kalibr": kalibr.read_kalibr, "openvins": kalibr.read_openvins, "vins": vins.read_vins,
    "camodocal": vins.read_camera_file, "orbslam": orbslam.read_orbslam,
    "basalt": basalt.read_basalt, "depthai": devices.read_depthai,
    "realsense": devices.read_realsense, "zed": devices.read_zed,
    "camera_info": devices.read_camera_info,
}  # fmt: skip

_CONFIGS = (kalibr.OPENVINS_CONFIG, vins.CONFIG, orbslam.CONFIG, orbslam.MONOCULAR_CONFIG)
"""Usual names of configuration files, ours and OpenVINS'."""


def read_any_rig(
    path: Path, given: Given = NOTHING_GIVEN, own_noise: ImuNoise | None = None
) -> Rig:
    """Read a rig from the files of any supported tool.

    `path` is the file that holds the cameras, or its folder; `given` completes or replaces what it
    states, and a recording's `own_noise` stands where nobody else states it. A message
    begins with the tool that wrote the file.
    """
    path = _file_in(path) if path.is_dir() else path
    kind = kind_of(path)
    try:
        if kind.reader not in _READERS:
            raise CalibrationError(f"{path}: {kind.name}: {kind.missing}.")
        parts = kalibr.with_imu_file(_READERS[kind.reader](path), given)
        return assemble(parts, given, own_noise)
    except CalibrationError as error:
        if kind.name in str(error):
            raise
        raise CalibrationError(f"{kind.name}: {error}") from error


def kind_of(path: Path) -> FileKind:
    """The tool that wrote a file."""
    what = "a calibration"
    text = read_text(path, what)
    kind = identify_text(path, text)
    if kind is not None:
        return kind
    try:
        return identify(load_yaml(path, what))
    except CalibrationError as error:
        raise CalibrationError(f"{identify_lines(text).name}: {error}") from error


def convert_rig(rig: Rig, output: Path, to: str, biases: Path | None = None) -> list[Path]:
    """Write a rig as files of the tool `to`, with the biases of a result's JSON if that tool uses
    them; returns the paths."""
    tool = next((tool for tool in TOOLS if tool == to), None)
    if tool is None:
        raise OptionError(f"--to is '{to}'; choose one of {', '.join(TOOLS)}.")
    if biases is not None and tool != "openvins":
        raise OptionError(f"--biases is given, but files of {tool} have no place for them.")
    return write_rig(output, rig, tool, *(() if biases is None else _read_biases(biases)))


def write_rig(
    folder: Path,
    rig: Rig,
    tool: Tool,
    bias_gyro: Array | None = None,
    bias_acc: Array | None = None,
) -> list[Path]:
    """Write the tool's files under their usual names, all or none; biases only if the tool uses
    them. What its format cannot represent raises an error before anything is written."""
    if not rig.cameras:
        raise CalibrationError(f"{rig.source}: has no camera, so there is nothing to convert.")
    if tool != "kalibr":
        require_extrinsics(rig, f"files of {tool}")
        require_noise(rig, f"files of {tool}")
    if tool in ("vins-fusion", "orbslam3") and rig.imu_intrinsics is not None:
        raise CalibrationError(
            f"{rig.source}: states IMU intrinsics (scale, misalignment), and files of {tool} have "
            "no place for them; write kalibr or openvins, or correct the samples first."
        )
    if tool == "openvins":
        biases = (np.zeros(3) if bias is None else bias for bias in (bias_gyro, bias_acc))
        files = kalibr.openvins_files(folder, rig, *biases)
    else:
        files = _WRITERS[tool](folder, rig)
    write_together(files)
    return list(files)


_WRITERS: dict[Tool, Callable[[Path, Rig], dict[Path, str]]] = {
    "kalibr": kalibr.kalibr_files,
    "vins-fusion": vins.vins_fusion_files,
    "orbslam3": orbslam.orbslam3_files,
}
"""Text of each file of a tool; the file that refers to the others comes first."""


def _file_in(folder: Path) -> Path:
    """The file of a folder that contains the cameras: a configuration, otherwise a camera chain."""
    configs = [folder / name for name in _CONFIGS if (folder / name).is_file()]
    if len(configs) > 1:
        names = ", ".join(path.name for path in configs)
        raise CalibrationError(f"{folder}: holds {names}; name the one file to read.")
    return configs[0] if configs else kalibr.find_camchain(folder)


def _read_biases(path: Path) -> tuple[Array, Array]:
    record = read_json(path, "biases of init or calibrate", error=OptionError)
    try:
        gyro, acc = (np.array(record[key], dtype=float) for key in ("gyro_bias", "acc_bias"))
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise OptionError(
            f"--biases {path}: holds no biases; needed the JSON that maci2 init or calibrate "
            "writes, with gyro_bias and acc_bias."
        ) from error
    if gyro.shape != (3,) or acc.shape != (3,) or not np.isfinite([gyro, acc]).all():
        raise OptionError(f"--biases {path}: gyro_bias and acc_bias need three numbers each.")
    return gyro, acc
