"""Diagnosis of a recording: faults, most important first, and remedies.

Timestamps and rig are checked here: units, clocks, gaps, jitter, stereo pairs, baseline.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from maci2.datasets.open import (
    UNCALIBRATED,
    carries_no_calibration,
    images_with,
    open_images,
    open_uncalibrated,
)
from maci2.errors import CalibrationError, DatasetError, Maci2Error, NoImuError, OptionError
from maci2.findings import Finding, Level, fault, most_important_first
from maci2.geometry import se3_inv
from maci2.jit import seldom
from maci2.pipeline.options import CheckOptions, Opening, parse_vision
from maci2.pipeline.vision_sources import open_vision
from maci2.sensors import CameraTrajectory, Recording, gaps
from maci2.sensors.interpolation import nearest_index
from maci2.sensors.types import ImageRecording
from maci2.sensors.validation import RIG_RANGES, rig_faults
from maci2.tools.diagnostics import checks, readings
from maci2.tools.diagnostics.diagnosis import Diagnosis, Timing
from maci2.tools.diagnostics.images import examine_images
from maci2.tools.diagnostics.rotation_sources import audit_finding, compare_rotations
from maci2.tools.ground_truth.comparison import TruthCheck, check_truth
from maci2.types import NS, Stamps
from maci2.vision.relative_poses import CameraFrame

__all__ = ["Diagnosis", "Finding", "Timing", "examine", "examine_path"]

NOTHING_CHOSEN = CheckOptions()
"""The recording as it is, and nothing to compare it with."""

WINDOW_S = 2.5
"""Length of the windows that are counted [s]."""

SHORTEST_WINDOW_S = 0.5
"""Length below which no window can be initialized [s]."""

NO_SAMPLES = Timing(0, 0.0, math.nan, math.nan, 0, 0.0)
"""Timing of a sensor that the recording lacks."""

FEW_WINDOWS = 20
"""Number of windows up to which interpreting the estimator takes less time than compiling it."""

MIN_FRAMES = 10
"""Number of frames that a window needs, one per keyframe."""


def examine_path(path: Path, options: CheckOptions = NOTHING_CHOSEN) -> Diagnosis:
    """Open a recording and diagnose it; if it cannot be read, that is the only finding.

    Without a calibration that can be used, all is looked at that needs none; without an IMU, the
    images.

    Raises only where there is no such file or folder, or no such camera motion.
    """
    _ = options.given  # what a user states wrongly is an error, no finding
    if not path.exists():
        raise DatasetError(f"{path}: no such file or folder; check the path.")
    try:
        recording = options.open(path)
    except (CalibrationError, DatasetError) as error:
        try:
            part, findings = _open_in_part(path, options, error)
        except Maci2Error as unreadable:
            name, text = path.resolve().name, str(unreadable)
            finding = Finding("error", "reading", text, "the recording cannot be read")
            return Diagnosis(name, NO_SAMPLES, (), math.nan, {}, 0, [finding])
        rest = examine(part)
        return replace(rest, findings=most_important_first([*findings, *rest.findings]))
    if not options.vision:
        return examine(recording)
    source = open_vision(recording, parse_vision(options.vision, options.vision_frame, None))
    camera_path = source.camera_path()
    if camera_path is None:
        truth = source.choice.from_truth
        why = "ground truth is looked at anyway" if truth else "tracks are no path"
        raise OptionError(
            f"--vision is '{options.vision}'; {why}: give images, trajectory:FILE or "
            "measurements:FILE."
        )
    return examine(recording, camera_path, source.choice.frame)


def _open_in_part(
    path: Path, options: Opening, error: CalibrationError | DatasetError
) -> tuple[ImageRecording, list[Finding]]:
    """What can be read without calibration, or without IMU, with findings about what is missing;
    raises if there is nothing."""
    if isinstance(error, CalibrationError):
        # A bag or a table carries none, and none was given; else it is a calibration that is wrong.
        missing = options.rig is None and carries_no_calibration(path)
        name = "no calibration" if missing else "the calibration cannot be used"
        level: Level = "warn" if missing else "error"
        try:
            recording = open_uncalibrated(path, options.topics, options.columns)
            return recording, [Finding(level, "calibration", str(error), name)]
        except NoImuError as no_imu:
            options, error = Opening(topics=options.topics), no_imu
        except Maci2Error:
            if missing:
                raise
            raise error from None
    if not isinstance(error, NoImuError):
        raise error
    findings = [Finding("warn", "imu", str(error), "no IMU samples")]
    try:
        return open_images(path, options.rig, options.topics, options.given), findings
    except CalibrationError as uncalibrated:
        if options.rig is not None:
            raise
        findings.append(Finding("warn", "calibration", str(uncalibrated), "no calibration"))
        return images_with(path, UNCALIBRATED, options.topics), findings


def examine(
    recording: ImageRecording, vision: CameraTrajectory | None = None, frame: CameraFrame = "camera"
) -> Diagnosis:
    """Run all checks on a recording, or those of images on one without IMU; raises nothing. Causes
    are checked before effects, and what a cause affects is not checked further. Timestamps of
    `vision` are on the recording's clock."""
    streams = {f"cam{i}": stamps_ns for i, stamps_ns in enumerate(recording.camera_stamps_ns)}
    if isinstance(recording, Recording):
        streams = {"imu": recording.imu.stamps_ns} | streams
    timings = {name: timing_of(stamps_ns) for name, stamps_ns in streams.items()}
    findings = stamp_findings(streams, timings)
    truths, windows, rate, usable = dict[str, TruthCheck](), 0, list[Finding](), list[Finding]()
    if isinstance(recording, Recording):
        windows, shared_s = _count_windows(recording)
        with seldom(*(["initialize"] if windows <= FEW_WINDOWS else [])):
            truths = _examine_motion(recording, vision, frame, findings)
        rate = _nominal_rate(recording, timings["imu"])
        usable = [_window_finding(windows, shared_s)]
    matched_pct, stereo = stereo_findings(recording)
    images, seen = examine_images(recording)
    findings += stereo + rate + seen + usable + need_findings(recording)
    return Diagnosis(
        recording.name,
        timings.pop("imu", NO_SAMPLES),
        tuple(timings.values()),
        matched_pct,
        truths,
        windows,
        most_important_first(findings),
        images,
    )


