"""`maci2 noise`: the noise of an IMU from recordings in motion, as numbers, words and files.

The IMU is compared with a capture of its motion, or with the motion of a camera.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from math import comb
from pathlib import Path
from typing import Any

import numpy as np

from maci2.calibration_prior import UNVERIFIED
from maci2.datasets import open_recording
from maci2.errors import CalibrationError, DatasetError, OptionError, require_in_range
from maci2.estimator import SolverConfig
from maci2.estimator.calibrate import MountingPrior, solve_from_nothing
from maci2.estimator.initialize import with_loss
from maci2.estimator.problem import Loss, Problem
from maci2.files import real_path
from maci2.imu import datasheet_model
from maci2.imu.bias_tracker import block_length, stationary_blocks
from maci2.imu.model_choice import KEYS
from maci2.pipeline.options import WINDOW_S, RunOptions
from maci2.pipeline.prepare import long_window, open_inputs
from maci2.result_output import Record
from maci2.rigs import require_noise
from maci2.rigs.convert import TOOLS, write_rig
from maci2.sensors import ImuNoise, ImuSamples, Recording, Rig
from maci2.tools.ground_truth.audit_problem import audit_problem, first_of_slots
from maci2.tools.ground_truth.capture import open_capture
from maci2.tools.ground_truth.registration import register
from maci2.tools.imu_noise.consistency import NoiseCheck, check_noise, check_record
from maci2.tools.imu_noise.estimate import (
    NoiseEstimate,
    NoiseLevel,
    NoiseProblem,
    estimate_imu_noise,
    stated_levels,
)
from maci2.types import NS, Array, Mask, Stamps

STATE_PERIOD_S = 0.25
"""Time between states [s]: errors faster than a camera's keyframes do not matter to estimators."""

POSITION_HZ, ORIENTATION_HZ = 2.0, 0.2
"""Rows a second that are used of a real capture. Its errors last: markers wobble on the body and
clocks jitter, which at more rows would count as noise of the IMU."""

EXACT_HZ = 20.0
"""Rows a second of a simulated capture, whose noise is white."""


