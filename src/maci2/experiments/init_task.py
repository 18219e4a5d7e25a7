"""Task of one method on every window of one recording: one row per window, also for failures."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from maci2.baselines import Answer, Segment, find_initializer, make_segment, run_initializer
from maci2.baselines.segment import StageTime, is_excited
from maci2.evaluation.protocol import find_judges
from maci2.evaluation.rows import Estimate, Judges, Row, window_row, windows_with_truth
from maci2.evaluation.time_limit import TimeLimitError, within
from maci2.experiments.method import Method, slug
from maci2.experiments.rehearsals import compare_once
from maci2.experiments.row_records import row_record
from maci2.experiments.store import WindowTimes
from maci2.pipeline.options import RunOptions
from maci2.pipeline.prepare import Inputs, open_inputs
from maci2.pipeline.windows import Window


@dataclass(frozen=True)
class InitTask:
    """One method on one recording: the unit of work."""

    recording: str
    """Name of the recording."""

    path: Path
    """Folder or bag of the recording."""

    method: Method
    """The method under test."""

    stride_s: float
    """Time from the start of one window to the start of the next."""

    seed: int
    """Seed of all random numbers."""

    limit_s: float
    """Processor time allowed for one window."""

    only: int | None = None
    """Index of a single window to run; None for all windows."""

    windows: int = 0
    """Largest number of windows, evenly spread over the recording; 0 for all."""

    @property
    def key(self) -> str:
        """Name of the result's file."""
        kind = self.method.vision.partition(":")[0]
        vision = slug(self.method.vision) if kind == "tracks" else kind
        return f"{self.recording}_{self.stride_s:g}s_{vision}_{slug(self.method.name)}"

    def as_dict(self) -> dict[str, Any]:
        """All options that determine the result, without the path of the recording."""
        return {
            "recording": self.recording,
            "stride_s": self.stride_s,
            "seed": self.seed,
            "limit_s": self.limit_s,
            "windows": self.windows,
            "method": asdict(self.method),
        }


@dataclass(frozen=True)
class TaskResult:
    """Rows of the result file; times are kept apart, since they differ from run to run."""

    rows: list[dict[str, Any]]
    """One record for each window, trial, model or report."""

    times: WindowTimes = field(default_factory=WindowTimes)
    """Wall times of the windows."""

    left_out: int = 0
    """Number of windows without ground truth."""

    problem: str = ""
    """Reason if there are no rows at all."""


def run_initialization(task: InitTask) -> TaskResult:
    """Run one method on all windows of one recording."""
    compare_once()
    options = task.method.options(task.stride_s, task.seed)
    inputs = _inputs(task.path, options)
    windows, left_out = _windows(task, inputs, options)
    times = WindowTimes()
    estimator = partial(
        estimate_by_method, method=task.method, limit_s=task.limit_s, on_stages=times.add_stages
    )
    judges = _judges(task.path, options)
    rows = [
        _without_path(window_row(inputs, window, estimator, judges), task)
        for window in windows
        if task.only in (None, window.index)
    ]
    times.total_ms.extend(row.solve_ms or 0.0 for row in rows)
    return TaskResult([row_record(row) for row in rows], times, left_out)


def _windows(task: InitTask, inputs: Inputs, options: RunOptions) -> tuple[list[Window], int]:
    """Windows of the task with ground truth, and the number of those without."""
    windows, left_out = windows_with_truth(inputs, options)
    if 0 < task.windows < len(windows):
        spread = np.linspace(0, len(windows) - 1, task.windows).round().astype(int)
        windows = [windows[index] for index in spread]
    return windows, left_out


def split(task: InitTask) -> list[InitTask]:
    """Split the task into single windows, to find the one that kills its worker."""
    options = task.method.options(task.stride_s, task.seed)
    windows, _ = _windows(task, _inputs(task.path, options), options)
    return [replace(task, only=window.index) for window in windows]


def died(task: InitTask, reason: str) -> dict[str, Any]:
    """Record of a window on which the worker died."""
    options = task.method.options(task.stride_s, task.seed)
    windows, _ = _windows(task, _inputs(task.path, options), options)
    window = next(window for window in windows if window.index == task.only)
    end_ns = int(window.stamps_ns[-1])
    return row_record(Row(window.index, window.start_ns, end_ns, "failed", (reason,), None))


def estimate_by_method(
    inputs: Inputs,
    window: Window,
    method: Method,
    limit_s: float,
    on_stages: Callable[[tuple[StageTime, ...]], None] = lambda _: None,
) -> Estimate:
    """Result of a method on one window within its time limit."""
    segment = method.weigh(make_segment(inputs, window))
    began_s = time.perf_counter()
    answer, timed_out = answer_within(method.initializer, segment, limit_s)
    on_stages(answer.stages)
    return Estimate(
        "ok" if answer.accepted else "weak" if answer.unsure else "failed",
        (answer.reason,) if answer.reason else (),
        answer.state,
        answer.posterior,
        1e3 * (time.perf_counter() - began_s),
        timed_out,
        is_excited(segment),
    )


def answer_within(initializer: str, segment: Segment, limit_s: float) -> tuple[Answer, bool]:
    """Answer of an initializer, and whether it exceeded its time limit; one that raises or does not
    end has no state."""
    method = find_initializer(initializer)
    try:
        return within(limit_s, lambda: run_initializer(method, segment)), False
    except TimeLimitError as error:
        return Answer(False, str(error)), True
    except Exception as error:  # anybody's initializer may raise anything; it costs one row
        return Answer(False, f"raised {type(error).__name__}: {error}"), False


@lru_cache(maxsize=4)
def _inputs(path: Path, options: RunOptions) -> Inputs:
    """Open a recording once for all methods with the same IMU model and vision source."""
    return open_inputs(path, options)


@lru_cache(maxsize=4)
def _judges(path: Path, options: RunOptions) -> Judges:
    return find_judges(_inputs(path, options), options)


def _without_path(row: Row, task: InitTask) -> Row:
    """Replace paths in reasons by names, so that results do not depend on locations."""
    reasons = tuple(reason.replace(str(task.path), task.recording) for reason in row.reasons)
    return replace(row, reasons=reasons)
