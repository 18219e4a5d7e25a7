"""Timestamps: units, overlap, clock jumps, gaps, dropped frames, jitter."""

import math

import numpy as np

from maci2.diagnostics.diagnosis import Timing
from maci2.findings import Finding, fault
from maci2.sensors import gaps
from maci2.types import NS, Stamps

MAX_IMU_RATE_HZ = 20_000.0
"""Highest plausible IMU rate [Hz]; timestamps in microseconds make 200 Hz look like 200 kHz."""

MAX_CAMERA_RATE_HZ = 2_000.0

MIN_IMU_RATE_HZ = 50.0
"""Lowest useful IMU rate [Hz]: motion of hands and vehicles reaches 10 Hz."""

MAX_JITTER_PCT = 20.0
"""Accepted jitter: spread of the intervals (5 to 95 %) in per cent of the period. Hardware
timestamps stay below 1 %; timestamps taken on arrival at a computer come in bursts."""

MAX_DROPPED_PCT = 2.0
"""Accepted percentage of missing frames; keyframes can be chosen around fewer."""

MIN_JUMP_S = 1.0
"""Smallest jump of a clock that was set or restarted [s]."""

MIN_SHARED = 0.5
"""Fraction of the shorter stream that IMU and camera must overlap."""


def timing_of(stamps_ns: Stamps) -> Timing:
    if len(stamps_ns) < 2:
        return Timing(len(stamps_ns), 0.0, math.nan, math.nan, 0, 0.0)
    steps_s = np.diff(stamps_ns) / NS
    median_s = float(np.median(steps_s))
    return Timing(
        samples=len(stamps_ns),
        duration_s=float(stamps_ns[-1] - stamps_ns[0]) / NS,
        rate_hz=1.0 / median_s,
        jitter_pct=float(100.0 * np.subtract(*np.percentile(_beside(steps_s), [95, 5])) / median_s),
        gaps=len(gaps(stamps_ns)),
        longest_step_s=float(steps_s.max()),
        dropped=_dropped(stamps_ns),
    )


def _beside(steps_s: np.ndarray) -> np.ndarray:
    """Intervals minus whole periods, so that a missing sample does not count as jitter."""
    median_s = np.median(steps_s)
    return np.asarray(steps_s - (np.maximum(np.rint(steps_s / median_s), 1.0) - 1.0) * median_s)


def _dropped(stamps_ns: Stamps) -> int:
    """Number of missing samples; a late sample is followed by a short interval and cancels out."""
    steps = np.diff(stamps_ns)
    return max(int(np.sum(np.rint(steps / np.median(steps)) - 1.0)), 0)


def stamp_findings(
    imu_ns: Stamps | None,
    cameras_ns: tuple[Stamps, ...],
    imu: Timing,
    cameras: tuple[Timing, ...],
) -> list[Finding]:
    """Findings about the timestamps of each sensor and their overlap; `imu_ns` is None without an
    IMU."""
    streams = {f"cam{number}": stamps_ns for number, stamps_ns in enumerate(cameras_ns)}
    timings = dict(zip(streams, cameras, strict=True))
    if imu_ns is not None:
        streams, timings = {"imu": imu_ns} | streams, {"imu": imu} | timings
    unit_faults = [found for name in streams for found in _unit_fault(name, timings[name])]
    if unit_faults:
        return unit_faults
    jumps = clock_jumps(streams)
    findings = [_jump_fault(name, *jump) for name, jump in jumps.items()]
    if not jumps:
        findings += _overlap_findings(streams)
    for name in streams:
        findings += _stream_findings(name, timings[name], streams[name], name in jumps)
    return findings


def _unit_fault(name: str, timing: Timing) -> list[Finding]:
    limit_hz = MAX_IMU_RATE_HZ if name == "imu" else MAX_CAMERA_RATE_HZ
    if not timing.rate_hz > limit_hz:
        return []
    unit, factor = ("microseconds", 1000) if timing.rate_hz < 50.0 * limit_hz else (
        "milliseconds", 1_000_000
    )  # fmt: skip
    return [
        fault(
            "error",
            name,
            f"timestamps are not nanoseconds, they look like {unit}",
            f"{timing.rate_hz:.0f} samples a second",
            f"at most {limit_hz:.0f}",
            f"Multiply the timestamps by {factor}.",
        )
    ]


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
        if jump_s > MIN_JUMP_S and abs(excess_s - jump_s) < 0.5 * jump_s:
            jumps[name] = (int(stamps_ns[at]), jump_s)
    return jumps


