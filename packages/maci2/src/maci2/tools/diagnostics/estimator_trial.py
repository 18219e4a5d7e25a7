"""Trial runs of the estimators on any source of camera motion, and the excitation they show."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from maci2.calibration import calibrate
from maci2.consistency import initialize
from maci2.errors import Maci2Error
from maci2.estimator import CalibrationResult
from maci2.estimator.problem import SolverConfig
from maci2.findings import Finding
from maci2.imu import ImuMeasurements, raw_model
from maci2.imu.rotation_rates import MIN_RATE, RotationSource
from maci2.pipeline.options import DEFAULT_POSE_SHARE, DEFAULT_POSE_STD, DEFAULT_SCALE_STD
from maci2.pipeline.windows import plan_windows
from maci2.sensors import CameraTrajectory, ImuNoise, ImuSamples
from maci2.sensors.types import GroundTruth
from maci2.types import NS, Array, Stamps
from maci2.vision import RelativePoses, pose_noise, poses_from_trajectory, poses_from_truth

CALIBRATION_S = 30.0
SPACING_S = 0.3
WINDOW_S = 2.5
KEYFRAMES = 10
LONGEST_STEP_S = 0.6
"""Longest interval between keyframes [s]; a longer one spans a gap of the source."""

MARGIN_S = 0.15
"""Time beyond the keyframes in which an offset is searched [s]."""

MAX_WINDOWS = 60


@dataclass(frozen=True)
class WindowCounts:
    """Verdicts of `initialize` on consecutive windows."""

    tried: int
    ok: int
    weak: int
    reason: str
    """Most frequent reason for a verdict other than ok."""


def motion_at(source: RotationSource, stamps_ns: Stamps, offset_s: float) -> RelativePoses:
    """Relative poses between keyframes, on the IMU's clock; those from ground truth get the noise
    of a good camera."""
    moved_ns = source.stamps_ns + round(offset_s * NS)
    cov = pose_noise(*DEFAULT_POSE_STD)
    if source.kind == "truth":
        missing = np.full((len(moved_ns), 3), np.nan)
        truth = GroundTruth(moved_ns, source.Ts_w_s, missing, missing, missing, source.name)
        return poses_from_truth(truth, stamps_ns, np.eye(4), cov, (0, int(stamps_ns[0] % NS)))
    trajectory = CameraTrajectory(moved_ns, source.Ts_w_s, source.name)
    share, scale = DEFAULT_POSE_SHARE, DEFAULT_SCALE_STD
    return poses_from_trajectory(trajectory, stamps_ns, cov, "camera", share, scale)


def calibrated(
    source: RotationSource, imu: ImuSamples, noise: ImuNoise, offset_s: float
) -> CalibrationResult | None:
    """Extrinsics and remaining time offset, estimated on the half minute with the most rotation."""
    stamps_ns = _best_turned(source, imu, offset_s)
    if len(stamps_ns) < KEYFRAMES:
        return None
    margin_ns = round(MARGIN_S * NS)
    first_ns = max(int(stamps_ns[0]) - margin_ns, int(imu.stamps_ns[0]))
    last_ns = min(int(stamps_ns[-1]) + margin_ns, int(imu.stamps_ns[-1]))
    try:
        measured = raw_model(imu.between(first_ns, last_ns), noise)
        vision = motion_at(source, stamps_ns, offset_s)
        config = SolverConfig(estimate_time_offset=_turns_about_two_axes(measured.gyro))
        return calibrate(measured, vision, config)
    except Maci2Error:
        return None


def _turns_about_two_axes(gyro: Array) -> bool:
    """The device rotates about two axes; otherwise the estimator would have to try every
    mounting, and the offset from rates is used instead."""
    return float(np.sqrt(np.linalg.eigvalsh(np.cov(gyro.T))[1])) > MIN_RATE


def _best_turned(source: RotationSource, imu: ImuSamples, offset_s: float) -> Stamps:
    """Keyframes of the half minute with the most rotation about its least rotated axis."""
    candidates_ns = source.stamps_ns + round(offset_s * NS)
    inside = (candidates_ns > imu.stamps_ns[0]) & (candidates_ns < imu.stamps_ns[-1])
    candidates_ns = candidates_ns[inside]
    best, chosen = -1.0, np.empty(0, dtype=np.int64)
    for start_ns in range(int(candidates_ns[0]), int(candidates_ns[-1]), round(10.0 * NS)):
        wanted_ns = np.arange(start_ns, start_ns + round(CALIBRATION_S * NS), round(SPACING_S * NS))
        at = np.searchsorted(candidates_ns, wanted_ns)
        stamps_ns = _without_gap(np.unique(candidates_ns[at[at < len(candidates_ns)]]))
        if len(stamps_ns) < KEYFRAMES:
            continue
        rates = imu.gyro[(imu.stamps_ns >= stamps_ns[0]) & (imu.stamps_ns <= stamps_ns[-1])]
        rates = rates - rates.mean(axis=0)
        turned = float(np.linalg.eigvalsh(rates.T @ rates)[0])
        if turned > best:
            best, chosen = turned, stamps_ns
    return chosen


def _without_gap(stamps_ns: Stamps) -> Stamps:
    """Longest sequence of relative poses without a gap."""
    breaks = np.flatnonzero(np.diff(stamps_ns) > LONGEST_STEP_S * NS) + 1
    return max(np.split(stamps_ns, breaks), key=len)


def initializable(
    source: RotationSource, imu: ImuSamples, noise: ImuNoise, offset_s: float
) -> WindowCounts:
    """Verdicts on at most 60 consecutive windows of the recording."""
    windows = windows_of(source, imu, offset_s)
    measured = raw_model(imu, noise)
    verdicts = [_verdict(source, measured, stamps_ns, offset_s) for stamps_ns in windows]
    states = Counter(status for status, _ in verdicts)
    reasons = Counter(reason for _, reason in verdicts if reason)
    reason = reasons.most_common(1)[0][0] if reasons else ""
    return WindowCounts(len(windows), states["ok"], states["weak"], reason)


def windows_of(source: RotationSource, imu: ImuSamples, offset_s: float) -> list[Stamps]:
    """Keyframes of at most 60 consecutive windows without gaps, on the IMU's clock."""
    candidates_ns = source.stamps_ns + round(offset_s * NS)
    inside = (candidates_ns > imu.stamps_ns[0]) & (candidates_ns < imu.stamps_ns[-1])
    windows = [
        window.stamps_ns
        for window in plan_windows(candidates_ns[inside], WINDOW_S, WINDOW_S, KEYFRAMES)
        if np.diff(window.stamps_ns).max() < LONGEST_STEP_S * NS
    ]
    if len(windows) <= MAX_WINDOWS:
        return windows
    chosen = np.linspace(0, len(windows) - 1, MAX_WINDOWS).astype(int)
    return [windows[at] for at in chosen]


