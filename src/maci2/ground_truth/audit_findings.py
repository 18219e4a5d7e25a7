"""What an audit found, as numbers with their sigmas and in plain sentences."""

import numpy as np
from scipy.special import chdtrc

from maci2.chain.chain_state import MARKER, ORIENTATION_CLOCK, POSITION_CLOCK
from maci2.findings import Finding
from maci2.gaussian import nees
from maci2.ground_truth.audit_fit import AuditFit
from maci2.ground_truth.audited import Constant
from maci2.ground_truth.capture import Capture
from maci2.lie import so3_log
from maci2.sensors import GroundTruth, truth_at
from maci2.types import NS, Array, Stamps

CHANCE = 1e-3
"""Probability below which chance does not explain a constant."""

MATTERS = {"deg": 0.02, "mm": 1.0, "ms": 0.3, "ms/min": 0.2, "m/s^2": 0.01, "rad/s": 2e-4}
"""Least size that is worth a sentence, by unit."""

UNOBSERVABLE_DEG = 1.0
"""Standard deviation of the marker's rotation about an axis above which it is as good as unknown.
Accelerations show it, too: only a recording that hardly moves leaves it open."""


def measure(fit: AuditFit, capture: Capture, truth: GroundTruth) -> dict[str, Constant]:
    """Constants of the capture, and of the columns that a published truth has beside poses."""
    border, cov_border = fit.solution.border, fit.posterior.border
    constants = {}
    change = np.ascontiguousarray(border.T_b_m[:3, :3] @ capture.T_b_m[:3, :3].T)
    if capture.Rs_w_m is not None:
        constants["rotation_deg"] = _length(
            np.degrees(so3_log(change)), np.degrees(1.0) ** 2 * cov_border[13:16, 13:16], "deg"
        )
    # Of the translation itself: rho and phi both move it.
    p = border.T_b_m[:3, 3]
    J = np.hstack([np.eye(3), -_skew(p)])
    cov_p = J @ cov_border[MARKER, MARKER] @ J.T
    constants["lever_arm_mm"] = _length(1e3 * (p - capture.T_b_m[:3, 3]), 1e6 * cov_p, "mm")
    tilt = np.degrees([-border.R_w_g[1, 2], border.R_w_g[0, 2]])
    constants["tilt_deg"] = _length(tilt, np.degrees(1.0) ** 2 * cov_border[:2, :2], "deg")
    clocks = {"position": (3, POSITION_CLOCK)}
    if capture.Rs_w_m is not None and not capture.one_clock:
        clocks["orientation"] = (4, ORIENTATION_CLOCK)
    for kind, (place, at) in clocks.items():
        offset_s, drift = border.scalars[place], border.scalars[place + 2]
        std = np.sqrt(np.diag(cov_border)[at])
        constants[f"{kind}_late_ms"] = _scalar(-1e3 * offset_s, 1e3 * std[0], "ms")
        constants[f"{kind}_drift_ms_per_min"] = _scalar(-6e4 * drift, 6e4 * std[1], "ms/min")
    if capture.claims is not None:
        constants |= _columns(capture.claims, truth)
    return constants


def _skew(v: Array) -> Array:
    return np.array([[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]])


def _length(vector: Array, cov: Array, unit: str) -> Constant:
    """Length of a vector, its sigma along it, and whether it is zero."""
    length = float(np.linalg.norm(vector))
    along = vector / max(length, 1e-300)
    chance = float(chdtrc(len(vector), float(nees(vector, cov))))
    significant = bool(chance < CHANCE and length > MATTERS[unit])
    return Constant(length, float(np.sqrt(along @ cov @ along)), unit, significant)


def _scalar(value: float, std: float, unit: str) -> Constant:
    chance = float(chdtrc(1, (value / std) ** 2)) if std > 0.0 else 1.0
    significant = bool(chance < CHANCE and abs(value) > MATTERS[unit])
    return Constant(float(value), float(std), unit, significant)


def _columns(claims: GroundTruth, truth: GroundTruth) -> dict[str, Constant]:
    """Lateness of velocity columns and error of bias columns, against the audited states."""
    constants: dict[str, Constant] = {}
    assert truth.covariance is not None
    cov = truth.covariance.states
    inside = (claims.stamps_ns >= truth.stamps_ns[0]) & (claims.stamps_ns <= truth.stamps_ns[-1])
    at_ns = claims.stamps_ns[inside & np.isfinite(claims.v_w).all(axis=1)]
    near = np.abs(truth.stamps_ns[_nearest(truth.stamps_ns, at_ns)] - at_ns) < 0.02 * NS
    at_ns = at_ns[near]
    if len(at_ns) < 100:
        return constants
    audited = truth_at(truth, at_ns, max_gap_s=np.inf)
    rows = np.searchsorted(claims.stamps_ns, at_ns)
    constants["velocity_late_ms"] = _velocity_lag(claims.v_w[rows], audited)
    for name, column, unit in (
        ("acc_bias", claims.bias_acc[rows] - audited.bias_acc, "m/s^2"),
        ("gyro_bias", claims.bias_gyro[rows] - audited.bias_gyro, "rad/s"),
    ):
        if np.isfinite(column).all():
            at = slice(12, 15) if name == "acc_bias" else slice(9, 12)
            constants[f"{name}_column"] = _length(
                column.mean(axis=0), cov[:, at, at].mean(axis=0), unit
            )
    return constants


def _nearest(stamps_ns: Stamps, query_ns: Stamps) -> Stamps:
    return np.clip(np.searchsorted(stamps_ns, query_ns), 0, len(stamps_ns) - 1)


