"""Errors of a ground truth that its audit finds, as constants and as sentences."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import stdtr

from maci2.estimator.problem import (
    GRAVITY,
    MARKER,
    ORIENTATION_CLOCK,
    POSITION_CLOCK,
)
from maci2.findings import Finding
from maci2.geometry import so3_log
from maci2.geometry.gaussian import chi2_significance, nees
from maci2.geometry.se3 import nearest_rotation, so3_log_stack
from maci2.geometry.so3 import skew
from maci2.sensors import GroundTruth, bridged, truth_at
from maci2.tools.ground_truth.audit_problem import REACH_S, AuditFit
from maci2.tools.ground_truth.capture import Capture
from maci2.tools.ground_truth.registration import lost_rows_in_words
from maci2.types import NS, Array, Stamps

CHANCE = 1e-3
"""Probability below which chance does not explain a constant."""

DEG = float(np.degrees(1.0))
UNITS = {
    "deg": (DEG, 0.02),
    "mm": (1e3, 1.0),
    "ms": (1e3, 0.3),
    "ms/min": (6e4, 0.2),
    "m/s^2": (1.0, 0.01),
    "rad/s": (1.0, 2e-4),
    "ratio": (1.0, 0.025),
}
"""SI unit in each unit, and the least size in it that is worth a sentence; of a ratio, the least
distance from 1."""


@dataclass(frozen=True)
class Constant:
    """One thing that the audit measured over the whole recording."""

    value: float
    std: float
    unit: str
    significant: bool
    """Larger than chance and than what matters."""


def length_of(vector: Array, cov: Array, unit: str) -> Constant:
    """Length of a vector [SI], its sigma along it, and whether it is zero."""
    scale, matters = UNITS[unit]
    length = float(np.linalg.norm(vector))
    along = vector / max(length, 1e-300)
    chance = chi2_significance(len(vector), float(nees(vector, cov)))
    significant = bool(chance < CHANCE and scale * length > matters)
    return Constant(scale * length, scale * float(np.sqrt(along @ cov @ along)), unit, significant)


def scalar_of(value: float, std: float, unit: str, dof: int = 10**6) -> Constant:
    """A number [SI], and whether it is zero, or 1 for a ratio; `dof` are those of `std` where it is
    itself an estimate (Student's distribution)."""
    scale, matters = UNITS[unit]
    away = value - 1.0 if unit == "ratio" else value
    chance = 2.0 * float(stdtr(dof, -abs(away) / std)) if std > 0.0 else 1.0
    significant = bool(chance < CHANCE and scale * abs(away) > matters)
    return Constant(scale * float(value), scale * float(std), unit, significant)


NEAR_S = 0.02
"""Rows are compared this close to an audited state."""

FEWEST = 100
BLOCK_S = 10.0
HALF_S = 0.005
"""Audited accelerations are differences of velocity over twice this."""

LEAST_SPEED = 0.1
"""Speed, rms [m/s], below which nothing is said of velocity columns."""

ALIKE = 0.9
"""Cosine between velocity columns and audited velocities above which they are the same motion."""

SCALE = 0.1
"""Largest error of the columns' scale that is not another unit."""


def column_constants(claims: GroundTruth, truth: GroundTruth, R_g_w: Array) -> dict[str, Constant]:
    """Lateness of velocity columns and errors of bias columns, against audited states on the
    same clock; R_g_w takes the columns' world to the level one."""
    constants: dict[str, Constant] = {}
    assert truth.covariance is not None
    both = _at_claims(claims, truth)
    if both is None:
        return constants
    rows, audited = both
    if _rms(audited.v_w) > LEAST_SPEED and not velocity_finding("", claims, truth, R_g_w):
        constants["velocity_late_ms"] = _velocity_lag(claims.v_w[rows], audited, truth)
    cov = truth.covariance.states.mean(axis=0)
    for name, part, unit in (("acc", slice(12, 15), "m/s^2"), ("gyro", slice(9, 12), "rad/s")):
        column = getattr(claims, f"bias_{name}")[rows] - getattr(audited, f"bias_{name}")
        if np.isfinite(column).all():
            constants[f"{name}_bias_column"] = length_of(column.mean(axis=0), cov[part, part], unit)
    return constants


def _at_claims(claims: GroundTruth, truth: GroundTruth) -> tuple[Stamps, GroundTruth] | None:
    """Rows that state a velocity, and the audited states there; None where there are too few."""
    margin_ns = round(HALF_S * NS)
    first_ns, last_ns = truth.stamps_ns[0] + margin_ns, truth.stamps_ns[-1] - margin_ns
    inside = (claims.stamps_ns >= first_ns) & (claims.stamps_ns <= last_ns)
    rows = np.flatnonzero(inside & np.isfinite(claims.v_w).all(axis=1))
    at_ns = claims.stamps_ns[rows]
    after = np.clip(np.searchsorted(truth.stamps_ns, at_ns + margin_ns), 0, len(truth) - 1)
    before = np.searchsorted(truth.stamps_ns, at_ns - margin_ns, side="right") - 1
    rows = rows[truth.stamps_ns[after] - truth.stamps_ns[before] < NEAR_S * NS + 2 * margin_ns]
    if len(rows) < FEWEST:
        return None
    return rows, truth_at(truth, claims.stamps_ns[rows], max_gap_s=np.inf)


def _velocity_lag(v_claimed: Array, audited: GroundTruth, truth: GroundTruth) -> Constant:
    """Time by which velocities are late: their error regressed on acceleration.

    The scatter over blocks of ten seconds is the uncertainty.
    """
    half_ns = round(HALF_S * NS)
    shifted_ns = (audited.stamps_ns + shift for shift in (half_ns, -half_ns))
    later, sooner = (truth_at(truth, at_ns, max_gap_s=np.inf).v_w for at_ns in shifted_ns)
    acc = (later - sooner) / (2.0 * HALF_S)
    # A rotated world is no lag: compare after the best rotation.
    error = v_claimed @ nearest_rotation(audited.v_w.T @ v_claimed).T - audited.v_w
    length_s = (audited.stamps_ns[-1] - audited.stamps_ns[0]) / NS
    count = max(int(length_s / BLOCK_S), 3)
    blocks = np.array_split(np.arange(len(acc)), count)
    lags = np.array([-np.sum(error[b] * acc[b]) / np.sum(acc[b] ** 2) for b in blocks])
    weights = np.array([np.sum(acc[b] ** 2) for b in blocks])
    weights /= weights.sum()
    lag = float(np.sum(weights * lags))
    scatter = float(np.sum(weights**2 * (lags - lag) ** 2)) * count / (count - 1.0)
    return scalar_of(lag, np.sqrt(scatter), "ms", count - 1)


def velocity_finding(
    name: str, claims: GroundTruth, truth: GroundTruth, R_g_w: Array
) -> list[Finding]:
    """Velocity columns that are none: zero, in the body's frame, of another unit or sign."""
    both = _at_claims(claims, truth)
    if both is None:
        return []
    rows, audited = both
    known = np.asarray(np.isfinite(audited.v_w).all(axis=1))
    if known.sum() < FEWEST:
        return []
    rows, audited = rows[known], audited.part(known)
    claimed, v_g = claims.v_w[rows] @ R_g_w.T, audited.v_w
    speed, claimed_speed = _rms(v_g), _rms(claimed)
    if speed < LEAST_SPEED:
        return []
    if claimed_speed < SCALE * speed:
        text = f"velocity columns are {claimed_speed:.2g} m/s rms"
    elif (cosine := _cosine(claimed, v_g)) < -ALIKE:
        text = "velocity columns have the wrong sign"
    elif cosine < ALIKE:
        v_b = np.einsum("nji,nj->ni", audited.Ts_w_b[:, :3, :3], v_g)
        if _cosine(claims.v_w[rows], v_b) > ALIKE:
            text = "velocity columns are in the body's frame"
        else:
            text = f"velocity columns do not follow the motion (correlation {cosine:.2f})"
    elif abs(claimed_speed / speed - 1.0) > SCALE:
        text = f"velocity columns are {claimed_speed / speed:.3g} times the velocity"
    else:
        return []
    text += (
        f", while the body moves at {speed:.2f} m/s rms; needed are velocities of the body in the "
        "world [m/s]"
    )
    return [Finding("warn", name, text, "velocity columns")]


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(np.sum(values**2, axis=1))))


