"""Trial runs of the estimators on camera motion from any source of rotation."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from maci2.calibration import calibrate
from maci2.errors import Maci2Error
from maci2.estimation import CalibrationResult, initialize
from maci2.estimator.config import SolverConfig
from maci2.imu import ImuMeasurements, raw_model
from maci2.imu.rotation_rates import MIN_RATE, RotationSource
from maci2.pipeline.options import DEFAULT_POSE_SHARE, DEFAULT_POSE_STD, DEFAULT_SCALE_STD
from maci2.pipeline.windows import plan_windows
from maci2.sensors import CameraTrajectory, ImuNoise, ImuSamples
from maci2.sensors.types import GroundTruth
from maci2.types import NS, Array, Stamps
from maci2.vision import (
    RelativePoses,
    pose_noise,
    poses_from_trajectory,
    poses_from_truth,
)

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
    """Whether the device rotates about two axes; otherwise the estimator would have to try every
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
