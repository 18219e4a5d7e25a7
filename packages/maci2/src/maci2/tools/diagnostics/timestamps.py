"""Checks of timestamps and of the rig: units, clocks, gaps, jitter, stereo pairs, baseline."""

import math
from collections.abc import Iterator

import numpy as np

from maci2.findings import Finding, fault
from maci2.geometry import se3_inv
from maci2.sensors import gaps
from maci2.sensors.interpolation import nearest_index
from maci2.sensors.types import ImageRecording
from maci2.sensors.validation import RIG_RANGES, rig_faults
from maci2.tools.diagnostics import checks
from maci2.tools.diagnostics.diagnosis import Timing
from maci2.types import NS, Stamps

MAX_IMU_RATE_HZ = 20_000.0
"""Highest plausible IMU rate [Hz]; timestamps in microseconds make 200 Hz look like 200 kHz."""

MAX_CAMERA_RATE_HZ = 2_000.0

TOLERANCE_MS = checks.STEREO_LATE.limit
"""Largest difference of timestamps within a stereo pair [ms]."""

MIN_COMMON = 0.8
"""Fraction of the frames that must show the same offset for it to be constant."""


def timing_of(stamps_ns: Stamps) -> Timing:
    """Rate, jitter, gaps and missing samples of one sensor's timestamps."""
    if len(stamps_ns) < 2:
        return Timing(len(stamps_ns), 0.0, math.nan, math.nan, 0, 0.0)
    steps_s = np.diff(stamps_ns) / NS
    periods = np.rint(steps_s / np.median(steps_s))
    median_s = float(np.median(steps_s))
    # Without whole periods, so that a missing sample does not count as jitter.
    beside_s = steps_s - (np.maximum(periods, 1.0) - 1.0) * median_s
    return Timing(
        samples=len(stamps_ns),
        duration_s=float(stamps_ns[-1] - stamps_ns[0]) / NS,
        rate_hz=1.0 / median_s,
        jitter_pct=float(100.0 * np.subtract(*np.percentile(beside_s, [95, 5])) / median_s),
        gaps=len(gaps(stamps_ns)),
        longest_step_s=float(steps_s.max()),
        # A late sample is followed by a short interval and cancels out.
        dropped=max(int(np.sum(periods - 1.0)), 0),
    )


def stamp_findings(streams: dict[str, Stamps], timings: dict[str, Timing]) -> list[Finding]:
    """Findings about the timestamps of each sensor and the overlap of IMU and left camera."""
    unit_faults = []
    for name, timing in timings.items():
        highest_hz = MAX_IMU_RATE_HZ if name == "imu" else MAX_CAMERA_RATE_HZ
        if timing.rate_hz > highest_hz:
            micro = timing.rate_hz < 50.0 * highest_hz
            unit, factor = ("microseconds", 1000) if micro else ("milliseconds", 1_000_000)
            rates = {"rate_hz": timing.rate_hz, "highest_hz": highest_hz}
            found = checks.WRONG_UNIT.finding(name, unit=unit, factor=factor, **rates)
            unit_faults.append(found)
    if unit_faults:
        return unit_faults
    jumps = clock_jumps(streams)
    findings = [
        checks.CLOCK_JUMP.finding(name, name=name, stamp_ns=stamp_ns, jump_s=jump_s)
        for name, (stamp_ns, jump_s) in jumps.items()
    ]
    if streams.keys() >= {"imu", "cam0"} and not jumps:
        findings += _overlap(streams["imu"], streams["cam0"])
    for name in streams:
        findings += _stream(name, timings[name], streams[name], name in jumps)
    return findings


def clock_jumps(streams: dict[str, Stamps]) -> dict[str, tuple[int, float]]:
    """Streams with a clock jump: timestamp before it and its length [s].

    In a gap samples are missing, but afterwards the sensor is in step with the others again; after
    a jump it is not: its recording seems longer than the others' by the jump.
    """
    jumps = {}
    durations = {name: float(s[-1] - s[0]) / NS for name, s in streams.items() if len(s) > 1}
    for name, stamps_ns in streams.items():
        others = [length for other, length in durations.items() if other != name]
        if name not in durations or not others:
            continue
        steps_s = np.diff(stamps_ns) / NS
        at = int(np.argmax(steps_s))
        jump_s = float(steps_s[at] - np.median(steps_s))
        excess_s = durations[name] - min(others)
        if jump_s > checks.CLOCK_JUMP.limit and abs(excess_s - jump_s) < 0.5 * jump_s:
            jumps[name] = (int(stamps_ns[at]), jump_s)
    return jumps


def _overlap(imu_ns: Stamps, left_ns: Stamps) -> Iterator[Finding]:
    """Finding about the overlap of IMU and left camera."""
    if len(left_ns) == 0 or len(imu_ns) == 0:
        return
    shared_s = (min(imu_ns[-1], left_ns[-1]) - max(imu_ns[0], left_ns[0])) / NS
    shorter_s = min(imu_ns[-1] - imu_ns[0], left_ns[-1] - left_ns[0]) / NS
    apart_s = (imu_ns[0] - left_ns[0]) / NS
    needed_s = checks.LITTLE_OVERLAP.limit * shorter_s
    if shared_s < needed_s or shared_s <= 0.0:
        check = checks.LITTLE_OVERLAP if shared_s > 0.0 else checks.OTHER_CLOCK
        yield check.finding("imu", shared_s=shared_s, apart_s=apart_s, needed_s=needed_s)