def _verdict(
    source: RotationSource, measured: ImuMeasurements, stamps_ns: Stamps, offset_s: float
) -> tuple[str, str]:
    """Status of a verdict and its main reason, without numbers."""
    try:
        vision = motion_at(source, stamps_ns, offset_s)
        imu = measured.between(int(stamps_ns[0]), int(stamps_ns[-1]))
        verdict = initialize(imu, vision, source.T_b_s).verdict
    except Maci2Error as error:
        return "failed", str(error)
    reason = verdict.reasons[0] if verdict.reasons and verdict.status != "ok" else ""
    return verdict.status, reason.split(" is known to")[0]


NEEDED_DEG = 5.0
"""Rotation in a window from which on extrinsics become observable [deg]."""

STD_ROTATION_DEG = 0.5
STD_POSITION = 0.015
"""Half of the accepted error of extrinsics: 1 deg and 3 cm."""


def turned_deg(imu: ImuSamples, bias_gyro: Array) -> Array:
    """(windows, 3) rotation of each window about each axis, peak to peak [deg]."""
    steps = (imu.gyro[:-1] - bias_gyro) * (np.diff(imu.stamps_ns) / NS)[:, None]
    angles = np.cumsum(steps, axis=0)
    length = max(round(WINDOW_S * imu.rate_hz), 1)
    count = len(angles) // length
    return np.rad2deg(np.ptp(angles[: count * length].reshape(count, length, 3), axis=1))


