"""The page of `maci2 calibrate --report`: the rig with its frames, numbers in both conventions."""

from html import escape

import numpy as np

from maci2.estimation import CalibrationResult
from maci2.lie import se3_inv
from maci2.pipeline.prepare import Inputs
from maci2.pipeline.results_json import stds
from maci2.reports.html import Section, matrix, page, side_by_side, table, verdict
from maci2.reports.result_figures import excitation_figure, path_figure, residual_figure
from maci2.reports.rig_drawing import rig_drawing
from maci2.sensors import Rig
from maci2.types import Array


def calibration_page(inputs: Inputs, result: CalibrationResult, rig: Rig, command: str) -> str:
    """HTML of one calibration. `rig` has the cameras where calibration found them."""
    lead = verdict(result.verdict.status, result.verdict.reasons)
    if result.state is not None:
        stamps_ns = result.state.stamps_ns
        lead += (
            f"<p>{escape(inputs.recording.name)}: {len(stamps_ns)} keyframes over "
            f"{(stamps_ns[-1] - stamps_ns[0]) / 1e9:.1f} s; camera motion from "
            f"{escape(str(inputs.source))}.</p>"
        )
    lead += extrinsics_table(result, rig)
    sections = calibration_sections(inputs, result, rig)
    return page(f"Calibration: {inputs.recording.name}", lead, sections, command)


def extrinsics_table(result: CalibrationResult, rig: Rig) -> str:
    """Extrinsics of the left camera with 1-sigma, and the time offset where it was estimated."""
    if result.state is None or result.posterior is None:
        return "<p>No extrinsics were estimated.</p>"
    std = stds(result.posterior.T_b_c)
    T_b_c0 = rig.cameras[0].T_b_c
    rows = [
        ("position of the left camera on the IMU", _row(1e3 * T_b_c0[:3, 3], 1), "mm",
         _row(1e3 * std[:3], 1)),
        ("its rotation, about the IMU's axes", "see T_b_c0 below", "deg",
         _row(np.rad2deg(std[3:]), 3)),
    ]  # fmt: skip
    report = result.report
    if report.std_time_offset_s:
        offset_ms = f"{1e3 * rig.time_offset_s:+.2f}"
        rows.append(("t_imu - t_camera", offset_ms, "ms", f"{1e3 * report.std_time_offset_s:.2f}"))
    return table(("quantity", "estimate (x, y, z)", "unit", "1-sigma"), rows)


def calibration_sections(inputs: Inputs, result: CalibrationResult, rig: Rig) -> list[Section]:
    """Pictures and matrices of one calibration."""
    matrices = "".join(_camera(i, camera.T_b_c) for i, camera in enumerate(rig.cameras))
    sections = [Section("The rig", side_by_side(rig_drawing(rig), f"<div>{matrices}</div>"))]
    state = result.state
    if state is None:
        return sections
    start_ns, end_ns = int(state.stamps_ns[0]), int(state.stamps_ns[-1])
    imu = inputs.imu.between(start_ns, end_ns)
    parts = [path_figure(state)]
    if not result.report.time_offset_s:
        vision = inputs.camera_motion(state.stamps_ns, 0)
        parts.append(residual_figure(state, vision, imu))
    parts.append(excitation_figure(imu, start_ns, end_ns))
    return [*sections, Section("The motion it was found from", side_by_side(*parts))]


def _camera(number: int, T_b_c: Array) -> str:
    return (
        f"<h3>c{number}</h3><p>T_b_c{number}: pose of the camera in the body; takes camera "
        f"coordinates to IMU coordinates (Kalibr's T_imu_cam).</p>{matrix(T_b_c)}"
        f"<p>T_c{number}_b: its inverse (Kalibr's T_cam_imu).</p>"
        f"{matrix(se3_inv(np.ascontiguousarray(T_b_c)))}"
    )


def _row(values: Array, digits: int) -> str:
    return "  ".join(f"{value:.{digits}f}" for value in values)
