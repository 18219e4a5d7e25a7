"""Diagnosis of a recording: faults, most important first, and remedies."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np

from maci2.datasets import open_recording
from maci2.datasets.open import (
    UNCALIBRATED,
    carries_no_calibration,
    images_with,
    open_images,
    open_uncalibrated,
)
from maci2.errors import CalibrationError, DatasetError, Maci2Error, NoImuError, OptionError
from maci2.findings import Finding, Level, most_important_first
from maci2.jit import seldom
from maci2.pipeline.options import parse_vision
from maci2.pipeline.vision_sources import open_vision
from maci2.rigs import NOTHING_GIVEN, Given
from maci2.sensors import CameraTrajectory, Recording, gaps
from maci2.sensors.types import ImageRecording
from maci2.tools.diagnostics.axes import axes_against_gravity
from maci2.tools.diagnostics.diagnosis import Diagnosis, Timing
from maci2.tools.diagnostics.images import examine_images
from maci2.tools.diagnostics.imu import disagreement_finding, imu_value_findings
from maci2.tools.diagnostics.rotation_sources import audit_finding, compare_rotations
from maci2.tools.diagnostics.timestamps import stamp_findings, stereo_findings, timing_of
from maci2.tools.ground_truth.comparison import TruthCheck, check_truth
from maci2.types import NS
from maci2.vision.relative_poses import CameraFrame

__all__ = ["Diagnosis", "Finding", "Timing", "examine", "examine_path"]

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


def examine_path(
    path: Path,
    rig: str | Path | None = None,
    topics: str = "",
    vision: str = "",
    frame: str = "camera",
    given: Given = NOTHING_GIVEN,
    columns: str = "",
) -> Diagnosis:
    """Open a recording and diagnose it; if it cannot be read, that is the only finding.

    Without a calibration that can be used, all is looked at that needs none; without an IMU, the
    images. `vision` and `frame` name camera motion to compare with, as `--vision` and
    `--vision-frame` do, `columns` those of a table of IMU samples.

    Raises only where there is no such file or folder, or no such camera motion.
    """
    if not path.exists():
        raise DatasetError(f"{path}: no such file or folder; check the path.")
    try:
        recording = open_recording(path, rig, topics, given, columns=columns)
    except CalibrationError as error:
        return _examine_uncalibrated(path, rig, topics, columns, error)
    except NoImuError as error:
        return _examine_images_alone(path, rig, topics, given, error)
    except DatasetError as error:
        return _unreadable(path, error)
    if not vision:
        return examine(recording)
    source = open_vision(recording, parse_vision(vision, frame, None))
    camera_path = source.camera_path()
    if camera_path is None:
        truth = source.choice.from_truth
        why = "ground truth is looked at anyway" if truth else "tracks are no path"
        raise OptionError(
            f"--vision is '{vision}'; {why}: give images, trajectory:FILE or measurements:FILE."
        )
    return examine(recording, camera_path, source.frame)


def _unreadable(path: Path, error: Maci2Error) -> Diagnosis:
    finding = Finding("error", "reading", str(error), "the recording cannot be read")
    return Diagnosis(path.resolve().name, NO_SAMPLES, (), math.nan, {}, 0, [finding])


def _examine_uncalibrated(
    path: Path, rig: str | Path | None, topics: str, columns: str, error: CalibrationError
) -> Diagnosis:
    """Run the checks that need no calibration; the missing calibration is the first finding."""
    # A bag or a table carries none, and none was given; else it is a calibration that is wrong.
    missing = rig is None and carries_no_calibration(path)
    try:
        recording = open_uncalibrated(path, topics, columns)
    except NoImuError as no_imu:
        return _examine_images_alone(path, None, topics, NOTHING_GIVEN, no_imu)
    except Maci2Error as unreadable:
        return _unreadable(path, unreadable if missing else error)
    name = "no calibration" if missing else "the calibration cannot be used"
    finding = Finding("warn" if missing else "error", "calibration", str(error), name)
    return _with([finding], examine(recording))


def _examine_images_alone(
    path: Path, rig: str | Path | None, topics: str, given: Given, error: NoImuError
) -> Diagnosis:
    """Run the checks of images on a recording without IMU, which is the first finding."""
    findings = [Finding("warn", "imu", str(error), "no IMU samples")]
    try:
        try:
            recording = open_images(path, rig, topics, given)
        except CalibrationError as uncalibrated:
            if rig is not None:
                raise
            recording = images_with(path, UNCALIBRATED, topics)
            findings.append(Finding("warn", "calibration", str(uncalibrated), "no calibration"))
    except Maci2Error as unreadable:
        return _unreadable(path, unreadable)
    return _with(findings, _examined(recording, None, "camera"))


def _with(findings: list[Finding], diagnosis: Diagnosis) -> Diagnosis:
    """Diagnosis with findings that come before all others of their level."""
    return replace(diagnosis, findings=most_important_first([*findings, *diagnosis.findings]))


def examine(
    recording: Recording, vision: CameraTrajectory | None = None, frame: CameraFrame = "camera"
) -> Diagnosis:
    """Run all checks on a recording; raises nothing. Causes are checked before effects, and what a
    cause affects is not checked further. Timestamps of `vision` are on the recording's clock."""
    windows, _ = _count_windows(recording)
    with seldom(*(["initialize"] if windows <= FEW_WINDOWS else [])):
        return _examined(recording, vision, frame)


def _examined(
    recording: ImageRecording, vision: CameraTrajectory | None, frame: CameraFrame
) -> Diagnosis:
    streams = {f"cam{i}": stamps_ns for i, stamps_ns in enumerate(recording.camera_stamps_ns)}
    if isinstance(recording, Recording):
        streams = {"imu": recording.imu.stamps_ns} | streams
    timings = {name: timing_of(stamps_ns) for name, stamps_ns in streams.items()}
    findings = stamp_findings(streams, timings)
    truths, windows, rate, usable = dict[str, TruthCheck](), 0, list[Finding](), list[Finding]()
    if isinstance(recording, Recording):
        findings, truths = _examine_motion(recording, vision, frame, findings)
        rate = _nominal_rate(recording, timings["imu"])
        windows, shared_s = _count_windows(recording)
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
) -> tuple[list[Finding], dict[str, TruthCheck]]:
    """Findings so far, with those about the IMU and about motion, and ground truths compared with
    the IMU."""
    findings = [*findings, *(Finding("warn", "bag", warning) for warning in recording.warnings)]
    findings += [Finding("ok", "bag", note) for note in recording.notes]
    noise = recording.rig.imu if recording.rig.noise_known else None
    findings += imu_value_findings(recording.imu, noise)
    if all(finding.level != "error" for finding in findings):
        rotations = compare_rotations(recording, vision, frame)
        if not rotations.axes_judged:
            findings += axes_against_gravity(recording.imu) or disagreement_finding(recording.imu)
        findings, truths = findings + rotations.findings, rotations.truths
    else:
        truths = {name: check_truth(t, recording.imu) for name, t in recording.truths.items()}
    errors = [finding for finding in findings if finding.level == "error"]
    if all(error.what in recording.truths for error in errors):
        # That a truth which is wrong cannot be audited is no second fault.
        findings += [one for one in audit_finding(recording) if one.level == "ok" or not errors]
    if not recording.camera_stamps_ns:
        text = "no camera timestamps; visual measurements must come from a file"
        findings.append(Finding("warn", "cameras", text, "no cameras"))
    return findings, truths


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
