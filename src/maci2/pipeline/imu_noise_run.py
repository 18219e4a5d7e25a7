"""`maci2 noise`: the noise of an IMU from recordings in motion."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from maci2.calibration.imu_noise import NoiseProblem, estimate_imu_noise, stated_levels
from maci2.calibration.noise_estimate import NoiseEstimate, NoiseLevel
from maci2.datasets import open_recording
from maci2.errors import CalibrationError, OptionError, require_in_range
from maci2.estimation.result_output import Record
from maci2.files import real_path
from maci2.imu.allan import AllanDeviation, high_frequency_density, stationary_allan
from maci2.imu.measured_noise import KEYS
from maci2.pipeline.imu_noise_chains import against_capture, against_vision
from maci2.pipeline.imu_noise_check import NoiseCheck, check_noise, check_record
from maci2.pipeline.option_list import WINDOW_S
from maci2.pipeline.options import RunOptions
from maci2.rigs import require_noise
from maci2.rigs.convert import TOOLS, write_rig
from maci2.sensors import ImuNoise, Recording, Rig
from maci2.types import NS, Array

LONGEST_S = 60.0
"""Length of each recording that is used, where no other is asked for."""


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
    """Reference that the IMU was compared with."""

    allan: AllanDeviation | None
    """Allan deviation over the longest stationary stretch of any recording."""

    high_frequency: Array
    """(6,) noise near half the sampling rate, per sqrt(Hz)."""

    checks: tuple[NoiseCheck, ...] = ()
    """NEES of integration errors over horizons, before and after."""


def measure_noise(
    paths: Sequence[Path],
    options: RunOptions | None,
    source: str = "",
    length_s: float = LONGEST_S,
    open_path: Callable[[Path], Recording] = open_recording,
    test_paths: Sequence[Path] = (),
    checked: bool = False,
) -> MeasuredImu:
    """Noise of the IMU that all recordings share.

    With `options` the IMU is compared with camera motion, else with the capture or ground truth
    that `source` names (the first one found where it is empty). Integration errors are scored on
    the recordings of `test_paths`; where there are none and `checked` is true, on the same ones.
    """
    if not paths:
        raise OptionError("no recording is named; give one or more.")
    require_in_range("--window", length_s, *WINDOW_S)
    for k, path in enumerate(paths):
        if real_path(path) in map(real_path, paths[:k]):
            raise OptionError(f"{path} is given twice; its samples would count twice.")
    recordings = [open_path(path) for path in paths]
    tests = [open_path(path) for path in test_paths]
    for recording in (*recordings, *tests):
        require_noise(recording.rig, "measuring noise: a data sheet to begin from")

    def chain(path: Path, recording: Recording) -> NoiseProblem:
        if options is None:
            return against_capture(recording, source, length_s)
        return against_vision(path, options)

    problems = [chain(path, recording) for path, recording in zip(paths, recordings, strict=True)]
    allans = [stationary_allan(recording.imu) for recording in recordings]
    stretches = [allan for allan in allans if allan is not None]
    seconds = sum(float(p.problem.stamps_ns[-1] - p.problem.stamps_ns[0]) / NS for p in problems)
    stated = recordings[0].rig.imu
    estimate = estimate_imu_noise(problems, stated)
    scored = [(r.name, chain(p, r)) for p, r in zip(test_paths, tests, strict=True)]
    if checked and not scored:
        scored = [(r.name, problem) for r, problem in zip(recordings, problems, strict=True)]
    return MeasuredImu(
        estimate,
        replace(stated, rate_hz=recordings[0].imu.rate_hz),
        recordings[0].rig,
        tuple(recording.name for recording in recordings),
        seconds,
        (source or "ground truth") if options is None else str(options.source),
        max(stretches, key=lambda allan: allan.seconds, default=None),
        np.mean([high_frequency_density(recording.imu) for recording in recordings], axis=0),
        check_noise(scored, estimate.levels(), stated_levels(stated)),
    )


def noise_record(measured: MeasuredImu) -> Record:
    """Record that `maci2 noise --json` writes and `--imu noise:FILE` reads."""
    estimate = measured.estimate
    record: Record = {
        "recordings": list(measured.recordings),
        "seconds": measured.seconds,
        "compared_with": measured.source,
        "rate_hz": measured.stated.rate_hz,
        "converged": estimate.converged,
    }
    to_use = estimate.levels()[:6].reshape(2, 3).tolist()
    pooled = (estimate.pooled_gyro, estimate.pooled_acc)
    for key, one, axes, differ in zip(
        KEYS[:2], pooled, to_use, estimate.axes_differ(), strict=True
    ):
        levels: tuple[NoiseLevel, ...] = getattr(estimate, key)
        record[key] = {
            "value": one.value,
            "std": one.std,
            "axes": [*axes],
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
    if measured.checks:
        record["integration_errors"] = check_record(measured.checks)
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
