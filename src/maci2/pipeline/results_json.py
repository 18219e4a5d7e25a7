"""Results of `init` and `calibrate` as JSON (keys of docs/conventions.md)."""

import numpy as np

from maci2.estimation import CalibrationResult
from maci2.estimation.result_output import (
    Record,
    calibration_record,
    initialization_record,
    stds,
)
from maci2.lie.stacks import rotation_angle_deg
from maci2.pipeline.offline import Initialized
from maci2.pipeline.prepare import Inputs, recalibrated_rig
from maci2.types import Array

__all__ = [
    "calibration_errors",
    "calibration_json",
    "initialization_json",
    "pose_noise_json",
    "stds",
]


def initialization_json(inputs: Inputs, initialized: Initialized) -> Record:
    """What `maci2 init --json` writes, but for `errors`; biases are the raw sensor's.

    The rig's own time offset is included in the estimated one.
    """
    window = initialized.window
    record = initialization_record(initialized.result, inputs.recording.rig.time_offset_s)
    record |= {"start_ns": window.start_ns, "stamps_ns": window.stamps_ns.tolist()}
    return record | pose_noise_json(inputs)


def pose_noise_json(inputs: Inputs) -> Record:
    """Noise assumed for the relative poses of a trajectory; empty for other sources."""
    noise = inputs.source.pose_noise_record()
    return {} if noise is None else {"relative_pose_noise": noise}


def calibration_json(inputs: Inputs, result: CalibrationResult) -> Record:
    """What `maci2 calibrate --json` writes; `T_b_c` is the left camera's own, also where images
    were rectified."""
    rig = inputs.recording.rig
    record = calibration_record(result, rig.time_offset_s) | pose_noise_json(inputs)
    if result.state is None or result.posterior is None:
        return record
    record["T_b_c"] = recalibrated_rig(inputs, result.state.T_b_c).cameras[0].T_b_c.tolist()
    if rig.extrinsics_known:
        rotation_deg, translation = calibration_errors(result, inputs.T_b_c)
        record["errors"] = {"rotation_deg": rotation_deg, "translation_m": translation}
    return record


def calibration_errors(result: CalibrationResult, T_b_c: Array) -> tuple[float, float]:
    """Rotation [deg] and translation [m] error against extrinsics that were given."""
    if result.state is None:
        return float("nan"), float("nan")
    rotation_deg = rotation_angle_deg(result.state.T_b_c[:3, :3], T_b_c[:3, :3])
    return rotation_deg, float(np.linalg.norm(result.state.T_b_c[:3, 3] - T_b_c[:3, 3]))
