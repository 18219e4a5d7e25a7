"""What an audit found, as numbers with their sigmas and in plain sentences."""

from dataclasses import replace

import numpy as np

from maci2.estimator.problem import MARKER, ORIENTATION_CLOCK, POSITION_CLOCK, POSITION_CLOCK_AT
from maci2.findings import Finding
from maci2.ground_truth.audit_fit import AuditFit
from maci2.ground_truth.audit_problem import REACH_S
from maci2.ground_truth.capture import Capture
from maci2.ground_truth.constants import Constant, length_of, scalar_of
from maci2.ground_truth.jumps import Jumps
from maci2.ground_truth.lost_rows import lost_rows_in_words
from maci2.ground_truth.published_columns import column_constants, velocity_finding
from maci2.lie import so3_log
from maci2.sensors import GroundTruth
from maci2.types import NS, Array

ANOTHER_CLOCK_S = 0.1
"""Offset from which a clock is another one, not late by processing or filters."""

ANOTHER_WORLD = np.deg2rad(30.0)
"""Tilt from which a world's z axis is not meant to be up."""

MOST_SCATTER, MOST_SCATTER_DEG = 0.05, 2.0
"""Noise of rows [m, deg] that is worth a sentence."""

MISLEADING = ("world", "noise", "lost rows", "velocity columns", "raw capture")
"""Faults of a source that leave its own rows useless, though its audit may be sound."""

UNOBSERVABLE_DEG = 1.0
"""Standard deviation of the marker's rotation about an axis above which it is as good as unknown.
Accelerations show it, too: only a recording that hardly moves leaves it open."""


def measure(fit: AuditFit, capture: Capture, truth: GroundTruth) -> dict[str, Constant]:
    """Constants of the capture, and of the columns that a published truth has beside poses."""
    shared, cov_border = fit.solution.shared, fit.posterior.shared
    constants = {}
    change = np.ascontiguousarray(shared.T_b_m[:3, :3] @ capture.T_b_m[:3, :3].T)
    if capture.Rs_w_m is not None:
        constants["rotation_deg"] = length_of(
            np.degrees(so3_log(change)), np.degrees(1.0) ** 2 * cov_border[14:17, 14:17], "deg"
        )
    # Of the translation itself: rho and phi both move it.
    p = shared.T_b_m[:3, 3]
    J = np.hstack([np.eye(3), -_skew(p)])
    cov_p = J @ cov_border[MARKER, MARKER] @ J.T
    constants["lever_arm_mm"] = length_of(1e3 * (p - capture.T_b_m[:3, 3]), 1e6 * cov_p, "mm")
    up_w = shared.R_w_g[:, 2]
    sine = float(np.hypot(up_w[0], up_w[1]))
    angle = float(np.arctan2(sine, up_w[2]))
    tilt = np.degrees(angle) * np.array([-up_w[1], up_w[0]]) / max(sine, 1e-12)
    constants["tilt_deg"] = length_of(tilt, np.degrees(1.0) ** 2 * cov_border[:2, :2], "deg")
    clocks = {"position": (3, POSITION_CLOCK)}
    if capture.Rs_w_m is not None and not capture.one_clock:
        clocks["orientation"] = (4, ORIENTATION_CLOCK)
    for kind, (place, at) in clocks.items():
        offset_s, drift = shared.scalars[place], shared.scalars[place + 2]
        std = np.sqrt(np.diag(cov_border)[at])
        constants[f"{kind}_late_ms"] = scalar_of(-1e3 * offset_s, 1e3 * std[0], "ms")
        constants[f"{kind}_drift_ms_per_min"] = scalar_of(-6e4 * drift, 6e4 * std[1], "ms/min")
    fit_a = fit.accelerations
    if fit_a is not None and np.isfinite(fit_a.scale):
        constants["position_scale"] = scalar_of(fit_a.scale, fit_a.std_scale, "ratio")
    if capture.claims is not None:
        claims, away_ms = _on_imu_clock(capture.claims, fit)
        columns = column_constants(claims, truth, shared.R_w_g.T)
        late = columns.get("velocity_late_ms")
        if late is not None and away_ms:
            columns["velocity_late_ms"] = scalar_of(late.value + away_ms, late.std, "ms")
        constants |= columns
    return constants


