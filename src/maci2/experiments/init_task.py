"""One method on every window of one recording: a row for each, whatever happens."""

import time
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from maci2.baselines import Answer, Segment, find_initializer, make_segment
from maci2.baselines import run_initializer as run
from maci2.errors import DatasetError, Maci2Error
from maci2.estimation import Posterior, VIState
from maci2.estimation.results import direction_std
from maci2.evaluation.metrics import InitErrors, initialization_errors
from maci2.evaluation.protocol import MAX_TRUTH_GAP_S, truth_is_known
from maci2.evaluation.time_limit import TimeLimitError, within
from maci2.experiments.excitation import is_excited
from maci2.experiments.method import Method, slug
from maci2.experiments.rehearsals import compare_once
from maci2.lie import se3_inv
from maci2.pipeline.options import RunOptions
from maci2.pipeline.prepare import Inputs, open_inputs
from maci2.pipeline.windows import Window, plan_windows
from maci2.sensors import GroundTruth, truth_at
from maci2.types import GRAVITY_W, Array

DIGITS = 9
"""Significant digits in result files: the last bits depend on the machine."""


@dataclass(frozen=True)
class InitTask:
    """What one worker does at a time."""

    recording: str
    path: Path
    method: Method
    stride_s: float
    seed: int
    limit_s: float
    """For one window."""

    only: int | None = None
    """This window alone, where the others have been done."""

    @property
    def key(self) -> str:
        """Names the result's file."""
        vision = self.method.vision.partition(":")[0]
        return f"{self.recording}_{self.stride_s:g}s_{vision}_{slug(self.method.name)}"

    def as_dict(self) -> dict[str, Any]:
        """All that decides the result; not where the recording lies."""
        return {
            "recording": self.recording,
            "stride_s": self.stride_s,
            "seed": self.seed,
            "limit_s": self.limit_s,
            "method": asdict(self.method),
        }


@dataclass(frozen=True)
class TaskResult:
    """Rows for the result file; times apart, since they are never the same twice."""

    rows: list[dict[str, Any]]
    times_ms: list[float] = field(default_factory=list)
    left_out: int = 0
    problem: str = ""
    """Why there are no rows at all."""


def run_initialization(task: InitTask) -> TaskResult:
    """All windows of one recording, by one method."""
    compare_once()
    options = task.method.options(task.stride_s, task.seed)
    inputs = _inputs(task.path, options)
    known, left_out = planned_windows(inputs, options)
    if task.only is not None:
        known = [window for window in known if window.index == task.only]
    rows, times_ms = [], []
    for window in known:
        row, time_ms = _row(task, inputs, window)
        rows.append(row)
        times_ms.append(time_ms)
    return TaskResult(rows, times_ms, left_out)


def split(task: InitTask) -> list[InitTask]:
    """The task, window by window: to find the one that kills its worker."""
    options = task.method.options(task.stride_s, task.seed)
    known, _ = planned_windows(_inputs(task.path, options), options)
    return [replace(task, only=window.index) for window in known]


def died(task: InitTask, reason: str) -> dict[str, Any]:
    """The row of a window on which the worker died."""
    options = task.method.options(task.stride_s, task.seed)
    inputs = _inputs(task.path, options)
    window = next(w for w in planned_windows(inputs, options)[0] if w.index == task.only)
    return _base_row(task, window) | _judged(Answer(False, reason), None)


def planned_windows(inputs: Inputs, options: RunOptions) -> tuple[list[Window], int]:
    """Windows whose truth is known, and how many were left out because it is not."""
    truth = _truth(inputs)
    windows = plan_windows(
        inputs.candidates_ns(with_truth=True),
        options.window_s,
        options.stride_s,
        options.keyframes,
    )
    known = [window for window in windows if truth_is_known(truth, window)]
    return known, len(windows) - len(known)


@lru_cache(maxsize=4)
def _inputs(path: Path, options: RunOptions) -> Inputs:
    """Methods that share a recording, an IMU model and a vision source open it once."""
    return open_inputs(path, options)


