"""Experiments of initialization: one method on every window of one recording, one row per window,
also for failures; the rows of all methods arranged for queries; and combinations of experiments."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from maci2.imu import datasheet_model
from maci2.pipeline.options import RunOptions
from maci2.pipeline.prepare import Inputs, Window, open_inputs
from maci2.simulation import SimulationConfig, simulate
from maci2.vision import pose_noise, poses_from_truth
from maci2_lab.baselines import (
    INITIALIZERS,
    Answer,
    Segment,
    find_initializer,
    make_segment,
    run_initializer,
)
from maci2_lab.baselines.segment import StageTime, is_excited
from maci2_lab.evaluation.protocol import (
    Estimate,
    Judges,
    find_judges,
    window_row,
    windows_with_truth,
)
from maci2_lab.evaluation.summary import PAPER_LIMITS, SuccessLimits
from maci2_lab.evaluation.time_limit import TimeLimitError, within
from maci2_lab.experiments.experiment import Records, Settings, Task, TaskResult
from maci2_lab.experiments.init_figures import initialization_figures
from maci2_lab.experiments.init_tables import (
    Board,
    ClaimMaker,
    audited_table,
    error_tables,
    no_claims,
    order_claims,
    summary_tables,
    verdict_table,
)
from maci2_lab.experiments.methods import Method, has_vision, slug, vision_file
from maci2_lab.experiments.paper_numbers import PaperTable
from maci2_lab.experiments.recordings import Recordings, Rendering
from maci2_lab.experiments.store import WindowTimes, row_from_record, row_record
from maci2_lab.experiments.table import Findings

COMPILED = ("maci2", "maci2-paper", "orbslam3", "analytic", "vins", "kimera")
"""Methods that together call every kernel."""


@lru_cache(maxsize=1)
def compare_once() -> None:
    """Initialize a short simulated window by every method."""
    recording = simulate(SimulationConfig(duration_s=3.0))
    truth, T_b_c = recording.truth(), recording.rig.cameras[0].T_b_c
    assert truth is not None
    stamps_ns = recording.camera_stamps_ns[0][np.arange(2, 52, 5)]
    vision = poses_from_truth(truth, stamps_ns, T_b_c, pose_noise(0.05, 0.003), (0,))
    imu = datasheet_model(recording.imu, recording.rig.imu)
    imu = imu.between(int(stamps_ns[0]), int(stamps_ns[-1]))
    segment = Segment(imu, imu, imu, vision, T_b_c)
    for name in COMPILED:
        INITIALIZERS[name](segment)


@dataclass(frozen=True)
class MethodRun:
    """One method on the windows of one recording."""

    recording: str
    path: Path
    method: Method
    stride_s: float
    """Time from the start of one window to the start of the next."""

    settings: Settings
    count: int = 0
    """Largest number of windows, evenly spread over the recording; 0 for all."""

    def task(self) -> Task:
        kind = self.method.vision.partition(":")[0]
        vision = slug(self.method.vision) if kind == "tracks" else kind
        options = {
            "recording": self.recording,
            "stride_s": self.stride_s,
            "seed": self.settings.seed,
            "limit_s": self.settings.limit_s,
            "windows": self.count,
            "method": asdict(self.method),
        }
        key = f"{self.recording}_{self.stride_s:g}s_{vision}_{slug(self.method.name)}"
        return Task(key, options, {self.recording: self.path}, self.run, self.windows)

    def run(self, only: int | None = None) -> TaskResult:
        """Rows of all windows, or of only one."""
        compare_once()
        windows, left_out = self._windows()
        times = WindowTimes()
        estimator = partial(
            estimate_by_method,
            method=self.method,
            limit_s=self.settings.limit_s,
            on_stages=times.add_stages,
        )
        judges = _judges(self.path, self._options)
        rows = []
        for window in windows:
            if only in (None, window.index):
                row = window_row(self._inputs, window, estimator, judges)
                times.total_ms.append(row.solve_ms or 0.0)
                # Results do not depend on the location of recordings.
                reasons = (reason.replace(str(self.path), self.recording) for reason in row.reasons)
                rows.append(row_record(replace(row, reasons=tuple(reasons))))
        return TaskResult(rows, times, left_out)

    def windows(self) -> list[Window]:
        """Windows with ground truth."""
        return self._windows()[0]

    def _windows(self) -> tuple[list[Window], int]:
        """Windows with ground truth, and the number of those without."""
        windows, left_out = windows_with_truth(self._inputs, self._options)
        if 0 < self.count < len(windows):
            spread = np.linspace(0, len(windows) - 1, self.count).round().astype(int)
            windows = [windows[index] for index in spread]
        return windows, left_out

    @property
    def _options(self) -> RunOptions:
        return self.method.options(self.stride_s, self.settings.seed)

    @property
    def _inputs(self) -> Inputs:
        return _inputs(self.path, self._options)


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


@dataclass(frozen=True)
class InitExperiment:
    """Methods on the windows of recordings."""

    name: str
    title: str
    recordings: tuple[str, ...]
    methods: tuple[Method, ...]
    metrics: tuple[str, ...] = ("gravity_deg", "velocity_rmse")
    paper: PaperTable | None = None
    strides_s: tuple[float, ...] = (2.5,)
    windows: tuple[int, ...] = ()
    """Largest number of windows of a recording at each stride; by default all."""

    limits: SuccessLimits = PAPER_LIMITS
    """Errors below which a window is a success."""

    claims: ClaimMaker = no_claims
    """Claims about the results, each checked against them."""

    scored: bool = False
    """True if verdicts get a table of their own."""

    detail: bool = False
    """True to plot figures window by window."""

    renderings: tuple[Rendering, ...] = ()
    """Recordings that are rendered if they are not found."""

    @property
    def files(self) -> tuple[str, ...]:
        """Files that some method needs in a recording."""
        visions = dict.fromkeys(method.vision for method in self.methods)
        return tuple(file for vision in visions if (file := vision_file(vision)))

    def by_methods(self, names: Sequence[str]) -> "InitExperiment | None":
        """Experiment restricted to the methods of these names; None if it has none of them."""
        kept = tuple(method for method in self.methods if method.is_called(names))
        return replace(self, methods=kept) if kept else None

    def tasks(self, recordings: Recordings, settings: Settings) -> list[Task]:
        counts = self.windows or (0,) * len(self.strides_s)
        strides = list(zip(self.strides_s, counts, strict=True))
        return [
            MethodRun(name, path, method, stride_s, settings, count).task()
            for name, path in recordings.present(self.recordings).items()
            for method in self.methods
            if has_vision(path, method.vision)
            for stride_s, count in strides
        ]

    def findings(self, records: Records) -> Findings:
        board = self.board(records)
        if not board.methods:
            return Findings([])
        tables = error_tables(board, self.metrics, self.paper)
        if self.scored:
            tables += [verdict_table(board), audited_table(board)]
        figures = initialization_figures(board, self.metrics, self.detail)
        return Findings(tables, self.claims(board, self.paper), figures)

    def board(self, records: Records) -> Board:
        """Results of this experiment's methods on its recordings."""
        by_name = {(method.name, method.vision): method for method in self.methods}
        rows = {}
        for record in records.values():
            task = record["task"]
            method = by_name.get((task["method"]["name"], task["method"]["vision"]))
            if method is not None and task["recording"] in self.recordings:
                key = method, task["stride_s"], task["recording"]
                rows[key] = [row_from_record(row) for row in record["rows"]]
        there = {recording for _, _, recording in rows}
        ran = {method for method, _, _ in rows}
        return Board(
            tuple(method for method in self.methods if method in ran),
            tuple(name for name in self.recordings if name in there),
            self.strides_s,
            self.limits,
            rows,
        )