def _on_imu_clock(claims: GroundTruth, fit: AuditFit) -> tuple[GroundTruth, float]:
    """Published columns moved by a clock offset that is no small error, and how late it is [ms]."""
    offset_s = float(fit.solution.shared.scalars[POSITION_CLOCK_AT])
    std_s = float(np.sqrt(fit.posterior.shared[POSITION_CLOCK, POSITION_CLOCK][0, 0]))
    if abs(offset_s) < max(ANOTHER_CLOCK_S, 5.0 * std_s):
        return claims, 0.0
    stamps_ns = claims.stamps_ns + round(offset_s * NS)
    return replace(claims, stamps_ns=stamps_ns), -1e3 * offset_s


def _skew(v: Array) -> Array:
    return np.array([[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]])


SENTENCES = {
    "rotation_deg": "orientation rotated by {value:.2f} ± {std:.2f} deg against the IMU",
    "lever_arm_mm": "position is of a point {value:.1f} ± {std:.1f} mm off the IMU",
    "tilt_deg": "world tilted by {value:.2f} ± {std:.2f} deg against gravity",
    "position_late_ms": "position {time} {side}",
    "orientation_late_ms": "orientation {time} {side}",
    "position_drift_ms_per_min": "clock of positions drifts by {change}",
    "orientation_drift_ms_per_min": "clock of orientations drifts by {change}",
    "velocity_late_ms": "velocity columns {time} {side}",
    "position_scale": "positions are {value:.3f} ± {std:.3f} times as large as the IMU's "
    "accelerations say",
    "acc_bias_column": "accelerometer bias columns off by {value:.3f} ± {std:.3f} m/s^2",
    "gyro_bias_column": "gyroscope bias columns off by {value:.4f} ± {std:.4f} rad/s",
}


def sentence(name: str, constant: Constant) -> str:
    """One constant in words, with its standard deviation."""
    value, std = constant.value, constant.std
    digits = 1 if std >= 0.05 else 2
    side = "late" if value > 0.0 else "early"
    if abs(value) < 1e3 * ANOTHER_CLOCK_S:
        time = f"{abs(value):.{digits}f} ± {std:.{digits}f} ms"
    else:
        time = f"{1e-3 * abs(value):.5f} ± {1e-3 * std:.5f} s"
    change = f"{value:.{digits}f} ± {std:.{digits}f} ms a minute"
    return SENTENCES[name].format(value=value, std=std, side=side, time=time, change=change)


def misleading(findings: tuple[Finding, ...]) -> list[Finding]:
    """Findings that make scores against the published rows meaningless."""
    return [
        finding
        for finding in findings
        if finding.fault in MISLEADING
        or (finding.fault.endswith("_late_ms") and " ms " not in finding.text)
    ]


def audit_findings(
    capture: Capture,
    fit: AuditFit,
    truth: GroundTruth,
    constants: dict[str, Constant],
    jumps: Jumps,
) -> tuple[Finding, ...]:
    """Sentences for everything that is neither chance nor too small to matter."""
    relative = capture.claims is None and not np.array_equal(capture.T_b_m, np.eye(4))
    findings = []
    for name, constant in constants.items():
        if constant.significant:
            text = sentence(name, constant)
            if relative and name in ("rotation_deg", "lever_arm_mm"):
                text += ", compared with the stated T_BS"
            findings.append(Finding("warn", capture.name, text, name))
    if capture.claims is not None:
        claims, _ = _on_imu_clock(capture.claims, fit)
        R_g_w = fit.solution.shared.R_w_g.T
        findings += velocity_finding(capture.name, claims, truth, R_g_w)
    findings += _upside_down(capture, fit) + _scatter(capture, fit) + _unobservable(capture, fit)
    findings += _lost(capture) + _gaps(capture)
    findings += _jumps(capture, jumps)
    if not findings:
        findings.append(Finding("ok", capture.name, "agrees with the IMU; nothing found"))
    return tuple(findings)