def _cosine(a: Array, b: Array) -> float:
    norms = float(np.linalg.norm(a)) * float(np.linalg.norm(b))
    return float(np.sum(a * b)) / max(norms, 1e-12)


SPAN_S = 0.1
"""Steps are taken over this time."""

MAX_GAP_S = 0.02
SIGMAS = 8.0
"""Size of a jump in standard deviations of ordinary steps; their tails are long."""

LEAST_M, LEAST_RAD = 0.01, np.deg2rad(0.5)
"""Size of a jump."""


class Jumps(NamedTuple):
    """Jumps of positions or of orientations."""

    kind: str
    unit: str
    stamps_ns: Stamps
    """(m,) middles of steps that are jumps, on the source's own clock."""

    sizes: Array
    """(m,) in that unit."""

    def sentence(self, start_ns: int) -> str:
        """The largest of all, and the largest step of each group within a second, the largest group
        first."""
        groups = np.cumsum(np.r_[0, np.diff(self.stamps_ns) > NS])
        order = np.lexsort((-self.sizes, groups))
        tops = order[np.unique(groups[order], return_index=True)[1]]
        at_s = (self.stamps_ns[tops[np.argsort(-self.sizes[tops])]] - start_ns) / NS
        listed = ", ".join(f"{start:.1f}" for start in at_s[:5])
        more = f" and {len(at_s) - 5} more, smaller" if len(at_s) > 5 else ""
        return f"{self.kind} jump by up to {self.sizes.max():.1f} {self.unit} at {listed} s{more}"


