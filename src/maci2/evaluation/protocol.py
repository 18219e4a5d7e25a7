"""The paper's protocol: every window of every recording, one row each."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from maci2.errors import DatasetError, Maci2Error
from maci2.estimation import Status
from maci2.evaluation.metrics import InitErrors, initialization_errors
from maci2.evaluation.parallel import Pool, WorkerDied, run_all
from maci2.ground_truth.states import truth_jumps
from maci2.pipeline.offline import Initialized, initialize_window
from maci2.pipeline.options import RunOptions
from maci2.pipeline.prepare import Inputs, open_inputs
from maci2.pipeline.warm_up import warm_up
from maci2.pipeline.windows import Window, plan_windows
from maci2.sensors import GroundTruth, truth_at

ALONE = Pool()
MAX_TRUTH_GAP_S = 0.06

GROSS_JUMP_M = 0.025
"""A truth that moves by this much beyond its own velocity, from one stamp to the next, cannot judge
0.1 m/s over a quarter of a second."""


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
    rows = [window_row(inputs, window, options) for window in known]
    return inputs.recording.name, Evaluated(rows, len(windows) - len(known))


def truth_is_known(truth: GroundTruth, window: Window) -> bool:
    """Truth states a velocity at every keyframe and does not jump between them."""
    try:
        at = truth_at(truth, window.stamps_ns, MAX_TRUTH_GAP_S)
    except DatasetError:
        return False
    inside = (truth.stamps_ns >= window.start_ns) & (truth.stamps_ns <= window.stamps_ns[-1])
    states = replace(
        truth,
        stamps_ns=truth.stamps_ns[inside],
        Ts_w_b=truth.Ts_w_b[inside],
        v_w=truth.v_w[inside],
        bias_gyro=truth.bias_gyro[inside],
        bias_acc=truth.bias_acc[inside],
    )
    return bool(np.isfinite(at.v_w).all() and not truth_jumps(states, GROSS_JUMP_M).any())


def window_errors(inputs: Inputs, initialized: Initialized) -> InitErrors | None:
    """Errors of one window's result; None without a state or where ground truth is not known."""
    state, truth = initialized.result.state, inputs.truth
    if state is None or truth is None or not truth_is_known(truth, initialized.window):
        return None
    return initialization_errors(
        state,
        truth_at(truth, state.stamps_ns, MAX_TRUTH_GAP_S),
        inputs.T_b_c,
        initialized.gyro_bias,
        truth.bias_gyro.mean(axis=0),
        initialized.result.posterior,
    )


def window_row(inputs: Inputs, window: Window, options: RunOptions) -> Row:
    """Initialize on one window and score it; what cannot be measured is a failed row."""
    name = inputs.recording.name
    try:
        initialized = initialize_window(inputs, window, options)
    except Maci2Error as error:
        return Row(name, window.index, window.start_ns, "failed", (str(error),), None, 0.0)
    result = initialized.result
    return Row(
        name,
        window.index,
        window.start_ns,
        result.verdict.status,
        result.verdict.reasons,
        window_errors(inputs, initialized),
        result.report.solve_ms,
    )
