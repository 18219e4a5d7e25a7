"""Ground-truth audits: constants of one source, and its time offset by rows."""

from functools import partial
from pathlib import Path

import numpy as np

from maci2.datasets import open_recording
from maci2.sensors import Recording
from maci2.tools.ground_truth.audit import AuditedTruth, audit_capture
from maci2.tools.ground_truth.capture import open_capture
from maci2.tools.ground_truth.comparison import compare_with_published
from maci2_lab.experiments.experiment import Task, TaskResult
from maci2_lab.experiments.recordings import Recordings
from maci2_lab.experiments.store import rounded
from maci2_lab.experiments.table import Cell, Entry, Findings, Line, Record, Table, figure, table_of

ROWS_HZ = (1.0, 2.0, 4.0, 20.0)
"""Rows per second at which the time offset of positions is estimated, for laser trackers."""

OTHER = "state_groundtruth_openvins"
"""Ground truth made by another tool from the raw capture."""


def truth_tasks(sources: tuple[tuple[str, str], ...], recordings: Recordings, _: int) -> list[Task]:
    """Task of each ground truth that is there; sources as `maci2 truth --from` names them, empty
    for the first of a recording."""
    return [
        Task.on(
            name, path, source or "first", partial(run_truth, name, path, source), source=source
        )
        for name, source in sources
        if (path := recordings.by_name.get(name))
    ]


def run_truth(name: str, path: Path, source: str) -> TaskResult:
    """One row: the audit, and its time offset if more rows of the source are used."""
    recording = open_recording(path)
    capture = open_capture(recording, source)
    audit = audit_capture(recording, capture)
    row = _row(audit) | _compared(recording, audit, source)
    if capture.smoothed and name.startswith("MH"):
        late = (
            audit_capture(recording, capture, hz).constants["position_late_ms"] for hz in ROWS_HZ
        )
        row["late_by_rows_hz"] = [(one.value, one.std) for one in late]
    return TaskResult([rounded(row)])


def _row(audit: AuditedTruth) -> Record:
    assert audit.truth.covariance is not None
    std = np.sqrt(np.einsum("kii->ki", audit.truth.covariance.states))
    medians = np.median(std.reshape(len(std), 5, 3), axis=(0, 2))
    orientation = audit.orientation_noise
    return {
        "source": audit.name,
        "constants": {
            name: (one.value, one.std, one.significant) for name, one in audit.constants.items()
        },
        "bias_acc": audit.truth.bias_acc.mean(axis=0),
        "std": medians,
        "position_noise": audit.position_noise.std,
        "orientation_noise": None if orientation is None else orientation.std,
        "imu_factors": (audit.imu_factors.gyro, *audit.imu_factors.acc),
        "findings": [finding.text for finding in audit.findings],
    }


def _compared(recording: Recording, audit: AuditedTruth, source: str) -> Record:
    """Comparison with what another tool made of the raw capture, if the recording has it."""
    theirs = recording.truths.get(OTHER)
    if theirs is None or source == OTHER:
        return {}
    (found,) = compare_with_published(audit.truth, {OTHER: theirs})
    both = found.fixed, found.shifted
    return {
        "other": {
            "late_ms": 1e3 * found.shifted.late_s,
            "position_mm": [1e3 * one.position_m for one in both],
            "rotation_deg": [one.rotation_deg for one in both],
        }
    }


CONSTANTS = {
    "rotation_deg": ("body rotated [deg]", 2),
    "tilt_deg": ("world tilted [deg]", 2),
    "position_late_ms": ("position late [ms]", 1),
    "orientation_late_ms": ("orientation late [ms]", 1),
    "velocity_late_ms": ("velocity late [ms]", 1),
    "lever_arm_mm": ("lever arm [mm]", 1),
    "acc_bias_column": ("acc bias column off [m/s^2]", 3),
    "gyro_bias_column": ("gyro bias column off [rad/s]", 4),
}


def truth_findings(records: list[Record]) -> Findings:
    """Tables of constants, accuracy of states, time offsets by rows, and the other tool."""
    rows = [(record["task"], row) for record in records for row in record["rows"]]
    tables = [_constants(rows), _states(rows), _clocks(rows)]
    compared = [(task, row) for task, row in rows if "other" in row]
    tables += [_other(compared)] if compared else []
    return Findings(tables, figures=_figures(rows))


