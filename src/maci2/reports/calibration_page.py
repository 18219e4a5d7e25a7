"""Report of `maci2 calibrate --report`: the rig with its frames, in both conventions."""

from dataclasses import replace
from html import escape

import numpy as np

from maci2.estimation import CalibrationResult
from maci2.estimation.result_output import stds
from maci2.lie import se3_inv, so3_log
from maci2.pipeline.offline import CalibratedRecording
from maci2.reports.html import Section, figure, matrix, page, side_by_side, table, vector, verdict
from maci2.reports.path_drawing import path_figure
from maci2.reports.result_figures import excitation_figure, visual_residual_figure
from maci2.reports.rig_drawing import rig_drawing
from maci2.reports.svg import Series, chart
from maci2.types import NS, Array, nearest_index
from maci2.vision import RelativePoses


def calibration_page(result: CalibratedRecording, command: str) -> str:
    """HTML of one calibration."""
    lead = verdict(result.verdict.status, result.verdict.reasons)
    lead += extrinsics_table(result)
    if result.state is not None:
        stamps_ns, report = result.state.stamps_ns, result.report
        lead += (
            f"<p>{len(stamps_ns)} keyframes over {(stamps_ns[-1] - stamps_ns[0]) / NS:.1f} s; "
            f"camera motion from {escape(str(result.inputs.source))}. Chi-square "
            f"{report.cost:.0f} for {report.dof} degrees of freedom; {report.rejected} relative "
            "poses rejected.</p>"
        )
    sections = calibration_sections(result)
    title = f"Calibration: {result.inputs.recording.name}"
    return page(title, lead, sections, command, options=result.inputs.options.as_dict())


def extrinsics_table(result: CalibratedRecording, stated_name: str = "recording's own") -> str:
    """Extrinsics of the left camera with 1-sigma, beside the stated ones if any."""
    rig, stated = result.rig, result.inputs.recording.rig
    if rig is None or result.posterior is None:
        return "<p>No extrinsics were estimated.</p>"
    std = stds(result.posterior.T_b_c)
    T_b_c0, T_stated = rig.cameras[0].T_b_c, stated.cameras[0].T_b_c
    rotation_deg = np.rad2deg(so3_log(np.ascontiguousarray(T_b_c0[:3, :3])))
    rows = [
        ["position of the left camera on the IMU [mm]", vector(1e3 * T_b_c0[:3, 3], 1),
         vector(1e3 * std[:3], 1, signed=False)],
        ["its rotation, as a rotation vector [deg]", vector(rotation_deg, 2),
         vector(np.rad2deg(std[3:]), 3, signed=False)],
    ]  # fmt: skip
    report = result.report
    if report.std_time_offset_s:
        offset_ms = f"{1e3 * rig.time_offset_s:+.2f}"
        rows.append(["t_imu - t_camera [ms]", offset_ms, f"{1e3 * report.std_time_offset_s:.2f}"])
    columns = ["quantity", "estimate (x, y, z)", "1-sigma"]
    if stated.extrinsics_known:
        columns.append(f"minus the {stated_name}")
        R_difference = np.ascontiguousarray(T_b_c0[:3, :3] @ T_stated[:3, :3].T)
        rows[0].append(vector(1e3 * (T_b_c0[:3, 3] - T_stated[:3, 3]), 1))
        rows[1].append(vector(np.rad2deg(so3_log(R_difference)), 3))
        for row in rows[2:]:
            row.append(f"{1e3 * (rig.time_offset_s - stated.time_offset_s):+.2f}")
    return table(columns, rows, stacked=True)


def calibration_sections(result: CalibratedRecording) -> list[Section]:
    """Pictures and matrices of one calibration."""
    inputs = result.inputs
    rig = result.rig or inputs.recording.rig
    matrices = "".join(_camera(i, camera.T_b_c) for i, camera in enumerate(rig.cameras))
    sections = [Section("The rig", side_by_side(rig_drawing(rig), f"<div>{matrices}</div>"))]
    state = result.state
    if state is None:
        return sections
    start_ns, end_ns = int(state.stamps_ns[0]), int(state.stamps_ns[-1])
    parts = [path_figure(state), visual_residual_figure(state, _camera_motion(result))]
    parts.append(excitation_figure(inputs.imu.between(start_ns, end_ns), start_ns, end_ns))
    if len(result.progress) > 1:
        sections.append(Section("What each stretch added", progress_figures(result)))
    return [*sections, Section("The motion it was found from", side_by_side(*parts))]


def _camera_motion(result: CalibratedRecording) -> RelativePoses:
    """Relative poses of vision between the keyframes, with the estimated scale."""
    assert result.state is not None
    inputs = result.inputs
    # Keyframes are on the IMU's clock as far as it was estimated; images are where they were.
    offset_ns = round((result.report.time_offset_s or 0.0) * NS)
    images_ns = inputs.candidates_ns()
    nearest = nearest_index(images_ns, result.state.stamps_ns - offset_ns)
    vision = inputs.vision.motion(images_ns[nearest], 0)
    return replace(vision, Ts_ck_ck1=_with_scale(vision.Ts_ck_ck1, result.report.scale or 1.0))


def _with_scale(Ts: Array, scale: float) -> Array:
    scaled = Ts.copy()
    scaled[:, :3, 3] *= scale
    return scaled


def progress_figures(result: CalibrationResult) -> str:
    """Standard deviations and estimates of the extrinsics as more of the recording is used."""
    seconds = np.array([stage.seconds for stage in result.progress])
    std = np.array([stage.std for stage in result.progress])
    moved = np.array([stage.moved for stage in result.progress])
    figures = []
    for what, part, scale, unit in (
        ("position", slice(0, 3), 1e3, "mm"),
        ("rotation", slice(3, 6), 180.0 / np.pi, "deg"),
    ):
        series = [
            Series(axis, seconds, scale * moved[:, part][:, i], scale * std[:, part][:, i])
            for i, axis in enumerate("xyz")
        ]
        figures.append(
            figure(
                chart(series, "length of the recording used [s]", f"{what} [{unit}]"),
                f"The camera's {what} had the recording ended there, minus the final one. Bands: "
                "one standard deviation.",
            )
        )
    return side_by_side(*figures)


def _camera(number: int, T_b_c: Array) -> str:
    return (
        f"<h3>c{number}</h3><p>T_b_c{number}: pose of the camera in the body; takes camera "
        f"coordinates to IMU coordinates (Kalibr's T_imu_cam).</p>{matrix(T_b_c)}"
        f"<p>T_c{number}_b: its inverse (Kalibr's T_cam_imu).</p>"
        f"{matrix(se3_inv(np.ascontiguousarray(T_b_c)))}"
    )