def _velocity_lag(v_claimed: Array, audited: GroundTruth) -> Constant:
    """Time by which velocities are late: their error regressed on acceleration.

    The scatter over blocks of ten seconds is the uncertainty.
    """
    t = (audited.stamps_ns - audited.stamps_ns[0]) / NS
    acc = np.gradient(audited.v_w, t, axis=0)
    # A rotated world is no lag: compare after the best rotation.
    U, _, Vt = np.linalg.svd(audited.v_w.T @ v_claimed)
    error = v_claimed @ (U @ np.diag([1.0, 1.0, np.linalg.det(U @ Vt)]) @ Vt).T - audited.v_w
    blocks = np.array_split(np.arange(len(t)), max(int(t[-1] / 10.0), 3))
    lags = np.array([-np.sum(error[b] * acc[b]) / np.sum(acc[b] ** 2) for b in blocks])
    weights = np.array([np.sum(acc[b] ** 2) for b in blocks])
    lag = float(np.sum(weights * lags) / weights.sum())
    spread = np.sqrt(np.sum(weights**2 * (lags - lag) ** 2)) / weights.sum()
    return _scalar(1e3 * lag, 1e3 * float(spread), "ms")


SENTENCES = {
    "rotation_deg": "orientation rotated by {value:.2f} ± {std:.2f} deg against the IMU",
    "lever_arm_mm": "position is of a point {value:.1f} ± {std:.1f} mm off the IMU",
    "tilt_deg": "world tilted by {value:.2f} ± {std:.2f} deg against gravity",
    "position_late_ms": "position {size:.1f} ± {std:.1f} ms {side}",
    "orientation_late_ms": "orientation {size:.1f} ± {std:.1f} ms {side}",
    "position_drift_ms_per_min": "clock of positions drifts by {value:.1f} ± {std:.1f} ms a minute",
    "orientation_drift_ms_per_min": (
        "clock of orientations drifts by {value:.1f} ± {std:.1f} ms a minute"
    ),
    "velocity_late_ms": "velocity columns {size:.1f} ± {std:.1f} ms {side}",
    "acc_bias_column": "accelerometer bias columns off by {value:.3f} ± {std:.3f} m/s^2",
    "gyro_bias_column": "gyroscope bias columns off by {value:.4f} ± {std:.4f} rad/s",
}


def audit_findings(
    capture: Capture, fit: AuditFit, constants: dict[str, Constant], jumps_ns: Stamps
) -> tuple[Finding, ...]:
    """Sentences for everything that is neither chance nor too small to matter."""
    relative = capture.claims is None and not np.array_equal(capture.T_b_m, np.eye(4))
    findings = []
    for name, constant in constants.items():
        if constant.significant:
            side = "late" if constant.value > 0.0 else "early"
            text = SENTENCES[name].format(
                value=constant.value, std=constant.std, size=abs(constant.value), side=side
            )
            if relative and name in ("rotation_deg", "lever_arm_mm"):
                text += ", compared with the stated T_BS"
            findings.append(Finding("warn", capture.name, text, name))
    findings += _unobservable(capture, fit)
    findings += _gaps(capture)
    findings += _jumps(capture, fit, jumps_ns)
    if not findings:
        findings.append(Finding("ok", capture.name, "agrees with the IMU; nothing found"))
    return tuple(findings)


def _unobservable(capture: Capture, fit: AuditFit) -> list[Finding]:
    if capture.Rs_w_m is None:
        return []
    values, axes = np.linalg.eigh(fit.posterior.border[13:16, 13:16])
    std_deg = float(np.degrees(np.sqrt(values[-1])))
    if std_deg < UNOBSERVABLE_DEG:
        return []
    axis = axes[:, -1] * np.sign(axes[np.argmax(np.abs(axes[:, -1])), -1])
    text = (
        f"rotation of the marker about the body's axis ({axis[0]:.2f}, {axis[1]:.2f}, "
        f"{axis[2]:.2f}) is known to ± {std_deg:.1f} deg only: the recording neither rotates nor "
        "accelerates enough. Take a recording that moves about all axes."
    )
    return [Finding("warn", capture.name, text, "unobservable rotation")]


def _gaps(capture: Capture) -> list[Finding]:
    steps_s = np.diff(capture.stamps_ns) / NS
    gaps = np.flatnonzero(steps_s > max(0.2, 3.5 * float(np.median(steps_s))))
    if not len(gaps):
        return []
    longest = gaps[np.argmax(steps_s[gaps])]
    at_s = (capture.stamps_ns[longest] - capture.stamps_ns[0]) / NS
    number = f"{len(gaps)} gaps" if len(gaps) > 1 else "one gap"
    text = f"{number}, the longest of {steps_s[longest]:.2f} s at {at_s:.1f} s, bridged by the IMU"
    return [Finding("warn", capture.name, text, "gaps")]


def _jumps(capture: Capture, fit: AuditFit, jumps_ns: Stamps) -> list[Finding]:
    """Rows that contradict the IMU, the largest jump first."""
    if not len(jumps_ns):
        return []
    residuals = fit.residuals.positions
    size_m = np.linalg.norm(residuals.white, axis=1) * fit.position.std
    largest = float(size_m[residuals.outliers].max()) if residuals.outliers.any() else 0.0
    apart = np.flatnonzero(np.diff(jumps_ns) > NS)
    starts_s = (jumps_ns[np.r_[0, apart + 1]] - capture.stamps_ns[0]) / NS
    listed = ", ".join(f"{start:.1f}" for start in starts_s[:5])
    more = f" and {len(starts_s) - 5} more" if len(starts_s) > 5 else ""
    text = f"jumps of up to {1e2 * largest:.1f} cm at {listed} s{more}"
    return [Finding("warn", capture.name, text, "jumps")]
