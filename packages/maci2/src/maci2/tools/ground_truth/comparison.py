"""Ground truth compared with the IMU, and with another ground truth.

A wrong mounting of the motion-capture marker shows as a constant rotation between the truth's body
frame t and the IMU's b. Truths smoothed with the IMU follow the gyroscope over short times and hide
it, so rotations are compared over seconds.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy

from maci2.findings import Finding, Level
from maci2.geometry.se3 import nearest_rotation, so3_exp_stack, so3_log_stack
from maci2.sensors import GroundTruth, ImuSamples, poses_at, truth_at, with_velocity
from maci2.sensors.interpolation import nearest_index
from maci2.types import GRAVITY_NORM, NS, Array, Stamps

HORIZON_S = 3.0
"""Length of the rotations compared, shorter for recordings below 24 s. Longer ones show more of a
smoothed truth's misalignment, but the gyroscope's drift blurs it."""

SHORT_S = 0.25
"""Length of the intervals whose mean rates and forces are compared: below pi at 12 rad/s."""

OVERLAP = 4
"""Compared rotations begin this many times in one horizon; their errors are not independent."""

FAR = 0.3
"""Misalignment [rad] above which the fit may not find its way from the identity."""

MIN_OVERLAP_S = 2.0
"""Common time of truth and IMU below which nothing is measured."""

_PRIOR_STD = np.array([0.5, 0.5, 0.5, 1.0, 1.0, 1.0])
"""Standard deviation of misalignment [rad] and gyroscope bias [rad/s]: keeps the covariance finite
where the motion says nothing."""


@dataclass(frozen=True)
class TruthCheck:
    """Ground truth compared with the IMU; NaN where it could not be measured."""

    overlap_s: float
    """Time covered by both, gaps included."""

    horizon_s: float
    """Length of the rotations compared."""

    misalignment_deg: float = np.nan
    """Angle between the truth's body frame and the IMU's, from rotations; a lower bound where the
    truth was smoothed with the IMU."""

    misalignment_std_deg: float = np.nan
    """Its standard error along the axis found."""

    rate_ratio: float = np.nan
    """Gyroscope rate over the truth's rate: 1, or 57.3 for a gyroscope in deg/s."""

    excitation: float = np.nan
    """Variation of the rate, rms [rad/s]; below 0.05 rates cannot be compared."""

    residual_deg: float = np.nan
    """Typical disagreement of rotations over the horizon after the fit."""

    tilt_deg: float = np.nan
    """Angle between the mean specific force in the world and the truth's z axis."""

    force: float = np.nan
    """Norm of that mean force [m/s^2]."""


class _Intervals(NamedTuple):
    """Stretches between two timestamps of the truth, inside the IMU recording."""

    first: Stamps
    """(k,) index into the truth."""

    last: Stamps
    start_ns: Stamps
    length_ns: Stamps

    @property
    def lengths_s(self) -> Array:
        return self.length_ns / NS

    def middles_ns(self, parts: int) -> Stamps:
        """(k, parts) middles of equal parts."""
        fractions = (np.arange(parts) + 0.5) / parts
        return self.start_ns[:, None] + (self.length_ns[:, None] * fractions).astype(np.int64)


class _Fit(NamedTuple):
    R_t_b: Array
    cov: Array
    """(6, 6) of misalignment [rad] and gyroscope bias [rad/s]."""

    residual: float
    """Median angle [rad]."""


