"""Experiments: a name, tasks on recordings, and tables and claims from their results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from maci2.errors import require_in_range
from maci2.pipeline.options import LONGEST_S, SEEDS
from maci2.pipeline.prepare import Window
from maci2_lab.experiments.recordings import Recordings
from maci2_lab.experiments.store import Record, WindowTimes
from maci2_lab.experiments.table import Findings

Records = dict[str, Record]
"""Records by task key."""


@dataclass(frozen=True)
class TaskResult:
    """Rows of the result file; times are kept apart, since they differ from run to run."""

    rows: list[Record]
    """One record for each window, trial, model or report."""

    times: WindowTimes = field(default_factory=WindowTimes)
    """Wall times of the windows."""

    left_out: int = 0
    """Number of windows without ground truth."""

    problem: str = ""
    """Reason if there are no rows at all."""


@dataclass(frozen=True)
class Task:
    """Unit of work: what one result file holds."""

    key: str
    """Name of the result's file."""

    options: Record
    """All options that determine the result, without the paths of recordings."""

    paths: dict[str, Path]
    """Recordings by name."""

    run: Callable[..., TaskResult]
    """Function that does the work; with `only` for one of its windows, where it has windows."""

    windows: Callable[[], list[Window]] | None = None
    """Function that lists the windows, for tasks that can be split into them."""

    def single(self, index: int) -> "Task":
        """Task of one window."""
        run = partial(self.run, only=index)
        return replace(self, key=f"{self.key}_{index}", run=run, windows=None)


@dataclass(frozen=True)
class Settings:
    """Options of a whole run."""

    seed: int = 0
    """Seed of all random numbers."""

    limit_s: float = 20.0
    """Processor time allowed for one window of one method."""

    def __post_init__(self) -> None:
        require_in_range("--seed", self.seed, *SEEDS)
        require_in_range("--time-limit", self.limit_s, 0.0, LONGEST_S, above=True)


class Experiment(Protocol):
    """An experiment: usually one table or figure of the paper."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def recordings(self) -> tuple[str, ...]: ...
    @property
    def files(self) -> tuple[str, ...]: ...
    def tasks(self, recordings: Recordings, settings: Settings) -> list[Task]: ...
    def findings(self, records: Records) -> Findings: ...


@dataclass(frozen=True)
class RecordingsExperiment:
    """Tasks on the named recordings, and findings from all of their results."""

    name: str
    title: str
    recordings: tuple[str, ...]
    make_tasks: Callable[[Recordings, int], Sequence[Task]]
    """Tasks on those recordings that are present, by the seed."""

    evaluate: Callable[[list[Record]], Findings]
    """Tables, claims and figures from the results of the tasks."""

    files: tuple[str, ...] = ()

    def tasks(self, recordings: Recordings, settings: Settings) -> list[Task]:
        return list(self.make_tasks(recordings.only(self.recordings), settings.seed))

    def findings(self, records: Records) -> Findings:
        return self.evaluate(list(records.values()))