def find_jumps(fit: AuditFit, truth: GroundTruth) -> list[Jumps]:
    """Steps of the capture's positions and orientations that audited states do not have."""
    capture = fit.start.capture
    shared = fit.solution.shared
    R_g_w, T_b_m = shared.R_w_g.T, shared.T_b_m
    rows, at = _states(fit, truth, POSITION_CLOCK)
    p_g_m = at.Ts_w_b[:, :3, 3] + at.Ts_w_b[:, :3, :3] @ T_b_m[:3, 3]
    apart = capture.p_w_m[rows] @ R_g_w.T - p_g_m
    at_ns, sizes = _jumps(capture.stamps_ns[rows], apart, LEAST_M)
    jumps = [Jumps("positions", "cm", at_ns, 1e2 * sizes)]
    if capture.Rs_w_m is not None:
        rows, at = _states(fit, truth, ORIENTATION_CLOCK)
        Rs_g_m = at.Ts_w_b[:, :3, :3] @ T_b_m[:3, :3]
        apart = so3_log_stack(R_g_w @ capture.Rs_w_m[rows] @ np.swapaxes(Rs_g_m, 1, 2))
        at_ns, sizes = _jumps(capture.stamps_ns[rows], apart, LEAST_RAD)
        jumps.append(Jumps("orientations", "deg", at_ns, DEG * sizes))
    return jumps


def _states(fit: AuditFit, truth: GroundTruth, clock: slice) -> tuple[Stamps, GroundTruth]:
    """Rows beside which there are audited states, and these."""
    scalars, stamps_ns = fit.solution.shared.scalars, fit.start.capture.stamps_ns
    offset_s, drift = scalars[clock]
    since_s = (stamps_ns - fit.start.problem.clock_origin_ns) / NS
    stamps_ns = stamps_ns + np.rint((offset_s + drift * since_s) * NS).astype(np.int64)
    rows = np.flatnonzero(bridged(truth.stamps_ns, stamps_ns, MAX_GAP_S))
    return rows, truth_at(truth, stamps_ns[rows], MAX_GAP_S)