def check_truth(truth: GroundTruth, imu: ImuSamples) -> TruthCheck:
    """Compare a ground truth with the IMU it belongs to."""
    start_ns = max(int(truth.stamps_ns[0]), int(imu.stamps_ns[0]))
    end_ns = min(int(truth.stamps_ns[-1]), int(imu.stamps_ns[-1]))
    overlap_s = max(end_ns - start_ns, 0) / NS
    horizon_s = min(HORIZON_S, overlap_s / 8.0)
    if overlap_s < MIN_OVERLAP_S:
        return TruthCheck(overlap_s, horizon_s)
    short = _intervals(truth.stamps_ns, start_ns, end_ns, SHORT_S, SHORT_S)
    long = _intervals(truth.stamps_ns, start_ns, end_ns, horizon_s, horizon_s / OVERLAP)
    if len(short.first) < 4 or len(long.first) < 4:
        return TruthCheck(overlap_s, horizon_s)

    R_t_b, rate_ratio, excitation = _register_rates(truth, imu, short)
    fit = _fit_rotations(truth, imu, long, np.eye(3))
    if np.linalg.norm(so3_log_stack(R_t_b[None])) > FAR:
        far_fit = _fit_rotations(truth, imu, long, R_t_b)
        # The identity wins a tie: with one axis of rotation, any angle about it fits as well.
        fit = far_fit if far_fit.residual < 0.9 * fit.residual else fit
    phi = so3_log_stack(fit.R_t_b[None])[0]
    axis = phi / max(float(np.linalg.norm(phi)), 1e-12)
    force_w = _mean_force(truth, imu, short)
    return TruthCheck(
        overlap_s=overlap_s,
        horizon_s=horizon_s,
        misalignment_deg=float(np.degrees(np.linalg.norm(phi))),
        misalignment_std_deg=float(np.degrees(np.sqrt(axis @ fit.cov[:3, :3] @ axis))),
        rate_ratio=rate_ratio,
        excitation=excitation,
        residual_deg=float(np.degrees(fit.residual)),
        tilt_deg=float(np.degrees(np.arctan2(np.linalg.norm(force_w[:2]), force_w[2]))),
        force=float(np.linalg.norm(force_w)),
    )


def _intervals(
    stamps_ns: Stamps, start_ns: int, end_ns: int, length_s: float, every_s: float
) -> _Intervals:
    """Intervals of about this length that begin and end on timestamps of the truth."""
    starts_ns = np.arange(start_ns, end_ns, max(int(every_s * NS), 1), dtype=np.int64)
    first = np.unique(np.searchsorted(stamps_ns, starts_ns))
    first = first[first < len(stamps_ns)]
    last = np.searchsorted(stamps_ns, stamps_ns[first] + int(length_s * NS))
    first, last = first[last < len(stamps_ns)], last[last < len(stamps_ns)]
    length_ns = stamps_ns[last] - stamps_ns[first]
    # Longer ones end after a gap of the truth.
    good = (stamps_ns[last] <= end_ns) & (length_ns / NS < 1.25 * length_s + 0.05)
    return _Intervals(first[good], last[good], stamps_ns[first[good]], length_ns[good])


def _interpolate(stamps_ns: Stamps, values: Array, query_ns: Stamps) -> Array:
    """(n, 3) samples at queries of any shape, linearly."""
    # Differences first: absolute nanoseconds do not fit into a float.
    t_s = (stamps_ns - stamps_ns[0]) / NS
    query_s = (query_ns - stamps_ns[0]) / NS
    return np.stack([np.interp(query_s, t_s, values[:, axis]) for axis in range(3)], axis=-1)


def _true_turns(truth: GroundTruth, intervals: _Intervals) -> Array:
    """Rotation of the truth's body over each interval, R_t0_t1."""
    R_w_t = truth.Ts_w_b[:, :3, :3]
    return np.swapaxes(R_w_t[intervals.first], 1, 2) @ R_w_t[intervals.last]


def _register_rates(
    truth: GroundTruth, imu: ImuSamples, intervals: _Intervals
) -> tuple[Array, float, float]:
    """R_t_b, ratio of rates and excitation from mean rates (Kabsch); a constant bias drops out."""
    parts = max(round(SHORT_S * imu.rate_hz), 1)
    gyro = _interpolate(imu.stamps_ns, imu.gyro, intervals.middles_ns(parts)).mean(axis=1)
    true_rate = so3_log_stack(_true_turns(truth, intervals)) / intervals.lengths_s[:, None]
    gyro = gyro - np.median(gyro, axis=0)
    true_rate = true_rate - np.median(true_rate, axis=0)
    R_t_b = nearest_rotation(true_rate.T @ gyro)
    ratio = np.sqrt(np.sum(gyro**2) / max(float(np.sum(true_rate**2)), 1e-12))
    excitation = np.sqrt(np.mean(np.sum(true_rate**2, axis=1)))
    return R_t_b, float(ratio), float(excitation)