@dataclass(frozen=True)
class CombinedExperiment:
    """Several experiments under one name, with all methods in common tables."""

    name: str
    title: str
    parts: tuple[InitExperiment, ...]
    paper: PaperTable

    @property
    def recordings(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for part in self.parts for name in part.recordings))

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(file for part in self.parts for file in part.files))

    @property
    def renderings(self) -> tuple[Rendering, ...]:
        return tuple(one for part in self.parts for one in part.renderings)

    def by_methods(self, names: Sequence[str]) -> "CombinedExperiment | None":
        """Experiment restricted to the methods of these names; None if it has none of them."""
        parts = [part.by_methods(names) for part in self.parts]
        kept = tuple(part for part in parts if part is not None)
        return replace(self, parts=kept) if kept else None

    def tasks(self, recordings: Recordings, settings: Settings) -> list[Task]:
        return [task for part in self.parts for task in part.tasks(recordings, settings)]

    def findings(self, records: Records) -> Findings:
        boards = [(part.title, board) for part in self.parts if (board := part.board(records)).rows]
        found = Findings(
            summary_tables(boards, self.paper), [*order_claims(boards, self.paper)], []
        )
        for part in self.parts:
            shown = part.findings(records)
            found.tables.extend(
                replace(table, title=f"{part.title}: {table.title}") for table in shown.tables
            )
            found.claims.extend(
                replace(claim, text=f"{part.title}: {claim.text}") for claim in shown.claims
            )
            found.figures.extend(
                {**figure, "title": f"{part.title}: {figure['title']}"} for figure in shown.figures
            )
        return found
