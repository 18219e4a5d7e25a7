"""The paper's protocol: every window of every recording, one row each."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from maci2.errors import DatasetError, Maci2Error
from maci2.estimation import CalibrationResult, InitResult, Status, calibrate, initialize
from maci2.evaluation.inputs import Inputs, open_inputs
from maci2.evaluation.metrics import InitErrors, initialization_errors
from maci2.evaluation.options import RunOptions
from maci2.evaluation.parallel import Pool, WorkerDied, run_all
from maci2.evaluation.truth_states import truth_jumps
from maci2.evaluation.warm_up import warm_up
from maci2.evaluation.windows import Window, one_window, plan_windows
from maci2.gaussian import Array
from maci2.imu import ImuMeasurements
from maci2.sensors import NS, GroundTruth, Stamps, truth_at
from maci2.vision import RelativePoses

ALONE = Pool()
MAX_TRUTH_GAP_S = 0.06

GROSS_JUMP_M = 0.025
"""A truth that moves by this much beyond its own velocity, from one stamp to the next, cannot judge
0.1 m/s over a quarter of a second."""

OFFSET_MARGIN_S = 0.12
"""Samples beyond the keyframes, where a time offset is looked for."""

CALIBRATION_SPACING_S = 0.3
"""Between keyframes of a calibration: far enough apart to turn by a good angle, since the error of
a step does not grow with it."""

SHORTEST_CALIBRATION_S = 5.0
"""A recording shorter than this is not taken for one of its whole length unasked."""


@dataclass(frozen=True)
class Row:
    """One window of one recording."""

    sequence: str
    index: int
    start_ns: int
    status: Status
    reasons: tuple[str, ...]
    errors: InitErrors | None
    """Absent where no state was returned."""

    solve_ms: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Initialized:
    """One window's result, with its errors where the recording has ground truth."""

    result: InitResult
    window: Window
    gyro_bias: Array
    """Of the raw gyroscope: what the IMU model took off and what was estimated."""

    acc_bias: Array
    errors: InitErrors | None


@dataclass(frozen=True)
class Evaluated:
    """All windows of one recording."""

    rows: list[Row]
    left_out: int
    """Windows in which the ground truth has a gap or jumps: nothing can be said of them."""


def evaluate(
    paths: list[Path],
    options: RunOptions,
    pool: Pool = ALONE,
    on_recording: Callable[[str, int], None] = lambda *_: None,
) -> dict[str, Evaluated]:
    """Run every recording; `on_recording(name, rows)` reports progress."""
    found: dict[Path, tuple[str, Evaluated]] = {}
    for path, result in run_all(partial(evaluate_recording, options=options), paths, pool):
        if isinstance(result, WorkerDied):
            raise DatasetError(f"{path}: {result.reason}; try it alone, with --jobs 1.")
        found[path] = result
        on_recording(result[0], len(result[1].rows))
    return dict(found[path] for path in paths)


def evaluate_recording(path: Path, options: RunOptions) -> tuple[str, Evaluated]:
    """All windows of one recording; a window that cannot be measured is a failed row."""
    inputs = open_inputs(path, options)
    if inputs.truth is None:
        raise DatasetError(f"{path}: no ground truth to evaluate against.")
    warm_up()
    windows = plan_windows(
        inputs.candidates_ns(with_truth=True),
        options.window_s,
        options.stride_s,
        options.keyframes,
        options.start_s,
    )
    known = [window for window in windows if truth_is_known(inputs.truth, window)]
    rows = [_row(inputs, window, options) for window in known]
    return inputs.recording.name, Evaluated(rows, len(windows) - len(known))


def truth_is_known(truth: GroundTruth, window: Window) -> bool:
    """Truth states a velocity at every keyframe and does not jump between them."""
    try:
        at = truth_at(truth, window.stamps_ns, MAX_TRUTH_GAP_S)
    except DatasetError:
        return False
    inside = (truth.stamps_ns >= window.start_ns) & (truth.stamps_ns <= window.stamps_ns[-1])
    states = replace(
        truth, stamps_ns=truth.stamps_ns[inside], Ts_w_b=truth.Ts_w_b[inside], v_w=truth.v_w[inside]
    )
    return bool(np.isfinite(at.v_w).all() and not truth_jumps(states, GROSS_JUMP_M).any())


