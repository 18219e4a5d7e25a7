"""What `maci2 noise` does: recordings in motion to the noise of their IMU."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from maci2.calibration.calibrate import solve_from_nothing
from maci2.calibration.calibration_problem import MountingPrior, calibration_problem
from maci2.calibration.imu_noise import (
    NoiseEstimate,
    NoiseLevel,
    NoiseProblem,
    estimate_imu_noise,
)
from maci2.datasets import open_recording
from maci2.errors import CalibrationError, DatasetError, OptionError, require_in_range
from maci2.estimation import SolverConfig
from maci2.estimation.result_output import Json, Record
from maci2.ground_truth.audit_problem import audit_problem
from maci2.ground_truth.capture import Capture, open_capture
from maci2.ground_truth.registration import register
from maci2.imu import datasheet_model
from maci2.imu.allan import AllanDeviation, high_frequency_density, stationary_allan
from maci2.imu.measured_noise import KEYS
from maci2.pipeline.offline import calibration_keyframes
from maci2.pipeline.options import RANGES, RunOptions
from maci2.pipeline.prepare import open_inputs
from maci2.pipeline.windows import long_window
from maci2.rigs import NOTHING_GIVEN, Given, require_noise
from maci2.rigs.convert import TOOLS, write_rig
from maci2.sensors import ImuNoise, Recording, Rig
from maci2.types import NS, Array, Mask

LONGEST_S = 60.0
"""Length of each recording that is used, where no other is asked for."""

CAPTURE_HZ = 20.0
"""Rows of a faster capture are thinned to this rate."""

STD_MOUNTING = (0.02, 0.02)
"""Doubt about the rig's extrinsics [m, rad], estimated with the noise."""


@dataclass(frozen=True)
class MeasuredImu:
    """Noise of an IMU from several recordings, beside other ways to tell it."""

    estimate: NoiseEstimate
    stated: ImuNoise
    """Data sheet, as the first recording's calibration has it."""

    rig: Rig
    """Calibration of the first recording."""

    recordings: tuple[str, ...]
    seconds: float
    """Length of motion used [s]."""

    source: str
    """What the IMU was compared with."""

    allan: AllanDeviation | None
    """Allan deviation over the longest stationary stretch of any recording."""

    high_frequency: Array
    """(6,) noise near half the sampling rate, per sqrt(Hz)."""


def measure_noise(
    paths: Sequence[Path],
    options: RunOptions | None,
    source: str = "",
    length_s: float = LONGEST_S,
    rig: Path | None = None,
    topics: str = "",
    given: Given = NOTHING_GIVEN,
) -> MeasuredImu:
    """Noise of the IMU that all recordings share.

    With `options` the IMU is compared with camera motion, else with the capture or ground truth
    that `source` names (the first one found where it is empty).
    """
    if not paths:
        raise OptionError("no recording is named; give one or more.")
    recordings = [open_recording(path, rig, topics, given) for path in paths]
    for recording in recordings:
        require_noise(recording.rig, "measuring noise: a data sheet to begin from")
    require_in_range("--window", length_s, *RANGES["window_s"])
    problems = [
        _against_capture(recording, source, length_s)
        if options is None
        else _against_vision(path, options)
        for path, recording in zip(paths, recordings, strict=True)
    ]
    allans = [stationary_allan(recording.imu) for recording in recordings]
    stretches = [allan for allan in allans if allan is not None]
    seconds = sum(float(p.problem.stamps_ns[-1] - p.problem.stamps_ns[0]) / NS for p in problems)
    stated = recordings[0].rig.imu
    return MeasuredImu(
        estimate_imu_noise(problems, stated),
        replace(stated, rate_hz=recordings[0].imu.rate_hz),
        recordings[0].rig,
        tuple(recording.name for recording in recordings),
        seconds,
        (source or "ground truth") if options is None else str(options.vision),
        max(stretches, key=lambda allan: allan.seconds, default=None),
        np.mean([high_frequency_density(recording.imu) for recording in recordings], axis=0),
    )