def _jump_fault(name: str, stamp_ns: int, jump_s: float) -> Finding:
    return fault(
        "error",
        name,
        "the clock jumps",
        f"a step of {jump_s:.3f} s after timestamp {stamp_ns} ns that no other sensor shares",
        "one clock that runs on",
        f"Subtract {jump_s:.3f} s from all later timestamps of {name}, or use one side of the jump "
        "only; stamp by a monotonic clock.",
    )


def _overlap_findings(streams: dict[str, Stamps]) -> list[Finding]:
    """Finding about the overlap of IMU and left camera."""
    nothing = np.empty(0, dtype=np.int64)
    imu_ns, left_ns = streams.get("imu", nothing), streams.get("cam0", nothing)
    if len(left_ns) == 0 or len(imu_ns) == 0:
        return []
    shared_s = (min(imu_ns[-1], left_ns[-1]) - max(imu_ns[0], left_ns[0])) / NS
    shorter_s = min(imu_ns[-1] - imu_ns[0], left_ns[-1] - left_ns[0]) / NS
    apart_s = (imu_ns[0] - left_ns[0]) / NS
    if shared_s <= 0.0:
        return [
            fault(
                "error",
                "imu",
                "IMU and camera are on different clocks",
                f"no common time, the IMU begins {apart_s:+.3f} s after the camera",
                "one clock, or at least overlapping times",
                f"Add {apart_s:.3f} s to the camera's timestamps if both were started together; "
                "better record again with one clock.",
            )
        ]
    if shared_s < MIN_SHARED * shorter_s:
        return [
            fault(
                "warn",
                "imu",
                "IMU and camera overlap little",
                f"{shared_s:.1f} s in common, the IMU begins {apart_s:+.1f} s after the camera",
                f"{MIN_SHARED * shorter_s:.1f} s",
                "Check that both are stamped by one clock and were recorded together.",
            )
        ]
    return []


def _stream_findings(name: str, timing: Timing, stamps_ns: Stamps, jumped: bool) -> list[Finding]:
    """Findings about the timestamps of one sensor."""
    kind = "samples" if name == "imu" else "frames"
    text = (
        f"{timing.samples} {kind}, {timing.duration_s:.1f} s at {timing.rate_hz:.1f} Hz, jitter "
        f"{timing.jitter_pct:.1f} %, {timing.dropped} {kind} missing, {timing.gaps} gaps"
    )
    findings = _jitter(name, timing)
    findings += [] if jumped else _missing(name, timing, stamps_ns)
    if name == "imu" and timing.rate_hz < MIN_IMU_RATE_HZ:
        findings.append(
            fault(
                "warn",
                name,
                "the IMU is read too slowly",
                f"{timing.rate_hz:.1f} Hz",
                f"{MIN_IMU_RATE_HZ:.0f} Hz or more, better 200",
                "Raise the IMU's output rate.",
            )
        )
    return [*findings, Finding("ok", name, text)]


def _missing(name: str, timing: Timing, stamps_ns: Stamps) -> list[Finding]:
    """Finding about missing samples: long gaps by timestamp, single ones by their fraction."""
    if timing.gaps:
        before = gaps(stamps_ns)
        longest = before[np.argmax(np.diff(stamps_ns)[before])]
        return [
            fault(
                "warn",
                name,
                f"{timing.gaps} gaps" if timing.gaps > 1 else "a gap",
                f"{timing.longest_step_s:.3f} s after timestamp {stamps_ns[longest]} ns",
                f"steps of {1e3 / timing.rate_hz:.1f} ms",
                "Leave out the windows that touch a gap; check cable, driver and disk speed.",
            )
        ]
    share_pct = 100.0 * timing.dropped / max(timing.samples + timing.dropped, 1)
    if share_pct > MAX_DROPPED_PCT:
        kind = "samples" if name == "imu" else "frames"
        return [
            fault(
                "warn",
                name,
                f"dropped {kind}",
                f"{timing.dropped} of {timing.samples + timing.dropped} missing "
                f"({share_pct:.1f} %)",
                f"at most {MAX_DROPPED_PCT:.0f} %",
                "Check bandwidth, exposure time and disk speed, then record again.",
            )
        ]
    return []


def _jitter(name: str, timing: Timing) -> list[Finding]:
    if not timing.jitter_pct > MAX_JITTER_PCT:
        return []
    return [
        fault(
            "warn",
            name,
            "timestamps jitter",
            f"steps spread by {timing.jitter_pct:.0f} % of the period "
            f"({10.0 * timing.jitter_pct / timing.rate_hz:.1f} ms)",
            f"at most {MAX_JITTER_PCT:.0f} %",
            "Use the sensor's own timestamps, not those of arrival at the computer.",
        )
    ]