def rotation_finding(imu: ImuSamples, bias_gyro: Array) -> Finding:
    """Finding about rotation, from the gyroscope alone."""
    turned = turned_deg(imu, bias_gyro)
    if len(turned) == 0:
        return Finding("ok", "excitation", f"shorter than one window of {WINDOW_S} s")
    most, enough = turned.max(axis=0), (turned >= NEEDED_DEG).sum(axis=0)
    parts = [
        f"about {axis} {np.median(turned[:, i]):.0f} deg (at most {most[i]:.0f}), enough in "
        f"{enough[i]} of {len(turned)}"
        for i, axis in enumerate("xyz")
    ]
    low = [axis for axis, deg in zip("xyz", most, strict=True) if deg < NEEDED_DEG]
    text = (
        f"rotation in windows of {WINDOW_S} s: {'; '.join(parts)}; about {NEEDED_DEG:.0f} deg are "
        "needed"
    )
    remedy = (
        f"To calibrate extrinsics, rotate the device about {' and '.join(low)}: at most "
        f"{most['xyz'.index(low[0])]:.1f} deg of about {NEEDED_DEG:.0f} so far."
        if low
        else ""
    )
    return Finding("ok", "excitation", text, remedy=remedy)


def window_finding(counts: WindowCounts, source: str) -> list[Finding]:
    """Finding about the number of windows that the estimator accepts."""
    if counts.tried == 0:
        return []
    text = (
        f"initialization with camera motion from {source}: {counts.ok} of {counts.tried} windows "
        f"ok, {counts.weak} weak, {counts.tried - counts.ok - counts.weak} failed"
    )
    if counts.reason:
        text += f"; mostly {counts.reason} is not known well enough"
    remedy = (
        ""
        if counts.ok
        else "To initialize, move more: change speed and rotate about several axes within 2.5 s."
    )
    return [Finding("ok", "excitation", text, remedy=remedy)]


def extrinsics_finding(result: CalibrationResult | None, source: str) -> list[Finding]:
    """Finding about the accuracy of extrinsics from the best half minute, for each axis."""
    if result is None:
        return []
    if result.posterior is None:
        reasons = "; ".join(result.verdict.reasons[:2])
        text = f"extrinsics are not observable in this motion ({source}): {reasons}"
        remedy = "To calibrate extrinsics, rotate the device about all axes."
        return [Finding("ok", "excitation", text, remedy=remedy)]
    std = np.sqrt(np.diag(result.posterior.T_b_c))
    rotation_deg, position = np.rad2deg(std[3:6]), std[0:3]
    unseen = [
        f"{what} {axis} (known to {value:.3g} {unit}, needed {limit:g})"
        for what, values, limit, unit in (
            ("rotation about", rotation_deg, STD_ROTATION_DEG, "deg"),
            ("position along", 1e3 * position, 1e3 * STD_POSITION, "mm"),
        )
        for axis, value in zip("xyz", values, strict=True)
        if value > limit
    ]
    text = (
        f"extrinsics from the best half minute ({source}): rotation about x, y, z to "
        f"{_listed(rotation_deg)} deg, position along x, y, z to {_listed(1e3 * position)} mm"
    )
    if not unseen:
        return [Finding("ok", "excitation", text)]
    text += f"; too little: {', '.join(unseen)}"
    weak = [i for i in range(3) if position[i] > STD_POSITION or rotation_deg[i] > STD_ROTATION_DEG]
    about = sorted({"xyz"[j] for i in weak for j in range(3) if j != i})
    remedy = (
        f"To calibrate extrinsics, rotate the device more about {' and '.join(about)}, for the "
        f"{unseen[0]}."
    )
    return [Finding("ok", "excitation", text, remedy=remedy)]


def _listed(values: Array) -> str:
    return ", ".join(f"{value:.2g}" for value in values)
