"""The page of `maci2 truth --report`: what is wrong with a ground truth, and what is left of it."""

from html import escape

import numpy as np

from maci2.ground_truth.audited import AuditedTruth, RowResiduals
from maci2.reports.html import Section, figure, page, side_by_side, table
from maci2.reports.svg import Series, chart
from maci2.types import NS, Array

NAMES = {
    "rotation_deg": "body rotated",
    "lever_arm_mm": "point off the IMU",
    "tilt_deg": "world tilted",
    "position_late_ms": "positions late",
    "position_drift_ms_per_min": "their clock drifts",
    "orientation_late_ms": "orientations late",
    "orientation_drift_ms_per_min": "their clock drifts",
    "velocity_late_ms": "velocity columns late",
    "acc_bias_column": "accelerometer bias columns off",
    "gyro_bias_column": "gyroscope bias columns off",
}

MOST_POINTS = 600
"""Points of a line; more would not be seen."""


def truth_page(audit: AuditedTruth, name: str, command: str) -> str:
    """HTML of one audit."""
    texts = (f"<li>{escape(finding.text)}</li>" for finding in audit.findings)
    lead = f"<p>{escape(audit.name)} of {escape(name)}</p><ul>{''.join(texts)}</ul>"
    sections = [
        Section("Constants", _constants(audit)),
        Section("Residuals of the source", side_by_side(*_residual_figures(audit))),
        Section("Uncertainty of the audited states", side_by_side(*_sigma_figures(audit))),
    ]
    return page(f"Ground truth audited: {name}", lead, sections, command)


def _constants(audit: AuditedTruth) -> str:
    rows = [
        (
            NAMES.get(name, name),
            f"{one.value:.4g}",
            f"{one.std:.2g}",
            one.unit,
            "yes" if one.significant else "no",
        )
        for name, one in audit.constants.items()
    ]
    return table(("", "value", "1-sigma", "unit", "beyond chance"), rows)


def _residual_figures(audit: AuditedTruth) -> list[str]:
    kinds = (
        (audit.position_residuals, "positions", "mm", 1e3),
        (audit.orientation_residuals, "orientations", "deg", float(np.degrees(1.0))),
    )
    return [
        figure(_lines(rows, scale, unit), f"Audited {kind} less the source's, each axis")
        for rows, kind, unit, scale in kinds
        if rows is not None
    ]


def _lines(rows: RowResiduals, scale: float, unit: str) -> str:
    seconds = (rows.stamps_ns - rows.stamps_ns[0]) / NS
    return _chart(seconds, scale * rows.residuals, f"residual [{unit}]")


def _sigma_figures(audit: AuditedTruth) -> list[str]:
    cov = audit.truth.covariance
    assert cov is not None
    seconds = (cov.stamps_ns - cov.stamps_ns[0]) / NS
    std = np.sqrt(np.einsum("kii->ki", cov.states))
    parts = (
        (np.degrees(std[:, 0:3]), "rotation [deg]"),
        (1e3 * std[:, 3:6], "velocity [mm/s]"),
        (1e3 * std[:, 6:9], "position [mm]"),
    )
    return [figure(_chart(seconds, value, text), f"1-sigma of {text}") for value, text in parts]


def _chart(seconds: Array, values: Array, label: str) -> str:
    step = max(len(seconds) // MOST_POINTS, 1)
    series = [Series("xyz"[axis], seconds[::step], values[::step, axis]) for axis in range(3)]
    return chart(series, "time [s]", label)
