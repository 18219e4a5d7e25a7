"""Conversion of calibrations between tools; the source tool is recognized from the file."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from maci2.errors import CalibrationError, OptionError
from maci2.files import read_json, write_together
from maci2.rigs import openvins, orbslam3, vins_fusion
from maci2.rigs.basalt import read_basalt
from maci2.rigs.camodocal import read_camera_file
from maci2.rigs.device_files import read_camera_info, read_depthai, read_zed
from maci2.rigs.kalibr import find_camchain, read_kalibr
from maci2.rigs.kalibr_writer import camchain_text, imu_text
from maci2.rigs.orbslam import read_orbslam
from maci2.rigs.parts import (
    NOTHING_GIVEN,
    Given,
    RigParts,
    assemble,
    require_extrinsics,
    require_noise,
)
from maci2.rigs.realsense import read_realsense
from maci2.rigs.sniff import FileKind, identify
from maci2.rigs.sniff_text import identify_lines, identify_text
from maci2.rigs.vins import read_vins
from maci2.rigs.yaml_text import read_mapping, read_text
from maci2.sensors.rig_types import ImuNoise, Rig
from maci2.types import Array

Tool = Literal["kalibr", "openvins", "vins-fusion", "orbslam3"]
TOOLS: tuple[Tool, ...] = get_args(Tool)

_READERS: dict[str, Callable[[Path, Given], RigParts]] = {
    "kalibr": read_kalibr,
    "openvins": openvins.read_openvins,
    "vins": lambda path, _: read_vins(path),
    "camodocal": lambda path, _: read_camera_file(path),
    "orbslam": lambda path, _: read_orbslam(path),
    "basalt": lambda path, _: read_basalt(path),
    "depthai": lambda path, _: read_depthai(path),
    "realsense": lambda path, _: read_realsense(path),
    "zed": lambda path, _: read_zed(path),
    "camera_info": lambda path, _: read_camera_info(path),
}
_CONFIGS = (
    openvins.CONFIG, vins_fusion.CONFIG, orbslam3.CONFIG, orbslam3.MONOCULAR_CONFIG,
)  # fmt: skip
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
    reader = _READERS.get(kind.reader)
    if reader is None:
        raise CalibrationError(f"{path}: {kind.name}: {kind.missing}.")
    try:
        return assemble(reader(path, given), given, own_noise)
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
        return identify(read_mapping(path, what))
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
    bias_gyro, bias_acc = (None, None) if biases is None else _read_biases(biases)
    return write_rig(output, rig, tool, bias_gyro, bias_acc)


def write_rig(
    folder: Path,
    rig: Rig,
    tool: Tool,
    bias_gyro: Array | None = None,
    bias_acc: Array | None = None,
) -> list[Path]:
    """Write the tool's files under their usual names, all or none; biases only if the tool uses
    them. What its format cannot represent raises an error before anything is written."""
    files = _files(folder, rig, tool, bias_gyro, bias_acc)
    write_together(files)
    return list(files)


def _files(
    folder: Path, rig: Rig, tool: Tool, bias_gyro: Array | None, bias_acc: Array | None
) -> dict[Path, str]:
    """Text of each file; the file that refers to the others comes first."""
    if not rig.cameras:
        raise CalibrationError(f"{rig.source}: has no camera, so there is nothing to convert.")
    if tool == "kalibr":
        return _kalibr_files(folder, rig)
    require_extrinsics(rig, f"files of {tool}")
    require_noise(rig, f"files of {tool}")
    if tool == "openvins":
        return openvins.openvins_files(folder, rig, bias_gyro, bias_acc)
    if rig.imu_intrinsics is not None:
        raise CalibrationError(
            f"{rig.source}: states IMU intrinsics (scale, misalignment), and files of {tool} have "
            "no place for them; write kalibr or openvins, or correct the samples first."
        )
    if tool == "vins-fusion":
        return vins_fusion.vins_fusion_files(folder, rig)
    return orbslam3.orbslam3_files(folder, rig)


def _kalibr_files(folder: Path, rig: Rig) -> dict[Path, str]:
    camchain = folder / ("camchain-imucam.yaml" if rig.extrinsics_known else "camchain.yaml")
    files = {camchain: camchain_text(rig)}
    if rig.noise_known:
        imu = folder / "imu.yaml"
        files[imu] = imu_text(rig.imu, rig.imu_intrinsics, str(imu))
    return files


def _file_in(folder: Path) -> Path:
    """The file of a folder that contains the cameras: a configuration, otherwise a camera chain."""
    configs = [folder / name for name in _CONFIGS if (folder / name).is_file()]
    if len(configs) > 1:
        names = ", ".join(path.name for path in configs)
        raise CalibrationError(f"{folder}: holds {names}; name the one file to read.")
    return configs[0] if configs else find_camchain(folder)


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