def _fit_rotations(
    truth: GroundTruth, imu: ImuSamples, intervals: _Intervals, R_t_b: Array
) -> _Fit:
    """Misalignment and one gyroscope bias that carry gyro rotations into the truth's."""
    Rs_t1_t0 = np.swapaxes(_true_turns(truth, intervals), 1, 2)
    bias = np.zeros(3)
    for _ in range(5):
        Rs_b0_b1, turn_D_bias = _gyro_turns(imu, intervals, bias)
        Rs_carried = R_t_b @ Rs_b0_b1 @ R_t_b.T
        r = so3_log_stack(Rs_t1_t0 @ Rs_carried)
        r_D_x = np.concatenate(
            [np.swapaxes(Rs_carried, 1, 2) - np.eye(3), R_t_b @ turn_D_bias], axis=2
        )
        angles = np.linalg.norm(r, axis=1)
        # Huber: beyond three typical errors, a glitch of motion capture.
        typical = float(np.median(angles)) / 1.54 + 1e-7
        weights = 1.0 / np.maximum(1.0, angles / (3.0 * typical))
        variance = np.sum(weights * angles**2) / (3.0 * np.sum(weights)) + 1e-14
        info = np.einsum("n,nij,nik->jk", weights / (variance * OVERLAP), r_D_x, r_D_x)
        cov = np.linalg.inv(info + np.diag(_PRIOR_STD**-2))
        gradient = np.einsum("n,nij,ni->j", weights / (variance * OVERLAP), r_D_x, r)
        step = -cov @ gradient
        R_t_b = so3_exp_stack(step[None, :3])[0] @ R_t_b
        bias = bias + step[3:]
    return _Fit(R_t_b, cov, float(np.median(angles)))


def _gyro_turns(imu: ImuSamples, intervals: _Intervals, bias: Array) -> tuple[Array, Array]:
    """Rotations R_b0_b1 of the gyroscope and their right derivatives by its bias."""
    parts = max(round(float(intervals.lengths_s.max()) * imu.rate_hz), 1)
    rates = _interpolate(imu.stamps_ns, imu.gyro, intervals.middles_ns(parts)) - bias
    dt = (intervals.lengths_s / parts)[:, None]
    Rs_b0_b1 = np.tile(np.eye(3), (len(dt), 1, 1))
    turn_D_bias = np.zeros_like(Rs_b0_b1)
    for part in range(parts):
        step = so3_exp_stack(rates[:, part] * dt)
        Rs_b0_b1 = Rs_b0_b1 @ step
        turn_D_bias = np.swapaxes(step, 1, 2) @ turn_D_bias - dt[:, :, None] * np.eye(3)
    return Rs_b0_b1, turn_D_bias


def _mean_force(truth: GroundTruth, imu: ImuSamples, intervals: _Intervals) -> Array:
    """Specific force in the truth's world without its accelerations: (0, 0, 9.81) if both are
    right. Medians over intervals, NaN without velocity."""
    v_w = truth.v_w if np.isfinite(truth.v_w).any() else with_velocity(truth).v_w
    change = (v_w[intervals.last] - v_w[intervals.first]) / intervals.lengths_s[:, None]
    parts = 10
    query_ns = intervals.middles_ns(parts)
    Ts_w_b = poses_at(truth.stamps_ns, truth.Ts_w_b, query_ns.ravel(), max_gap_s=2.0 * SHORT_S)
    R_w_b = Ts_w_b[:, :3, :3].reshape(*query_ns.shape, 3, 3)
    # Averaged over a part: vibration would alias otherwise.
    length = min(max(round(SHORT_S / parts * imu.rate_hz), 1) | 1, len(imu))
    smooth = scipy.ndimage.uniform_filter1d(imu.acc, length, axis=0, mode="constant")
    acc = _interpolate(imu.stamps_ns, smooth, query_ns)
    force_w = np.einsum("npij,npj->ni", R_w_b, acc) / parts - change
    finite = np.isfinite(force_w).all(axis=1)
    return np.median(force_w[finite], axis=0) if finite.any() else np.full(3, np.nan)