def _jumps(stamps_ns: Stamps, apart: Array, least: float) -> tuple[Stamps, Array]:
    """Middles and sizes of a difference's steps over `SPAN_S` that are far larger than others."""
    period_ns = float(np.median(np.diff(stamps_ns))) if len(stamps_ns) > 1 else np.inf
    k = max(round(SPAN_S * NS / period_ns), 1)
    lengths_ns = stamps_ns[k:] - stamps_ns[:-k]
    steps = np.linalg.norm(apart[k:] - apart[:-k], axis=1)
    near = lengths_ns < 1.5 * SPAN_S * NS
    # Of a vector with three normal components, the median length is 1.54 sigmas.
    typical = float(np.median(steps[near])) / 1.54 if near.any() else 0.0
    far = near & (steps > max(least, SIGMAS * typical))
    return (stamps_ns[:-k] + lengths_ns // 2)[far], steps[far]


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


def measure(fit: AuditFit, truth: GroundTruth) -> dict[str, Constant]:
    """Constants of the capture, and of the columns that a published truth has beside poses."""
    capture = fit.start.capture
    shared, cov_shared = fit.solution.shared, fit.posterior.shared
    constants = {}
    if capture.Rs_w_m is not None:
        change = np.ascontiguousarray(shared.T_b_m[:3, :3] @ capture.T_b_m[:3, :3].T)
        cov_phi = cov_shared[MARKER, MARKER][3:, 3:]
        constants["rotation_deg"] = length_of(so3_log(change), cov_phi, "deg")
    # Of the translation itself: rho and phi both move it.
    p = shared.T_b_m[:3, 3]
    J = np.hstack([np.eye(3), -skew(p)])
    cov_p = J @ cov_shared[MARKER, MARKER] @ J.T
    constants["lever_arm_mm"] = length_of(p - capture.T_b_m[:3, 3], cov_p, "mm")
    up_w = shared.R_w_g[:, 2]
    sine = float(np.hypot(up_w[0], up_w[1]))
    tilt = float(np.arctan2(sine, up_w[2])) * np.array([-up_w[1], up_w[0]]) / max(sine, 1e-12)
    constants["tilt_deg"] = length_of(tilt, cov_shared[GRAVITY, GRAVITY], "deg")
    clocks = {"position": POSITION_CLOCK}
    if capture.Rs_w_m is not None and not capture.one_clock:
        clocks["orientation"] = ORIENTATION_CLOCK
    for kind, clock in clocks.items():
        offset_s, drift = shared.scalars[clock]
        std = np.sqrt(np.diag(cov_shared)[clock])
        constants[f"{kind}_late_ms"] = scalar_of(-offset_s, std[0], "ms")
        constants[f"{kind}_drift_ms_per_min"] = scalar_of(-drift, std[1], "ms/min")
    fit_a = fit.start.accelerations
    if fit_a is not None and np.isfinite(fit_a.scale):
        constants["position_scale"] = scalar_of(fit_a.scale, fit_a.std_scale, "ratio")
    if capture.claims is not None:
        claims, away_s = _on_imu_clock(capture.claims, fit)
        constants |= column_constants(claims, truth, shared.R_w_g.T)
        late = constants.get("velocity_late_ms")
        if late is not None and away_s:
            late_s = 1e-3 * late.value + away_s
            constants["velocity_late_ms"] = scalar_of(late_s, 1e-3 * late.std, "ms")
    return constants


def _on_imu_clock(claims: GroundTruth, fit: AuditFit) -> tuple[GroundTruth, float]:
    """Published columns moved by a clock offset that is no small error, and how late it is [s]."""
    offset_s = float(fit.solution.shared.scalars[POSITION_CLOCK.start])
    std_s = float(np.sqrt(fit.posterior.shared[POSITION_CLOCK, POSITION_CLOCK][0, 0]))
    if abs(offset_s) < max(ANOTHER_CLOCK_S, 5.0 * std_s):
        return claims, 0.0
    stamps_ns = claims.stamps_ns + round(offset_s * NS)
    return replace(claims, stamps_ns=stamps_ns), -offset_s


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
    fit: AuditFit, truth: GroundTruth, constants: dict[str, Constant], jumps: list[Jumps]
) -> tuple[Finding, ...]:
    """Sentences for everything that is neither chance nor too small to matter."""
    capture = fit.start.capture
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
    further = [*_faults_of_motion(fit), *_faults_of_rows(capture)]
    start_ns = int(capture.stamps_ns[0])
    further += [("jumps", each.sentence(start_ns)) for each in jumps if len(each.sizes)]
    findings += [Finding("warn", capture.name, text, fault) for fault, text in further]
    if not findings:
        findings.append(Finding("ok", capture.name, "agrees with the IMU; nothing found"))
    return tuple(findings)