def _examine_motion(
    recording: Recording,
    vision: CameraTrajectory | None,
    frame: CameraFrame,
    findings: list[Finding],
) -> dict[str, TruthCheck]:
    """Append findings about the IMU and about motion; returns ground truths compared with the
    IMU."""
    findings += [Finding("warn", "bag", warning) for warning in recording.warnings]
    findings += [Finding("ok", "bag", note) for note in recording.notes]
    noise = recording.rig.imu if recording.rig.noise_known else None
    findings += readings.imu_value_findings(recording.imu, noise)
    if all(finding.level != "error" for finding in findings):
        of_motion, truths, axes_judged = compare_rotations(recording, vision, frame)
        if not axes_judged:
            findings += readings.axes_against_gravity(recording.imu)
        findings += of_motion
    else:
        truths = {name: check_truth(t, recording.imu) for name, t in recording.truths.items()}
    errors = [finding for finding in findings if finding.level == "error"]
    if all(error.what in recording.truths for error in errors):
        # That a truth which is wrong cannot be audited is no second fault.
        findings += [one for one in audit_finding(recording) if one.level == "ok" or not errors]
    if not recording.camera_stamps_ns:
        text = "no camera timestamps; visual measurements must come from a file"
        findings.append(Finding("warn", "cameras", text, "no cameras"))
    return truths


