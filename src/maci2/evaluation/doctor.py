"""Is a recording fit for use? Rates, gaps, stamps, calibration, units, and whether its ground truth
is true."""

import math

import numpy as np

from maci2.evaluation.health import Finding, Health, Level, Timing
from maci2.evaluation.truth_check import check_truth
from maci2.evaluation.truth_findings import truth_findings
from maci2.sensors import NS, ImuSamples, Recording, Stamps, gaps
from maci2.sensors.plausibility import graded_imu_faults

__all__ = ["Finding", "Health", "Timing", "examine"]

WINDOW_S = 2.5
"""Length of the windows counted."""

SHORTEST_WINDOW_S = 0.5
"""Below this even a window chosen by hand tells nothing."""

MIN_FRAMES = 10
"""Frames that a window needs: one for each keyframe."""

STEREO_TOLERANCE_S = 0.001
"""Left and right stamps closer than this are one stereo pair."""


def examine(recording: Recording) -> Health:
    """Look at everything a recording holds; raises nothing."""
    imu = _timing(recording.imu.stamps_ns)
    cameras = tuple(_timing(stamps_ns) for stamps_ns in recording.camera_stamps_ns)
    matched_pct = _stereo_matched_pct(recording.camera_stamps_ns)
    truths = {name: check_truth(truth, recording.imu) for name, truth in recording.truths.items()}
    windows = _count_windows(recording)
    findings = [
        *[Finding("ok", "bag", note) for note in recording.notes],
        *[Finding("warn", "bag", warning) for warning in recording.warnings],
        *_imu_findings(recording.imu, imu),
        *_camera_findings(recording, cameras, matched_pct),
        *_calibration_findings(recording, imu),
        *_window_findings(windows, recording),
        *truth_findings(truths),
    ]
    return Health(recording.name, imu, cameras, matched_pct, truths, windows, findings)


def _timing(stamps_ns: Stamps) -> Timing:
    if len(stamps_ns) < 2:
        return Timing(len(stamps_ns), 0.0, math.nan, math.nan, 0, 0.0)
    steps_s = np.diff(stamps_ns) / NS
    median_s = float(np.median(steps_s))
    return Timing(
        samples=len(stamps_ns),
        duration_s=float(stamps_ns[-1] - stamps_ns[0]) / NS,
        rate_hz=1.0 / median_s,
        jitter_pct=float(100.0 * np.subtract(*np.percentile(steps_s, [95, 5])) / median_s),
        gaps=len(gaps(stamps_ns)),
        longest_step_s=float(steps_s.max()),
    )


def _imu_findings(samples: ImuSamples, timing: Timing) -> list[Finding]:
    text = (
        f"{timing.samples} samples, {timing.duration_s:.1f} s at {timing.rate_hz:.1f} Hz, "
        f"jitter {timing.jitter_pct:.1f} %, {timing.gaps} gaps"
    )
    findings = [Finding("ok", "imu", text)]
    for fault in graded_imu_faults(samples):
        findings.append(Finding("error" if fault.serious else "warn", "imu", fault.text))
    return findings


def _camera_findings(
    recording: Recording, timings: tuple[Timing, ...], matched_pct: float
) -> list[Finding]:
    if not timings:
        text = "no camera stamps; visual measurements must come from a file"
        return [Finding("warn", "cameras", text)]
    findings = []
    for number, timing in enumerate(timings):
        text = f"{timing.samples} frames, {timing.duration_s:.1f} s at {timing.rate_hz:.1f} Hz"
        if timing.gaps:
            text += f", {timing.gaps} gaps, longest step {timing.longest_step_s:.2f} s"
        findings.append(Finding("warn" if timing.gaps else "ok", f"cam{number}", text))
    if len(timings) > 1:
        text = (
            f"{matched_pct:.1f} % of the left frames have a right frame within "
            f"{1e3 * STEREO_TOLERANCE_S:.0f} ms"
        )
        low = matched_pct < 90.0
        remedy = "; needed 90 %: check that both cameras are triggered together" if low else ""
        findings.append(Finding("warn" if low else "ok", "stereo", text + remedy))
    if len(timings) != len(recording.rig.cameras):
        text = (
            f"{len(timings)} cameras have stamps but {len(recording.rig.cameras)} are calibrated; "
            "both numbers must agree. Add the missing calibration or remove the camera."
        )
        findings.append(Finding("error", "calibration", text))
    return findings