def _figures(rows: list[tuple[Record, Record]]) -> list[Record]:
    """Figure data: time offsets by rows, rotations and tilts, with standard deviations."""
    clocks = [
        {"name": task["recording"], "values": row["late_by_rows_hz"]}
        for task, row in rows
        if "late_by_rows_hz" in row
    ]
    angles = [
        {
            "name": task["recording"],
            "values": [row["constants"][name][:2] for name in ("rotation_deg", "tilt_deg")],
        }
        for task, row in rows
        if "rotation_deg" in row["constants"] and not task["source"]
    ]
    hz = [f"{hz:g} rows/s" for hz in ROWS_HZ]
    return [
        figure("intervals", title, unit, names=names, groups=groups)
        for title, unit, names, groups in (
            ("How late published positions are", "ms", hz, clocks),
            ("Against the IMU", "deg", ["body rotated", "world tilted"], angles),
        )
        if groups
    ]


def _constants(rows: list[tuple[Record, Record]]) -> Table:
    lines = []
    for task, row in rows:
        entries: list[Entry] = []
        for name, (title, digits) in CONSTANTS.items():
            value, std, _ = row["constants"].get(name, (None, None, None))
            entries += [(title, value, digits), ("±", std, digits)]
        lines.append((task["recording"], row["source"], entries))
    note = "± is one standard deviation. A raw capture is compared with its stated T_BS."
    return table_of("Constants of ground truths against the IMU", lines, note)


def _states(rows: list[tuple[Record, Record]]) -> Table:
    lines = []
    for task, row in rows:
        rotation, velocity, position, _, _ = row["std"]
        orientation = row["orientation_noise"]
        bias, factors = row["bias_acc"], row["imu_factors"]
        entries: list[Entry] = [
            *zip(("acc bias x [m/s^2]", "y", "z"), bias, (3, 3, 3), strict=True),
            ("sigma rotation [deg]", float(np.degrees(rotation)), 3),
            ("velocity [mm/s]", 1e3 * velocity, 1),
            ("position [mm]", 1e3 * position, 1),
            ("noise of positions [mm]", 1e3 * row["position_noise"], 2),
            (
                "of orientations [deg]",
                None if orientation is None else float(np.degrees(orientation)),
                3,
            ),
            *zip(("gyro factor", "acc factor x", "y", "z"), factors, (1, 1, 1, 1), strict=True),
        ]
        lines.append((task["recording"], row["source"], entries))
    return table_of(
        "Audited states",
        lines,
        "Mean accelerometer bias, median sigma of a state per axis, noise of the source's rows, "
        "and variance of the IMU's errors over what the data sheet (and vibration, for the "
        "accelerometer) explains.",
    )


def _clocks(rows: list[tuple[Record, Record]]) -> Table:
    lines = [
        Line(
            task["recording"],
            row["source"],
            tuple(Cell(value, 1) for pair in row["late_by_rows_hz"] for value in pair),
        )
        for task, row in rows
        if "late_by_rows_hz" in row
    ]
    columns = tuple(text for hz in ROWS_HZ for text in (f"{hz:g} rows a second [ms]", "±"))
    return Table(
        "How late positions are, by how many rows of the truth are believed",
        columns,
        tuple(lines),
        "A smoothed truth follows the IMU over short times, and its tracker over long ones: with "
        "many rows a second its own smoothing hides the tracker's clock.",
    )


def _other(rows: list[tuple[Record, Record]]) -> Table:
    lines = []
    for task, row in rows:
        other = row["other"]
        (mm, mm_shifted), (deg, deg_shifted) = other["position_mm"], other["rotation_deg"]
        entries: list[Entry] = [
            ("rotation [deg rms]", deg, 3),
            ("position [mm rms]", mm, 2),
            ("its positions late [ms]", other["late_ms"], 1),
            ("rotation, clocks aligned", deg_shifted, 3),
            ("position, clocks aligned", mm_shifted, 2),
        ]
        lines.append((task["recording"], row["source"], entries))
    return table_of("Audited states against vicon2gt's (state_groundtruth_openvins)", lines)