Faults = Iterator[tuple[str, str]]
"""Names of faults, each with a sentence."""


def _faults_of_motion(fit: AuditFit) -> Faults:
    """A world whose z axis is not even roughly up, rows that scatter by more than any tracker's,
    and what the motion leaves open."""
    up_w = fit.solution.shared.R_w_g[:, 2]
    if up_w[2] <= np.cos(ANOTHER_WORLD):
        at = int(np.argmax(np.abs(up_w)))
        axis = ("-" if up_w[at] < 0.0 else "+") + "xyz"[at]
        yield (
            "world",
            f"up is {axis} in its world, needed +z (NED or another convention?); the audit levels "
            "it",
        )
    scatter = []
    if fit.position.std > MOST_SCATTER:
        scatter.append(f"positions scatter by {1e2 * fit.position.std:.0f} cm")
    if fit.orientation is not None and DEG * fit.orientation.std > MOST_SCATTER_DEG:
        scatter.append(f"orientations scatter by {DEG * fit.orientation.std:.1f} deg")
    meaning = "about what the IMU measures: they are not those of this motion, or very noisy"
    yield from (("noise", f"{size} {meaning}") for size in scatter)
    tilt_deg = DEG * float(np.sqrt(np.linalg.eigvalsh(fit.posterior.shared[GRAVITY, GRAVITY])[-1]))
    if tilt_deg > UNOBSERVABLE_DEG:
        yield (
            "unobservable gravity",
            f"the direction of gravity is known to ± {tilt_deg:.1f} deg only: where nothing "
            "rotates, a bias of the accelerometer looks like a tilt. Take a recording that "
            "rotates.",
        )
    if fit.start.capture.Rs_w_m is None:
        return
    values, axes = np.linalg.eigh(fit.posterior.shared[MARKER, MARKER][3:, 3:])
    std_deg = DEG * float(np.sqrt(values[-1]))
    if std_deg > UNOBSERVABLE_DEG:
        x, y, z = axes[:, -1] * np.sign(axes[np.argmax(np.abs(axes[:, -1])), -1])
        yield (
            "unobservable rotation",
            f"rotation of the marker about the body's axis ({x:.2f}, {y:.2f}, {z:.2f}) is known to "
            f"± {std_deg:.1f} deg only: the recording neither rotates nor accelerates enough. Take "
            "a recording that moves about all axes.",
        )


def _faults_of_rows(capture: Capture) -> Faults:
    """Rows that are lost, and time without rows."""
    if len(capture.lost_ns):
        yield "lost rows", lost_rows_in_words(capture) + "; they are not used"
    steps_s = np.diff(capture.stamps_ns) / NS
    gaps = np.flatnonzero(steps_s > max(0.2, 3.5 * float(np.median(steps_s))))
    if len(gaps):
        longest = gaps[np.argmax(steps_s[gaps])]
        at_s = (capture.stamps_ns[longest] - capture.stamps_ns[0]) / NS
        number = f"{len(gaps)} gaps" if len(gaps) > 1 else "one gap"
        yield (
            "gaps",
            f"{number}, the longest of {steps_s[longest]:.2f} s at {at_s:.1f} s; states are given "
            f"up to {REACH_S} s into a gap, carried by the IMU",
        )