MAX_MISALIGNMENT_DEG = 0.5
"""A truth is wrong when its misalignment exceeds this by three standard errors."""

BIAS_TILT_DEG = 1.0
"""Tilt that an accelerometer bias of 0.17 m/s^2 looks like: up to here it proves nothing."""

MAX_TILT_DEG = 1.5
"""Tilt of gravity in a truth's world that an accelerometer bias still explains."""

WRONG_TILT_DEG = 3.0
"""Tilt that only an accelerometer bias above 0.5 m/s^2 would explain."""

MAX_RESIDUAL_DEG = 3.0
"""Typical disagreement of truth and gyroscope over a few seconds."""

MIN_EXCITATION = 0.05
"""Variation of the rate [rad/s] below which gyroscope and truth cannot be compared."""


class _Fault(NamedTuple):
    text: str
    serious: bool = True
    of_truth: bool = True
    """The truth is to blame, not the IMU."""


def truth_findings(truths: dict[str, TruthCheck]) -> list[Finding]:
    """Findings about ground truths. Faults of the first one are errors: results would be measured
    against it."""
    faults = {name: list(_truth_faults(check)) for name, check in truths.items()}
    sound = [name for name, found in faults.items() if not found]
    remedy = f" Use the truth {sound[0]} instead." if sound else " Do not measure against it."
    findings = []
    for number, (name, check) in enumerate(truths.items()):
        for fault in faults[name]:
            level: Level = "error" if fault.serious and number == 0 else "warn"
            findings.append(Finding(level, name, fault.text + (remedy if fault.of_truth else "")))
        if not faults[name]:
            findings.append(Finding("ok", name, _truth_summary(check)))
    if not truths:
        findings.append(Finding("ok", "truth", "no ground truth: errors cannot be measured"))
    return findings


def _truth_summary(check: TruthCheck) -> str:
    text = f"overlaps the IMU for {check.overlap_s:.1f} s"
    if check.excitation > MIN_EXCITATION:
        text += (
            f", agrees with the gyroscope to {check.residual_deg:.2f} deg in "
            f"{check.horizon_s:.1f} s, misaligned by {check.misalignment_deg:.2f} ± "
            f"{check.misalignment_std_deg:.2f} deg"
        )
    if check.tilt_deg > BIAS_TILT_DEG:
        text += f", gravity tilted by {check.tilt_deg:.2f} deg"
    return text


def _truth_faults(check: TruthCheck) -> Iterator[_Fault]:
    """Faults of a ground truth, in plain words; one of its rotations at most."""
    excess_deg = check.misalignment_deg - 3.0 * check.misalignment_std_deg
    if check.overlap_s <= 0.0:
        yield _Fault("no overlap with the IMU: 0 s in common, needed at least 2.5 s on one clock.")
        return
    if not check.excitation > MIN_EXCITATION:
        pass
    elif not 0.8 < check.rate_ratio < 1.25:
        hint = "; 57.3 means deg/s" if 40.0 < check.rate_ratio < 80.0 else ""
        yield _Fault(
            f"the gyroscope rotates {check.rate_ratio:.2f} times as fast as the truth, needed "
            f"0.8 to 1.25{hint}. Check the gyroscope's unit and scale.",
            of_truth=False,
        )
    elif check.residual_deg > MAX_RESIDUAL_DEG:
        yield _Fault(
            f"rotations of truth and gyroscope differ by {check.residual_deg:.1f} deg in "
            f"{check.horizon_s:.1f} s whatever the alignment, needed below {MAX_RESIDUAL_DEG:.0f}. "
            "Wrong clock, wrong recording, or rotations given as their inverse."
        )
    elif excess_deg > MAX_MISALIGNMENT_DEG:
        yield _Fault(
            f"rotations of truth and gyroscope agree only after a rotation of the body frame by "
            f"{check.misalignment_deg:.1f} ± {check.misalignment_std_deg:.1f} deg (more, if the "
            f"truth was smoothed with this IMU), needed {MAX_MISALIGNMENT_DEG} within three "
            "standard errors: the truth's orientation is wrong."
        )
    if check.tilt_deg > MAX_TILT_DEG:
        yield _Fault(
            f"gravity is tilted by {check.tilt_deg:.1f} deg from the truth's z axis (mean force "
            f"{check.force:.2f}, needed {GRAVITY_NORM}); an accelerometer bias explains about "
            f"{BIAS_TILT_DEG:.0f} deg, needed below {MAX_TILT_DEG}. Its world is not level or its "
            "body frame is rotated.",
            serious=check.tilt_deg > WRONG_TILT_DEG,
        )