def _upside_down(capture: Capture, fit: AuditFit) -> list[Finding]:
    """A world whose z axis is not even roughly up."""
    up_w = fit.solution.shared.R_w_g[:, 2]
    if up_w[2] > np.cos(ANOTHER_WORLD):
        return []
    at = int(np.argmax(np.abs(up_w)))
    axis = ("-" if up_w[at] < 0.0 else "+") + "xyz"[at]
    text = f"up is {axis} in its world, needed +z (NED or another convention?); the audit levels it"
    return [Finding("warn", capture.name, text, "world")]


def _scatter(capture: Capture, fit: AuditFit) -> list[Finding]:
    """Rows that scatter by more than any tracker's do."""
    findings = []
    if fit.position.std > MOST_SCATTER:
        text = (
            f"positions scatter by {1e2 * fit.position.std:.0f} cm about what the IMU measures: "
            "they are not those of this motion, or very noisy"
        )
        findings.append(Finding("warn", capture.name, text, "noise"))
    if fit.orientation is not None and np.degrees(fit.orientation.std) > MOST_SCATTER_DEG:
        text = (
            f"orientations scatter by {np.degrees(fit.orientation.std):.1f} deg about what the IMU "
            "measures: they are not those of this motion, or very noisy"
        )
        findings.append(Finding("warn", capture.name, text, "noise"))
    return findings


def _unobservable(capture: Capture, fit: AuditFit) -> list[Finding]:
    findings = []
    tilt_deg = float(np.degrees(np.sqrt(np.linalg.eigvalsh(fit.posterior.shared[:2, :2])[-1])))
    if tilt_deg > UNOBSERVABLE_DEG:
        text = (
            f"the direction of gravity is known to ± {tilt_deg:.1f} deg only: where nothing "
            "rotates, a bias of the accelerometer looks like a tilt. Take a recording that rotates."
        )
        findings.append(Finding("warn", capture.name, text, "unobservable gravity"))
    if capture.Rs_w_m is None:
        return findings
    values, axes = np.linalg.eigh(fit.posterior.shared[14:17, 14:17])
    std_deg = float(np.degrees(np.sqrt(values[-1])))
    if std_deg > UNOBSERVABLE_DEG:
        axis = axes[:, -1] * np.sign(axes[np.argmax(np.abs(axes[:, -1])), -1])
        text = (
            f"rotation of the marker about the body's axis ({axis[0]:.2f}, {axis[1]:.2f}, "
            f"{axis[2]:.2f}) is known to ± {std_deg:.1f} deg only: the recording neither rotates "
            "nor accelerates enough. Take a recording that moves about all axes."
        )
        findings.append(Finding("warn", capture.name, text, "unobservable rotation"))
    return findings


def _gaps(capture: Capture) -> list[Finding]:
    steps_s = np.diff(capture.stamps_ns) / NS
    gaps = np.flatnonzero(steps_s > max(0.2, 3.5 * float(np.median(steps_s))))
    if not len(gaps):
        return []
    longest = gaps[np.argmax(steps_s[gaps])]
    at_s = (capture.stamps_ns[longest] - capture.stamps_ns[0]) / NS
    number = f"{len(gaps)} gaps" if len(gaps) > 1 else "one gap"
    text = (
        f"{number}, the longest of {steps_s[longest]:.2f} s at {at_s:.1f} s; states are given up "
        f"to {REACH_S} s into a gap, carried by the IMU"
    )
    return [Finding("warn", capture.name, text, "gaps")]


def _lost(capture: Capture) -> list[Finding]:
    text = lost_rows_in_words(capture) + "; they are not used"
    return [Finding("warn", capture.name, text, "lost rows")] if len(capture.lost_ns) else []


def _jumps(capture: Capture, jumps: Jumps) -> list[Finding]:
    """Rows that contradict the IMU."""
    findings = []
    for kind, unit, scale, found in (
        ("positions", "cm", 1e2, jumps.positions),
        ("orientations", "deg", np.degrees(1.0), jumps.orientations),
    ):
        if len(found.stamps_ns):
            at_s = (found.largest_first_ns - capture.stamps_ns[0]) / NS
            listed = ", ".join(f"{start:.1f}" for start in at_s[:5])
            more = f" and {len(at_s) - 5} more, smaller" if len(at_s) > 5 else ""
            text = f"{kind} jump by up to {scale * found.largest:.1f} {unit} at {listed} s{more}"
            findings.append(Finding("warn", capture.name, text, "jumps"))
    return findings
