"""Calibrations from one tool's files to another's."""

import json
from pathlib import Path

import numpy as np

from maci2.errors import CalibrationError, OptionError
from maci2.gaussian import Array
from maci2.sensors import Rig, open_recording
from maci2.sensors.euroc import mav0_of
from maci2.sensors.exchange import TOOLS, read_any_rig, write_rig
from maci2.sensors.vbr import is_vbr


def convert_calibration(
    source: Path, output: Path, to: str, biases: Path | None = None
) -> list[Path]:
    """Read a calibration, write it as files of the tool `to`; gives their paths."""
    tool = next((tool for tool in TOOLS if tool == to), None)
    if tool is None:
        raise OptionError(f"--to is '{to}'; choose one of {', '.join(TOOLS)}.")
    if biases is not None and tool != "openvins":
        raise OptionError(f"--biases is given, but files of {tool} have no place for them.")
    if not source.exists():
        raise CalibrationError(f"{source}: no such file or folder; check the path.")
    bias_gyro, bias_acc = (None, None) if biases is None else _read_biases(biases)
    return write_rig(output, _read(source), tool, bias_gyro, bias_acc)


def _read(source: Path) -> Rig:
    recording = source.is_dir() and ((mav0_of(source) / "imu0").is_dir() or is_vbr(source))
    return open_recording(source).rig if recording else read_any_rig(source)


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