def _nominal_rate(recording: Recording, timing: Timing) -> list[Finding]:
    rig = recording.rig
    if not rig.noise_known:
        if not rig.cameras:
            # That there is no calibration at all is said already.
            return []
        remedy = "Give --imu-noise, or --imu-rate where the file has the noise of single samples."
        text = (
            f"{rig.source} does not state the IMU noise; these checks assume a consumer MEMS, and "
            f"estimation needs the real values. {remedy}"
        )
        return [Finding("warn", "calibration", text, "the IMU's noise is not known", remedy=remedy)]
    if abs(timing.rate_hz / rig.imu.rate_hz - 1.0) <= 0.05:
        return []
    text = (
        f"the IMU's rate is not the stated one: {rig.source} says {rig.imu.rate_hz:.1f} Hz, the "
        f"timestamps {timing.rate_hz:.1f} Hz; needed within 5 %. Check the calibration file."
    )
    return [Finding("warn", "calibration", text, "the IMU's rate is not the stated one")]


def _window_finding(windows: int, shared_s: float) -> Finding:
    text = f"{windows} usable windows of {WINDOW_S} s"
    if windows:
        return Finding("ok", "windows", text)
    text += (
        f"; IMU and left camera share {shared_s:.2f} s, needed {WINDOW_S} s where the IMU has no "
        f"gap and the camera {MIN_FRAMES} frames. Record longer, or choose a shorter window."
    )
    level: Level = "warn" if SHORTEST_WINDOW_S <= shared_s < WINDOW_S else "error"
    return Finding(level, "windows", text, "no usable window")


def _count_windows(recording: Recording) -> tuple[int, float]:
    """Consecutive windows over the overlap of IMU and left camera, and its length [s]; without
    cameras over the IMU's samples."""
    imu_ns = recording.imu.stamps_ns
    left_ns = recording.camera_stamps_ns[0] if recording.camera_stamps_ns else imu_ns
    if len(left_ns) == 0:
        return 0, 0.0
    start_ns = max(int(imu_ns[0]), int(left_ns[0]))
    shared_ns = max(min(int(imu_ns[-1]), int(left_ns[-1])) - start_ns, 0)
    window_ns = int(WINDOW_S * NS)
    count = min(shared_ns // window_ns, len(left_ns))
    starts_ns = start_ns + window_ns * np.arange(count, dtype=np.int64)
    ends_ns = starts_ns + window_ns
    frames = np.searchsorted(left_ns, ends_ns, "right") - np.searchsorted(left_ns, starts_ns)
    before = gaps(imu_ns)
    touches = (imu_ns[before + 1] > starts_ns[:, None]) & (imu_ns[before] < ends_ns[:, None])
    return int(np.sum((frames >= MIN_FRAMES) & ~touches.any(axis=1))), shared_ns / NS


def need_findings(recording: ImageRecording) -> list[Finding]:
    """Finding that lists what each command would need; empty if nothing is missing."""
    rig = recording.rig
    pair = len(recording.camera_stamps_ns) > 1 and len(rig.cameras) > 1
    imu = [] if isinstance(recording, Recording) else ["IMU samples"]
    noise = [] if rig.noise_known else ["the IMU's noise (--imu-noise)"]
    place = [] if rig.extrinsics_known else ["the camera-IMU extrinsics (calibrate, or --T-b-c)"]
    stereo = [] if pair else ["a calibrated stereo pair (--rig)"]
    cameras = [f"{one}, or camera motion from a file (--vision)" for one in stereo]
    lacks = {
        "vo": stereo,
        "calibrate": imu + noise + cameras,
        "init": imu + noise + cameras + place,
    }
    missing = {command: needs for command, needs in lacks.items() if needs}
    if not missing:
        return []
    said = "; ".join(f"`{command}` would need {', '.join(n)}" for command, n in missing.items())
    ready = [f"`{command}`" for command in lacks if command not in missing]
    text = said + (f"; {', '.join(ready)} can run" if ready else "")
    return [Finding("ok", "needs", text)]


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