def against_capture(recording: Recording, source: str, length_s: float) -> NoiseProblem:
    """The problem of a capture's middle."""
    capture = open_capture(recording, source)
    capture = capture.part(first_of_slots(capture.stamps_ns, EXACT_HZ))
    found = register(capture, recording.imu)
    imu = datasheet_model(recording.imu, recording.rig.imu)
    middle_ns = int(capture.stamps_ns[len(capture) // 2])
    capture = capture.part(np.abs(capture.stamps_ns - middle_ns) <= 0.5 * length_s * NS)
    start = audit_problem(capture, found, imu, recording, state_period_s=STATE_PERIOD_S)
    first_ns, last_ns = int(start.problem.stamps_ns[0]), int(start.problem.stamps_ns[-1])
    problem = replace(start.problem, imu=imu.between(first_ns - NS // 2, last_ns + NS // 2))
    if not recording.rig.imu.exact:
        problem = _thinned(problem, round(found.offset_s * NS))
    return NoiseProblem(problem, start.states, start.shared, start.least_factor)


def _thinned(problem: Problem, offset_ns: int) -> Problem:
    """The problem with as many rows of its capture as have errors of their own."""
    changes = {}
    for name, rate_hz in (("positions", POSITION_HZ), ("orientations", ORIENTATION_HZ)):
        measured = getattr(problem, name)
        if measured is not None:
            rows = _nearest_rows(measured.stamps_ns + offset_ns, problem.stamps_ns, rate_hz)
            values = {field.name: getattr(measured, field.name) for field in fields(measured)}
            arrays = {key: v[rows] for key, v in values.items() if isinstance(v, np.ndarray)}
            changes[name] = replace(measured, **arrays)
    return replace(problem, **changes)


def _nearest_rows(on_imu_ns: Stamps, states_ns: Stamps, rate_hz: float) -> Mask:
    """The row of every slot of time that comes soonest after a state: what the IMU adds between
    that state and the row counts as noise of the row."""
    slots = ((on_imu_ns - on_imu_ns[0]) * rate_hz // NS).astype(np.int64)
    before = np.maximum(np.searchsorted(states_ns, on_imu_ns, side="right") - 1, 0)
    order = np.lexsort((np.abs(on_imu_ns - states_ns[before]), slots))
    chosen = np.zeros(len(slots), dtype=bool)
    chosen[order[np.r_[True, np.diff(slots[order]) > 0]]] = True
    return chosen


def against_vision(path: Path, options: RunOptions) -> NoiseProblem:
    """The problem of a recording's camera motion."""
    # The IMU's noise is the question, so the noise of vision is not estimated from it.
    inputs = open_inputs(path, replace(options, imu="datasheet", noise_as_stated=True))
    candidates_ns = inputs.measurable_ns()
    if len(candidates_ns) < 2:
        raise DatasetError(f"{path}: {len(candidates_ns)} usable images, needed two or more.")
    has_s = float(candidates_ns[-1] - candidates_ns[0]) / NS - options.start_s
    window_s = min(options.window_s, has_s)
    keyframes = max(round(window_s / STATE_PERIOD_S) + 1, 2)
    window = long_window(candidates_ns, window_s, keyframes, options.start_s)
    vision = inputs.vision.motion(window.stamps_ns, 0)
    std = np.repeat([UNVERIFIED.lever_m, UNVERIFIED.rotation], 3)
    mounting = MountingPrior(inputs.T_b_c, std)
    config = SolverConfig(estimate_time_offset=True)
    solution = solve_from_nothing(inputs.imu, vision, mounting, config)[0].solution
    problem = replace(with_loss(solution.problem, Loss()), inflation=1.0)
    return NoiseProblem(problem, solution.states, solution.shared)


SHORTEST_S = 5.0
"""Shortest stretch without motion that an Allan deviation is taken of."""

WHITE_UP_TO_S = 1.0
"""Averaging times up to which white noise rules."""

ORDER = 6
"""Order of the differences that motion drops out of."""


@dataclass(frozen=True)
class AllanDeviation:
    """Allan deviation over the longest stationary stretch of a recording."""

    seconds: float
    """Length of the stretch [s]."""

    tau_s: Array
    """(m,) averaging times [s]."""

    deviation: Array
    """(m, 6) of gyroscope [rad/s] and accelerometer [m/s^2], each axis."""

    density: Array
    """(6,) white noise: deviation times sqrt(tau) over short averaging times, per sqrt(Hz)."""

    std_log_density: float
    """Standard deviation of its natural logarithm."""


def stationary_allan(samples: ImuSamples) -> AllanDeviation | None:
    """Overlapping Allan deviation of the longest stretch without motion; None where none is long
    enough."""
    still = np.r_[False, stationary_blocks(samples).still, False]
    edges = np.flatnonzero(np.diff(still.astype(int)))
    runs = edges.reshape(-1, 2)
    if not len(runs):
        return None
    first, last = max(runs, key=lambda run: run[1] - run[0]) * block_length(samples)
    seconds = (last - first) / samples.rate_hz
    if seconds < SHORTEST_S:
        return None
    values = np.hstack([samples.gyro[first:last], samples.acc[first:last]])
    sums = np.cumsum(np.vstack([np.zeros(6), values - values.mean(axis=0)]), axis=0)
    sizes = np.unique(np.geomspace(1, (last - first) // 4, 30).astype(int))
    tau_s = sizes / samples.rate_hz
    means = [(sums[size:] - sums[:-size]) / size for size in sizes]
    steps = [mean[size:] - mean[:-size] for mean, size in zip(means, sizes, strict=True)]
    deviation = np.array([np.sqrt(0.5 * np.mean(step**2, axis=0)) for step in steps])
    white = tau_s <= WHITE_UP_TO_S
    density = np.exp(np.mean(np.log(deviation[white] * np.sqrt(tau_s[white])[:, None]), axis=0))
    longest = float(tau_s[white][-1])
    return AllanDeviation(seconds, tau_s, deviation, density, float(np.sqrt(longest / seconds)))


def high_frequency_density(samples: ImuSamples) -> Array:
    """(6,) white noise that samples would need to differ as they do from one to the next, per
    sqrt(Hz): sensor noise, vibration and what aliases, none of which is motion."""
    values = np.hstack([samples.gyro, samples.acc])
    rough = np.diff(values, n=ORDER, axis=0)
    variance = np.mean(rough**2, axis=0) / comb(2 * ORDER, ORDER)
    return np.asarray(np.sqrt(variance / samples.rate_hz))


LONGEST_S = 60.0
"""Length of each recording that is used, where no other is asked for."""


@dataclass(frozen=True)
class MeasuredImu:
    """Noise of an IMU from several recordings, beside other ways to estimate it."""

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
    for key, sensor in zip(KEYS, (estimate.gyro, estimate.acc), strict=False):
        record[key] = {
            **_level_record(sensor.pooled, measured.stated, key),
            "axes": [*sensor.to_use],
            "axes_measured": [level.value for level in sensor.axes],
            "axes_std": [level.std for level in sensor.axes],
            "axes_differ": sensor.differs,
            "seen": sensor.seen,
        }
    for key in KEYS[2:]:
        record[key] = _level_record(getattr(estimate, key), measured.stated, key)
    if measured.checks:
        record["integration_errors"] = check_record(measured.checks)
    record["high_frequency_density"] = measured.high_frequency.tolist()
    if (allan := measured.allan) is not None:
        record["allan"] = {
            "seconds": allan.seconds,
            "density": allan.density.tolist(),
            "std": (allan.std_log_density * allan.density).tolist(),
            "tau_s": allan.tau_s.tolist(),
            "deviation": allan.deviation.tolist(),
        }
    return record


def _level_record(level: NoiseLevel, stated: ImuNoise, key: str) -> dict[str, Any]:
    stated_value = float(getattr(stated, key))
    return {"value": level.value, "std": level.std, "seen": level.seen, "stated": stated_value}


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


ROUGH = 2.0
"""Roughness over white noise from which vibration is named."""

SENSORS = (("gyroscope", "rad/s"), ("accelerometer", "m/s^2"))


def noise_rows(measured: MeasuredImu) -> list[tuple[str, ...]]:
    """One row for each density and walk."""
    estimate, stated = measured.estimate, measured.stated
    rows: list[tuple[str, ...]] = []
    sensors = (estimate.gyro, estimate.acc), (stated.density_gyro, stated.density_acc)
    for first, (name, unit), sensor, density in zip((0, 3), SENSORS, *sensors, strict=True):
        for axis, level in enumerate(sensor.axes):
            at = first + axis
            still = "-" if measured.allan is None else f"{measured.allan.density[at]:.2e}"
            rough = f"{measured.high_frequency[at]:.2e}"
            quantity = f"{name} {'xyz'[axis]} [{unit}]"
            rows.append((quantity, *_level(level), still, rough, f"{density:.2e}"))
    for walk, level, density in (
        ("gyroscope walk [rad/s^2]", estimate.walk_gyro, stated.walk_gyro),
        ("accelerometer walk [m/s^3]", estimate.walk_acc, stated.walk_acc),
    ):
        rows.append((walk, *_level(level), "-", "-", f"{density:.2e}"))
    return rows


def _level(level: NoiseLevel) -> tuple[str, str]:
    return f"{level.value:.2e}", f"{level.std:.1e}" if level.seen else "not seen"


def noise_remarks(measured: MeasuredImu) -> list[str]:
    """Remarks for the user: vibration, axes that differ, values not observed, data sheets."""
    estimate, stated, remarks = measured.estimate, measured.stated, []
    sensors = (estimate.gyro, estimate.acc), (stated.density_gyro, stated.density_acc)
    roughness = measured.high_frequency.reshape(2, 3)
    for (name, _), rough, sensor, density in zip(SENSORS, roughness, *sensors, strict=True):
        ratio = float(np.max(rough / [level.value for level in sensor.axes]))
        if ratio > ROUGH:
            remarks.append(
                f"{name}: samples are {ratio:.1f} times as rough as what integrates: vibration or "
                "aliasing near half the sampling rate; sample faster or filter before sampling"
            )
        if sensor.differs:
            remarks.append(f"{name}: axes differ; tools with one number get the root mean square")
        if sensor.seen:
            times = sensor.pooled.value / density
            remarks.append(f"{name}: white noise is {times:.2g} times the data sheet's")
        else:
            remarks.append(
                f"{name}: white noise is hidden by the reference; the data sheet's stands"
            )
    for name, level in (("gyroscope", estimate.walk_gyro), ("accelerometer", estimate.walk_acc)):
        if not level.seen:
            remarks.append(f"{name}: random walk not seen in {measured.seconds:.0f} s; give more")
    if not estimate.converged:
        remarks.append("the likelihood's maximum was not reached: take these numbers as rough")
    return remarks