def _calibration_findings(recording: Recording, timing: Timing) -> list[Finding]:
    rig = recording.rig
    findings = []
    for number, camera in enumerate(rig.cameras):
        x, y, z = camera.T_b_c[:3, 3]
        text = (
            f"cam{number}: {camera.distortion_model}, {camera.resolution[0]}x"
            f"{camera.resolution[1]}, at ({x:.3f}, {y:.3f}, {z:.3f}) m from the IMU"
        )
        findings.append(Finding("ok", "calibration", text))
    if len(rig.cameras) > 1:
        p_c0, p_c1 = (camera.T_b_c[:3, 3] for camera in rig.cameras[:2])
        baseline = float(np.linalg.norm(p_c1 - p_c0))
        odd = not 0.005 < baseline < 2.0
        remedy = "; needed 0.005 to 2 m: check the unit of the extrinsics" if odd else ""
        findings.append(
            Finding("warn" if odd else "ok", "calibration", f"baseline {baseline:.4f} m{remedy}")
        )
    off = abs(timing.rate_hz / rig.imu.rate_hz - 1.0)
    if off > 0.05:
        text = (
            f"{rig.source}: the IMU's nominal rate is {rig.imu.rate_hz:.1f} Hz, its stamps say "
            f"{timing.rate_hz:.1f} Hz; needed within 5 %. Check the calibration file."
        )
        findings.append(Finding("warn", "calibration", text))
    return findings


def _window_findings(windows: int, recording: Recording) -> list[Finding]:
    text = f"{windows} usable windows of {WINDOW_S} s"
    if windows:
        return [Finding("ok", "windows", text)]
    start_ns, end_ns = _shared_ns(recording)
    shared_s = max(end_ns - start_ns, 0) / NS
    text += (
        f"; IMU and left camera share {shared_s:.2f} s, needed {WINDOW_S} s where the IMU has no "
        f"gap and the camera {MIN_FRAMES} frames. Record longer, or choose a shorter window."
    )
    level: Level = "warn" if SHORTEST_WINDOW_S <= shared_s < WINDOW_S else "error"
    return [Finding(level, "windows", text)]


def _stereo_matched_pct(stamps_ns: tuple[Stamps, ...]) -> float:
    """Share of left stamps with a right stamp beside them."""
    if len(stamps_ns) < 2 or min(len(stamps_ns[0]), len(stamps_ns[1])) == 0:
        return math.nan
    left, right = stamps_ns[0], stamps_ns[1]
    after = np.clip(np.searchsorted(right, left), 0, len(right) - 1)
    before = np.maximum(after - 1, 0)
    nearest_ns = np.minimum(np.abs(right[after] - left), np.abs(right[before] - left))
    return float(100.0 * np.mean(nearest_ns <= STEREO_TOLERANCE_S * NS))


def _shared_ns(recording: Recording) -> tuple[int, int]:
    """First and last stamp of the time that IMU and left camera share."""
    imu_ns, left_ns = recording.imu.stamps_ns, _left_ns(recording)
    if len(left_ns) == 0:
        return 0, 0
    return max(int(imu_ns[0]), int(left_ns[0])), min(int(imu_ns[-1]), int(left_ns[-1]))


def _left_ns(recording: Recording) -> Stamps:
    """Stamps of the left camera; without cameras, poses could be asked for at any IMU stamp."""
    stamps_ns = recording.camera_stamps_ns
    return stamps_ns[0] if stamps_ns else recording.imu.stamps_ns


def _count_windows(recording: Recording) -> int:
    """Windows end to end over the time that IMU and left camera share."""
    imu_ns, left_ns = recording.imu.stamps_ns, _left_ns(recording)
    start_ns, end_ns = _shared_ns(recording)
    window_ns = int(WINDOW_S * NS)
    starts_ns = np.arange(start_ns, end_ns - window_ns + 1, window_ns, dtype=np.int64)
    ends_ns = starts_ns + window_ns
    frames = np.searchsorted(left_ns, ends_ns, "right") - np.searchsorted(left_ns, starts_ns)
    before = gaps(imu_ns)
    touches = (imu_ns[before + 1] > starts_ns[:, None]) & (imu_ns[before] < ends_ns[:, None])
    return int(np.sum((frames >= MIN_FRAMES) & ~touches.any(axis=1)))