MARGIN_S = 0.1
MAX_GAP_S = 0.02
FEWEST = 100
"""Rows in common from which two truths are compared."""


@dataclass(frozen=True)
class Agreement:
    """Residual difference of two ground truths after alignment of their worlds."""

    late_s: float
    """Lateness of the other's positions [s]; zero where clocks were not aligned."""

    position_m: float
    """Root mean square of positions."""

    rotation_deg: float
    """Root mean square of rotations."""


@dataclass(frozen=True)
class Compared:
    """A ground truth of the recording beside audited states."""

    name: str
    fixed: Agreement
    """With clocks as they are."""

    shifted: Agreement
    """With its positions taken earlier by what agrees best."""

    def sentence(self) -> str:
        """Both figures in plain words."""
        side = "earlier" if self.shifted.late_s > 0.0 else "later"
        return (
            f"audited states differ from {self.name} by {self.fixed.rotation_deg:.2f} deg and "
            f"{1e3 * self.fixed.position_m:.1f} mm rms after alignment of the worlds, by "
            f"{1e3 * self.shifted.position_m:.1f} mm with its positions taken "
            f"{1e3 * abs(self.shifted.late_s):.1f} ms {side}"
        )


def compare_with_published(
    audited: GroundTruth, published: dict[str, GroundTruth]
) -> list[Compared]:
    """Every published truth that has rows in common with the audited states."""
    found = []
    for name, theirs in published.items():
        near_ns = audited.stamps_ns[nearest_index(audited.stamps_ns, theirs.stamps_ns)]
        near = np.abs(near_ns - theirs.stamps_ns) < MAX_GAP_S / 2.0 * NS
        if near.sum() >= FEWEST:
            common = theirs.part(near)
            fixed, shifted = (agreement(audited, common, clocks) for clocks in (False, True))
            found.append(Compared(name, fixed, shifted))
    return found


def agreement(ours: GroundTruth, theirs: GroundTruth, align_clocks: bool) -> Agreement:
    """Compare at the other's timestamps; `ours` needs velocities where clocks are aligned."""
    margin_ns = round(MARGIN_S * NS)
    inside = (theirs.stamps_ns > ours.stamps_ns[0] + margin_ns) & (
        theirs.stamps_ns < ours.stamps_ns[-1] - margin_ns
    )
    other = theirs.part(inside)
    own = truth_at(ours, other.stamps_ns, MAX_GAP_S)
    p, v, p_other = own.Ts_w_b[:, :3, 3], own.v_w, other.Ts_w_b[:, :3, 3]
    p, v, p_other = (values - values.mean(axis=0) for values in (p, v, p_other))
    late_s = 0.0
    for _ in range(3):
        R = nearest_rotation((p - late_s * v).T @ p_other)
        apart = p - p_other @ R.T
        if align_clocks:
            late_s = float(np.sum(apart * v) / np.sum(v**2))
            apart = apart - late_s * v
    turns = so3_log_stack(np.swapaxes(own.Ts_w_b[:, :3, :3], 1, 2) @ R @ other.Ts_w_b[:, :3, :3])
    position_m, rotation = (
        float(np.sqrt(np.mean(np.sum(errors**2, axis=1)))) for errors in (apart, turns)
    )
    return Agreement(late_s, position_m, float(np.degrees(rotation)))
