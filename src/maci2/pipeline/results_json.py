"""Results of `init` and `calibrate` as JSON (keys of docs/conventions.md)."""

from typing import Any

import numpy as np

from maci2.estimation import CalibrationResult
from maci2.files import finite_or_none
from maci2.lie.stacks import rotation_angle_deg
from maci2.pipeline.offline import Initialized
from maci2.pipeline.prepare import Inputs, recalibrated_rig
from maci2.types import Array


def initialization_json(initialized: Initialized, stated_offset_s: float = 0.0) -> dict[str, Any]:
    """What `maci2 init --json` writes; biases are the raw sensor's.

    `stated_offset_s`, the rig's own time offset, is included in the estimated one.
    """
    result = initialized.result
    state, posterior = result.state, result.posterior
    record: dict[str, Any] = {
        "status": result.verdict.status,
        "reasons": list(result.verdict.reasons),
        "start_ns": initialized.window.start_ns,
        "stamps_ns": initialized.window.stamps_ns.tolist(),
    }
    if state is not None and posterior is not None:
        record |= {
            "gravity_c0": state.gravity_c0.tolist(),
            "gravity_std_deg": result.gravity_std_deg,
            "velocity_b": state.velocity_b.tolist(),
            "velocity_std": stds(posterior.velocity_b).tolist(),
            "gyro_bias": state.gyro_bias.tolist(),
            "gyro_bias_std": stds(posterior.gyro_bias).tolist(),
            "acc_bias": state.acc_bias.tolist(),
            "acc_bias_std": stds(posterior.acc_bias).tolist(),
            "T_c0_b": state.Ts_c0_b.tolist(),
        }
    return record | _report(result, stated_offset_s)


def calibration_json(inputs: Inputs, result: CalibrationResult) -> dict[str, Any]:
    """What `maci2 calibrate --json` writes; biases are the raw sensor's."""
    state, posterior = result.state, result.posterior
    record: dict[str, Any] = {
        "status": result.verdict.status,
        "reasons": list(result.verdict.reasons),
    }
    if state is not None and posterior is not None:
        record |= {
            "T_b_c": recalibrated_rig(inputs, state.T_b_c).cameras[0].T_b_c.tolist(),
            "std": stds(posterior.T_b_c).tolist(),
            "gyro_bias": state.gyro_bias.tolist(),
            "gyro_bias_std": stds(posterior.gyro_bias).tolist(),
            "acc_bias": state.acc_bias.tolist(),
            "acc_bias_std": stds(posterior.acc_bias).tolist(),
        }
        if inputs.recording.rig.extrinsics_known:
            rotation_deg, translation = calibration_errors(result, inputs.T_b_c)
            record["errors"] = {"rotation_deg": rotation_deg, "translation_m": translation}
    return record | _report(result, inputs.recording.rig.time_offset_s)


def calibration_errors(result: CalibrationResult, T_b_c: Array) -> tuple[float, float]:
    """Rotation [deg] and translation [m] error against extrinsics that were given."""
    if result.state is None:
        return float("nan"), float("nan")
    rotation_deg = rotation_angle_deg(result.state.T_b_c[:3, :3], T_b_c[:3, :3])
    return rotation_deg, float(np.linalg.norm(result.state.T_b_c[:3, 3] - T_b_c[:3, 3]))


def stds(cov: Array) -> Array:
    """Square roots of the diagonal, for one covariance or a stack."""
    return np.sqrt(np.diagonal(cov, axis1=-2, axis2=-1))


def _report(result: Any, stated_offset_s: float) -> dict[str, Any]:
    report = result.report
    record: dict[str, Any] = {}
    if stated_offset_s != 0.0:
        record["stated_time_offset_s"] = stated_offset_s
    if report.std_scale > 0.0:
        record |= {"vision_scale": report.scale, "vision_scale_std": report.std_scale}
    if report.std_time_offset_s > 0.0:
        record["time_offset_s"] = stated_offset_s + report.time_offset_s
        record["time_offset_std_s"] = report.std_time_offset_s
    return record | {
        "cost": finite_or_none(report.cost),
        "dof": report.dof,
        "inflation": report.inflation,
        "rejected": report.rejected,
        "set_aside": report.rejected,  # the name it had in version 0.1
        "iterations": report.iterations,
        "solve_ms": report.solve_ms,
    }