def _truth(inputs: Inputs) -> GroundTruth:
    if inputs.truth is None:
        raise DatasetError(f"{inputs.recording.path}: no ground truth to compare with.")
    return inputs.truth


def _row(task: InitTask, inputs: Inputs, window: Window) -> tuple[dict[str, Any], float]:
    row = _base_row(task, window)
    try:
        segment = task.method.weigh(make_segment(inputs, window))
    except Maci2Error as error:
        reason = str(error).replace(str(task.path), task.recording)
        return row | _judged(Answer(False, reason), None), 0.0
    began = time.perf_counter()
    answer = answer_within(task.method.initializer, segment, task.limit_s)
    time_ms = 1e3 * (time.perf_counter() - began)
    truth = _truth(inputs)
    at = truth_at(truth, window.stamps_ns, MAX_TRUTH_GAP_S)
    position = [rounded(value) for value in at.Ts_w_b[0, :3, 3]]
    row |= {"excited": is_excited(segment), "position_w": position}
    if answer.state is None:
        return row | _judged(answer, None), time_ms
    errors = initialization_errors(
        answer.state,
        at,
        inputs.T_b_c,
        answer.state.gyro_bias,
        truth.bias_gyro.mean(axis=0),
        answer.posterior,
    )
    row |= _judged(answer, errors)
    if answer.posterior is not None:
        row["posterior"] = _posterior(answer.state, answer.posterior, at, inputs.T_b_c)
    return row, time_ms


def answer_within(initializer: str, segment: Segment, limit_s: float) -> Answer:
    """Its answer; an initializer that raises, or does not end, has none."""
    method = find_initializer(initializer)
    try:
        return within(limit_s, lambda: run(method, segment))
    except TimeLimitError as error:
        return Answer(False, str(error))
    except Exception as error:  # anybody's initializer may raise anything; it costs one row
        return Answer(False, f"raised {type(error).__name__}: {error}")


def _base_row(task: InitTask, window: Window) -> dict[str, Any]:
    return {
        "index": window.index,
        "start_ns": window.start_ns,
        "end_ns": int(window.stamps_ns[-1]),
    }


def _judged(answer: Answer, errors: InitErrors | None) -> dict[str, Any]:
    found = {} if errors is None else asdict(errors)
    scores = found.pop("nees", {})
    return {
        "accepted": answer.accepted,
        "unsure": answer.unsure,
        "reason": answer.reason,
        "errors": {name: rounded(value) for name, value in found.items()} or None,
        "nees": {name: rounded(value) for name, value in scores.items()},
    }


def _posterior(
    state: VIState, posterior: Posterior, truth: GroundTruth, T_b_c: Array
) -> dict[str, Any]:
    """What is needed to draw sigma against error, and gravity's ellipse."""
    T_c0_w = se3_inv(np.ascontiguousarray(truth.Ts_w_b[0] @ T_b_c))
    true_c0 = T_c0_w[:3, :3] @ GRAVITY_W
    norm = np.linalg.norm(state.gravity_c0)
    across = np.linalg.svd(state.gravity_c0[None, :])[2][1:]
    error = across @ (state.gravity_c0 / norm - true_c0 / np.linalg.norm(true_c0))
    cov = across @ posterior.gravity_c0 @ across.T / norm**2
    degree = 180.0 / np.pi
    std_velocity = np.sqrt(np.einsum("kii->", posterior.velocity_b) / len(posterior.velocity_b))
    return {
        "gravity_std_deg": rounded(degree * direction_std(state.gravity_c0, posterior.gravity_c0)),
        "velocity_std": rounded(std_velocity),
        "gravity_error_deg": [rounded(value) for value in degree * error],
        "gravity_cov_deg2": [[rounded(v) for v in line] for line in degree**2 * cov],
    }


def rounded(value: float) -> float | None:
    """JSON knows no NaN: what is missing is null."""
    return float(f"{value:.{DIGITS}g}") if np.isfinite(value) else None