def _against_capture(recording: Recording, source: str, length_s: float) -> NoiseProblem:
    capture = open_capture(recording, source)
    slots = (capture.stamps_ns - capture.stamps_ns[0]) * CAPTURE_HZ // NS
    rows = np.r_[True, np.diff(slots.astype(np.int64)) > 0]
    capture = _rows(capture, rows)
    found = register(capture, recording.imu)
    imu = datasheet_model(recording.imu, recording.rig.imu)
    middle_ns = int(capture.stamps_ns[len(capture) // 2])
    near = np.abs(capture.stamps_ns - middle_ns) <= 0.5 * length_s * NS
    start = audit_problem(_rows(capture, near), found, imu, recording.imu, recording.rig)
    first_ns, last_ns = int(start.problem.stamps_ns[0]), int(start.problem.stamps_ns[-1])
    problem = replace(start.problem, imu=imu.between(first_ns - NS // 2, last_ns + NS // 2))
    return NoiseProblem(problem, start.states, start.border, start.least_factor)


def _rows(capture: Capture, rows: Mask) -> Capture:
    Rs_w_m = None if capture.Rs_w_m is None else capture.Rs_w_m[rows]
    return replace(
        capture, stamps_ns=capture.stamps_ns[rows], p_w_m=capture.p_w_m[rows], Rs_w_m=Rs_w_m
    )


def _against_vision(path: Path, options: RunOptions) -> NoiseProblem:
    inputs = open_inputs(path, replace(options, imu="datasheet"))
    candidates_ns = inputs.measurable_ns()
    if len(candidates_ns) < 2:
        raise DatasetError(f"{path}: {len(candidates_ns)} usable images, needed two or more.")
    has_s = float(candidates_ns[-1] - candidates_ns[0]) / NS - options.start_s
    window_s = min(options.window_s, has_s)
    keyframes = calibration_keyframes(window_s)
    window = long_window(candidates_ns, window_s, keyframes, options.start_s)
    vision = inputs.camera_motion(window.stamps_ns, 0)
    std = np.repeat(STD_MOUNTING, 3)
    mounting = MountingPrior(inputs.T_b_c, std)
    config = SolverConfig(estimate_time_offset=True)
    solved, vision, _ = solve_from_nothing(inputs.imu, vision, mounting, config)
    choices = replace(solved.choices, inflation=1.0, robust=False)
    problem = calibration_problem(inputs.imu, vision, solved.guess, choices, mounting)
    return NoiseProblem(problem, solved.guess.states, solved.guess.border)


def noise_record(measured: MeasuredImu) -> Record:
    """What `maci2 noise --json` writes, and `--imu noise:FILE` reads."""
    estimate = measured.estimate
    pooled = estimate.pooled(measured.stated.rate_hz)
    record: Record = {
        "recordings": list(measured.recordings),
        "seconds": measured.seconds,
        "compared_with": measured.source,
        "rate_hz": measured.stated.rate_hz,
        "converged": estimate.converged,
    }
    for key, differ in zip(KEYS[:2], estimate.axes_differ(), strict=True):
        levels: tuple[NoiseLevel, ...] = getattr(estimate, key)
        std_log = float(np.sqrt(np.mean([level.std_log**2 for level in levels]) / 3.0))
        value = float(getattr(pooled, key))
        axes: list[Json] = [level.value if differ else value for level in levels]
        record[key] = {
            "value": value,
            "std": value * std_log,
            "axes": axes,
            "axes_measured": [level.value for level in levels],
            "axes_std": [level.std for level in levels],
            "axes_differ": differ,
            "seen": any(level.seen for level in levels),
            "stated": float(getattr(measured.stated, key)),
        }
    for key in KEYS[2:]:
        level: NoiseLevel = getattr(estimate, key)
        record[key] = {
            "value": level.value,
            "std": level.std,
            "seen": level.seen,
            "stated": float(getattr(measured.stated, key)),
        }
    record["high_frequency_density"] = measured.high_frequency.tolist()
    if measured.allan is not None:
        record["allan"] = {
            "seconds": measured.allan.seconds,
            "density": measured.allan.density.tolist(),
            "std": (measured.allan.std_log_density * measured.allan.density).tolist(),
            "tau_s": measured.allan.tau_s.tolist(),
            "deviation": measured.allan.deviation.tolist(),
        }
    return record


def write_tools(measured: MeasuredImu, folder: Path) -> list[Path]:
    """Files of every tool for the rig of the first recording, with the noise that was measured: one
    folder each. A tool that cannot hold the rig is left out."""
    rig = replace(measured.rig, imu=measured.estimate.pooled(measured.stated.rate_hz))
    written: list[Path] = []
    for tool in TOOLS:
        try:
            written += write_rig(folder / tool, rig, tool)
        except CalibrationError:
            continue
    return written
