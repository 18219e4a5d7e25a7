"""Report of `maci2 truth --report`: errors of a ground truth with uncertainties."""

from html import escape

import numpy as np

from maci2.ground_truth.audit import AuditedTruth
from maci2.lie.stacks import so3_log_stack
from maci2.reports.html import Section, figure, findings_list, page, side_by_side, table
from maci2.reports.path_drawing import caption, path_drawing
from maci2.reports.state_figures import bands, components, every_nth, spreads
from maci2.sensors import GroundTruth, Recording, truth_at
from maci2.types import GRAVITY_NORM, NS, Array

MAX_GAP_S = 0.1
UNIT_SUFFIX = {"deg": "_deg", "mm": "_mm", "ms": "_ms", "ms/min": "_ms_per_min"}
"""Suffixes of the constants' names that repeat their unit."""


def truth_page(audit: AuditedTruth, recording: Recording, command: str) -> str:
    """HTML of one audit; the audited ground truth is taken from the recording."""
    worst = {finding.level for finding in audit.findings}
    level = "error" if "error" in worst else "warn" if "warn" in worst else "ok"
    text = audit.findings[0].text if audit.findings else "no contradiction to the IMU"
    if len(audit.findings) > 1:
        text += f"; {len(audit.findings)} findings in all"
    lead = f"<p class='first {level}'>{escape(text)}</p>{_known_to(audit)}"
    sections = [
        Section("Findings", findings_list(audit.findings)),
        Section("Constants of the source", _constants(audit)),
        Section("Residuals of the source", side_by_side(*_residuals(audit))),
        Section("States", _states(audit)),
    ]
    published = recording.truths.get(audit.name)
    if published is not None:
        sections.insert(
            2, Section("Published minus audited states", _differences(audit, published))
        )
    return page(f"Ground truth: {recording.name}, {audit.name}", lead, sections, command)


def _known_to(audit: AuditedTruth) -> str:
    """Typical and largest standard deviations of the states."""
    std = np.sqrt(np.einsum("kii->ki", audit.cov_states))
    rows = []
    for name, part, scale, unit in (
        ("orientation", slice(0, 3), 180.0 / np.pi, "deg"),
        ("velocity", slice(3, 6), 1e3, "mm/s"),
        ("position", slice(6, 9), 1e3, "mm"),
        ("gyroscope bias", slice(9, 12), 1e3, "mrad/s"),
        ("accelerometer bias", slice(12, 15), 1e3, "mm/s²"),
    ):
        values = scale * std[:, part]
        numbers = (np.median(values), np.quantile(values, 0.95))
        rows.append((f"{name} [{unit}]", *(f"{number:.3g}" for number in numbers)))
    columns = ("1-sigma, one axis", "median", "95 % below")
    stamps_ns = audit.truth.stamps_ns
    return table(columns, rows, stacked=True) + (
        f"<p>{len(stamps_ns)} states over {(stamps_ns[-1] - stamps_ns[0]) / NS:.1f} s, at the "
        f"IMU's samples. Chi-square {audit.chi_square:.0f} for {audit.dof} degrees of freedom; "
        f"{len(audit.jumps_ns)} rows of the source contradict the IMU.</p>"
    )


def _constants(audit: AuditedTruth) -> str:
    rows = [
        (
            name.removesuffix(UNIT_SUFFIX.get(constant.unit, "")).replace("_", " "),
            f"{constant.value:+.4g}",
            f"{constant.std:.2g}",
            constant.unit.replace("^2", "²"),
            "yes" if constant.significant else "no",
        )
        for name, constant in audit.constants.items()
    ]
    return table(("constant", "value", "1-sigma", "unit", "significant"), rows, stacked=True)


def _differences(audit: AuditedTruth, published: GroundTruth) -> str:
    """Difference between published and audited states over time."""
    truth = audit.truth
    stamps_ns = published.stamps_ns
    inside = (stamps_ns > truth.stamps_ns[0]) & (stamps_ns < truth.stamps_ns[-1])
    rows = np.flatnonzero(inside)[:: every_nth(int(inside.sum()))]
    at = truth_at(truth, stamps_ns[rows], MAX_GAP_S)
    time_s = (stamps_ns[rows] - truth.stamps_ns[0]) / NS
    Rs, Rs_published = at.Ts_w_b[:, :3, :3], published.Ts_w_b[rows, :3, :3]
    rotation = so3_log_stack(np.swapaxes(Rs, 1, 2) @ Rs_published)
    velocity = _in_body(Rs_published, published.v_w[rows]) - _in_body(Rs, at.v_w)
    parts = [
        components(
            time_s, np.rad2deg(rotation), "rotation [deg]", "Orientation, about the body's axes."
        ),
    ]
    if np.isfinite(velocity).any():
        parts.append(
            components(time_s, velocity, "velocity [m/s]", "Velocity, along the body's axes.")
        )
    return side_by_side(*parts)


def _residuals(audit: AuditedTruth) -> list[str]:
    """Residuals over time: audited marker minus the rows used."""
    kinds = (
        (audit.position_residuals, 1e3, "mm", "Positions, along the source's axes."),
        (
            audit.orientation_residuals,
            180.0 / np.pi,
            "deg",
            "Orientations, about the marker's axes.",
        ),
    )
    return [
        components(
            (rows.stamps_ns[:: every_nth(len(rows.stamps_ns))] - rows.stamps_ns[0]) / NS,
            scale * rows.residuals[:: every_nth(len(rows.stamps_ns))],
            f"residual [{unit}]",
            text,
        )
        for rows, scale, unit, text in kinds
        if rows is not None
    ]


def _in_body(Rs: Array, vectors: Array) -> Array:
    return np.asarray(np.einsum("kji,kj->ki", Rs, vectors))


def _states(audit: AuditedTruth) -> str:
    truth, every = audit.truth, every_nth(len(audit.truth))
    time_s = (truth.stamps_ns[::every] - truth.stamps_ns[0]) / NS
    std = np.sqrt(np.einsum("kii->ki", audit.cov_states[::every]))
    down = np.array([0.0, 0.0, -GRAVITY_NORM])
    path = path_drawing(truth.Ts_w_b[::every, :3, 3], truth.v_w[::every], down)
    return side_by_side(
        figure(path, caption("states")),
        spreads(
            time_s, np.rad2deg(std[:, 0:3]), "sigma of orientation [deg]",
            "Standard deviation of the orientation, about the body's axes.",
        ),
        spreads(time_s, 1e3 * std[:, 6:9], "sigma of position [mm]",
                "Standard deviation of the position."),
        spreads(time_s, 1e3 * std[:, 3:6], "sigma of velocity [mm/s]",
                "Standard deviation of the velocity."),
        bands(time_s, truth.bias_gyro[::every], std[:, 9:12], "gyro bias [rad/s]",
              "Gyroscope bias."),
        bands(time_s, truth.bias_acc[::every], std[:, 12:15], "acc bias [m/s²]",
              "Accelerometer bias."),
    )  # fmt: skip