def _stream(name: str, timing: Timing, stamps_ns: Stamps, jumped: bool) -> Iterator[Finding]:
    """Findings about the timestamps of one sensor: jitter, what is missing, rate, summary."""
    kind = "samples" if name == "imu" else "frames"
    if timing.jitter_pct > checks.JITTER.limit:
        jitter_ms = 10.0 * timing.jitter_pct / timing.rate_hz
        yield checks.JITTER.finding(name, timing=timing, jitter_ms=jitter_ms)
    expected = timing.samples + timing.dropped
    share_pct = 100.0 * timing.dropped / max(expected, 1)
    if timing.gaps and not jumped:
        before = gaps(stamps_ns)
        stamp_ns = stamps_ns[before[np.argmax(np.diff(stamps_ns)[before])]]
        count = f"{timing.gaps} gaps" if timing.gaps > 1 else "a gap"
        measured = {"stamp_ns": stamp_ns, "period_ms": 1e3 / timing.rate_hz}
        yield checks.GAPS.finding(name, gaps=count, timing=timing, **measured)
    elif share_pct > checks.DROPPED.limit and not jumped:
        measured = {"expected": expected, "share_pct": share_pct}
        yield checks.DROPPED.finding(name, kind=kind, timing=timing, **measured)
    if name == "imu" and timing.rate_hz < checks.SLOW_IMU.limit:
        yield checks.SLOW_IMU.finding(name, timing=timing)
    text = (
        f"{timing.samples} {kind}, {timing.duration_s:.1f} s at {timing.rate_hz:.1f} Hz, jitter "
        f"{timing.jitter_pct:.1f} %, {timing.dropped} {kind} missing, {timing.gaps} gaps"
    )
    yield Finding("ok", name, text)


def stereo_findings(recording: ImageRecording) -> tuple[float, list[Finding]]:
    """Percentage of left timestamps with a right one, and findings about stereo pairs and the rig;
    NaN without two cameras."""
    stamps_ns, rig = recording.camera_stamps_ns, list(_rig(recording))
    if len(stamps_ns) < 2 or min(len(stamps_ns[0]), len(stamps_ns[1])) == 0:
        return math.nan, rig
    left_ns, right_ns = stamps_ns[:2]
    apart_ms = 1e3 * ((right_ns[nearest_index(right_ns, left_ns)] - left_ns) / NS)
    matched_pct = float(100.0 * np.mean(np.abs(apart_ms) <= TOLERANCE_MS))
    typical_ms = float(np.median(apart_ms))
    common = float(np.mean(np.abs(apart_ms - typical_ms) <= TOLERANCE_MS))
    paired = (
        f"{matched_pct:.1f} % of the left frames have a right frame within {TOLERANCE_MS:.0f} ms"
    )
    if abs(typical_ms) > TOLERANCE_MS and common > MIN_COMMON:
        later = "later" if typical_ms > 0.0 else "earlier"
        measured = {"typical_ms": typical_ms, "common_pct": 100.0 * common}
        finding = checks.STEREO_LATE.finding("stereo", later=later, **measured)
    elif matched_pct < checks.UNPAIRED.limit:
        finding = checks.UNPAIRED.finding("stereo", found=paired)
    else:
        finding = Finding("ok", "stereo", paired)
    return matched_pct, [finding, *rig]


def _rig(recording: ImageRecording) -> Iterator[Finding]:
    """Findings about the number of cameras, their baseline and which one is the left."""
    rig, stamped = recording.rig, len(recording.camera_stamps_ns)
    if rig.cameras and stamped > len(rig.cameras):
        text = (
            f"{stamped} cameras have timestamps but {len(rig.cameras)} are calibrated; each needs "
            "a calibration. Add the missing calibration or remove the camera."
        )
        yield Finding("error", "calibration", text, "cameras without calibration")
    for number, camera in enumerate(rig.cameras):
        x, y, z = camera.T_b_c[:3, 3]
        text = (
            f"cam{number}: {camera.distortion_model}, {camera.resolution[0]}x"
            f"{camera.resolution[1]}, at ({x:.3f}, {y:.3f}, {z:.3f}) m from "
            f"{'the IMU' if rig.extrinsics_known else 'cam0'}"
        )
        yield Finding("ok", "calibration", text)
    if not rig.extrinsics_known:
        remedy = "Run `maci2 calibrate` to estimate them."
        text = f"the camera-IMU extrinsics are unknown. {remedy}"
        yield Finding("ok", "calibration", text, remedy=remedy)
    if rig.time_offset_s != 0.0:
        text = f"camera timestamps are shifted by the stated {1e3 * rig.time_offset_s:+.3f} ms"
        yield Finding("ok", "calibration", text)
    for one in rig_faults(rig):
        # The baseline, and how fast the IMU is read, have checks of their own.
        if one.name not in (RIG_RANGES["baseline"].name, RIG_RANGES["imu_rate"].name):
            name = f"{one.name} is unusual"
            yield fault("warn", "calibration", name, one.found, one.needed, one.remedy)
    if len(rig.cameras) > 1:
        p_c0_c1 = (se3_inv(rig.cameras[0].T_b_c) @ rig.cameras[1].T_b_c)[:3, 3]
        length, (low, high) = float(np.linalg.norm(p_c0_c1)), RIG_RANGES["baseline"].usual
        if not low < length < high:
            baseline = {"length": length, "low": low, "high": high}
            yield checks.IMPOSSIBLE_BASELINE.finding("calibration", **baseline)
        elif p_c0_c1[0] < -0.5 * length:
            yield checks.SWAPPED_CAMERAS.finding("calibration", aside=-p_c0_c1[0])
        else:
            yield Finding("ok", "calibration", f"baseline {length:.4f} m")
