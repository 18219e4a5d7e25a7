"""From one tool's calibration to another's; which tool wrote a file is seen by looking."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from maci2.errors import CalibrationError, OptionError
from maci2.rigs import openvins, orbslam3, vins_fusion
from maci2.rigs.kalibr import read_rig, require_extrinsics
from maci2.rigs.kalibr_writer import write_camchain, write_imu_yaml
from maci2.rigs.yaml_schema import load_yaml
from maci2.sensors.types import ImuNoise, Rig
from maci2.types import Array

Tool = Literal["kalibr", "openvins", "vins-fusion", "orbslam3"]
TOOLS: tuple[Tool, ...] = get_args(Tool)

_READERS: dict[Tool, Callable[[Path], Rig]] = {
    "openvins": openvins.read_openvins,
    "vins-fusion": vins_fusion.read_vins_fusion,
    "orbslam3": orbslam3.read_orbslam3,
}
_CONFIGS: dict[Tool, str] = {
    "openvins": openvins.CONFIG,
    "vins-fusion": vins_fusion.CONFIG,
    "orbslam3": orbslam3.CONFIG,
}
_MARKS: dict[str, Tool] = {
    "relative_config_imucam": "openvins",
    "body_T_cam0": "vins-fusion",
    "IMU.T_b_c1": "orbslam3",
}
"""A key that only this tool's file has."""


def read_any_rig(path: Path, own_noise: ImuNoise | None = None) -> Rig:
    """A rig from Kalibr's, OpenVINS's, VINS-Fusion's or ORB-SLAM3's files; `path` is the file that
    holds the extrinsics or its folder. `own_noise` stands where Kalibr's IMU file is missing."""
    tool = _tool_of(path)
    return read_rig(path, own_noise) if tool == "kalibr" else _READERS[tool](path)


def convert_rig(rig: Rig, output: Path, to: str, biases: Path | None = None) -> list[Path]:
    """Write a rig as files of the tool `to`, with the biases of a result's JSON where that tool
    takes them; returns the paths written."""
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
    """Write the tool's files under their usual names; biases only where the tool takes them."""
    if not rig.cameras:
        raise CalibrationError(f"{rig.source}: has no camera, so there is nothing to convert.")
    if tool != "kalibr":
        require_extrinsics(rig, f"files of {tool}")
    if tool == "openvins":
        return openvins.write_openvins(folder, rig, bias_gyro, bias_acc)
    if tool == "vins-fusion":
        return vins_fusion.write_vins_fusion(folder, rig)
    if tool == "orbslam3":
        return orbslam3.write_orbslam3(folder, rig)
    write_camchain(folder / "camchain-imucam.yaml", rig)
    write_imu_yaml(folder / "imu.yaml", rig.imu)
    return [folder / "camchain-imucam.yaml", folder / "imu.yaml"]


def _tool_of(path: Path) -> Tool:
    """By the name of the file in a folder, by the keys of a file; Kalibr's where nothing else."""
    if path.is_dir():
        found = [tool for tool, name in _CONFIGS.items() if (path / name).is_file()]
        if len(found) > 1:
            names = ", ".join(_CONFIGS[tool] for tool in found)
            raise CalibrationError(f"{path}: holds {names}; name the one file to read.")
        return found[0] if found else "kalibr"
    keys = load_yaml(path, "a calibration")
    return next((tool for mark, tool in _MARKS.items() if mark in keys), "kalibr")


def _read_biases(path: Path) -> tuple[Array, Array]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        gyro, acc = (np.array(record[key], dtype=float) for key in ("gyro_bias", "acc_bias"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OptionError(
            f"--biases {path}: {type(error).__name__} {error}; needed the JSON that maci2 init or "
            "calibrate writes, with gyro_bias and acc_bias."
        ) from error
    if gyro.shape != (3,) or acc.shape != (3,) or not np.isfinite([gyro, acc]).all():
        raise OptionError(f"--biases {path}: gyro_bias and acc_bias need three numbers each.")
    return gyro, acc