def _row(inputs: Inputs, window: Window, options: RunOptions) -> Row:
    name = inputs.recording.name
    try:
        one = initialize_window(inputs, window, options)
    except Maci2Error as error:
        return Row(name, window.index, window.start_ns, "failed", (str(error),), None, 0.0)
    verdict, solve_ms = one.result.verdict, one.result.report.solve_ms
    return Row(
        name,
        window.index,
        window.start_ns,
        verdict.status,
        verdict.reasons,
        one.errors,
        solve_ms,
    )


def initialize_window(inputs: Inputs, window: Window, options: RunOptions) -> Initialized:
    """Initialize on one window and compare with the truth where there is one."""
    vision = inputs.camera_motion(window.stamps_ns, window.index)
    imu = _samples_around(inputs, vision, options)
    result = initialize(imu, vision, inputs.T_b_c, options.solver())
    removed_gyro, removed_acc = inputs.removed_bias(
        int(vision.stamps_ns[0]), int(vision.stamps_ns[-1])
    )
    window = Window(window.index, vision.stamps_ns)
    if result.state is None:
        return Initialized(result, window, removed_gyro, removed_acc, None)
    gyro_bias = removed_gyro + result.state.gyro_bias
    acc_bias = removed_acc + result.state.acc_bias
    errors = None
    truth = inputs.truth
    # With an offset found, keyframes may be fewer and their stamps are the IMU's.
    window = Window(window.index, result.state.stamps_ns)
    if truth is not None and truth_is_known(truth, window):
        errors = initialization_errors(
            result.state,
            truth_at(truth, window.stamps_ns, MAX_TRUTH_GAP_S),
            inputs.T_b_c,
            gyro_bias,
            truth.bias_gyro.mean(axis=0),
            result.posterior,
        )
    return Initialized(result, window, gyro_bias, acc_bias, errors)


def initialize_once(path: Path, options: RunOptions) -> tuple[Inputs, Initialized]:
    """`maci2 init`: the one window at `options.start_s`."""
    inputs = open_inputs(path, options)
    warm_up()
    window = one_window(
        inputs.candidates_ns(), options.window_s, options.keyframes, options.start_s
    )
    return inputs, initialize_window(inputs, window, options)


def calibrate_once(
    path: Path, options: RunOptions, may_be_shorter: bool = False
) -> tuple[Inputs, CalibrationResult]:
    """`maci2 calibrate`: extrinsics from one window, with no guess of them; from all there is where
    that is less and may be."""
    inputs = open_inputs(path, options, calibrating=True)
    warm_up()
    candidates_ns = inputs.candidates_ns()
    if may_be_shorter:
        options = _as_long_as_there_is(options, candidates_ns)
    window = one_window(candidates_ns, options.window_s, options.keyframes, options.start_s)
    return inputs, calibrate_window(inputs, window, options)


def _as_long_as_there_is(options: RunOptions, candidates_ns: Stamps) -> RunOptions:
    has_s = (int(candidates_ns[-1]) - int(candidates_ns[0])) / NS - options.start_s
    if not SHORTEST_CALIBRATION_S <= has_s < options.window_s:
        return options
    return replace(options, window_s=has_s, keyframes=calibration_keyframes(has_s))


def calibrate_window(inputs: Inputs, window: Window, options: RunOptions) -> CalibrationResult:
    """Extrinsics from one window."""
    vision = inputs.camera_motion(window.stamps_ns, window.index)
    return calibrate(_samples_around(inputs, vision, options), vision, options.solver())


def _samples_around(inputs: Inputs, vision: RelativePoses, options: RunOptions) -> ImuMeasurements:
    """What covers the keyframes, and as much more as a time offset may need and there is."""
    stamps_ns = inputs.imu.stamps_ns
    margin_ns = round(OFFSET_MARGIN_S * NS) if options.time_offset else 0
    return inputs.imu.between(
        max(int(vision.stamps_ns[0]) - margin_ns, int(stamps_ns[0])),
        min(int(vision.stamps_ns[-1]) + margin_ns, int(stamps_ns[-1])),
    )


def calibration_keyframes(window_s: float) -> int:
    """How many keyframes a calibration takes by default."""
    return max(round(window_s / CALIBRATION_SPACING_S) + 1, 4)


def finite_or_none(value: float) -> float | None:
    """JSON knows no NaN: what is missing is null."""
    return float(value) if np.isfinite(value) else None
