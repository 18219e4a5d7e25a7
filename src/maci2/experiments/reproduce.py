"""Run experiments: what is stored is kept, what is missing is done, nothing is lost on the way."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from maci2 import __version__
from maci2.errors import Maci2Error
from maci2.evaluation.parallel import Pool, WorkerDied, run_all
from maci2.experiments.calibration_task import CalibrationTask, run_calibration
from maci2.experiments.experiment import Experiment, Records, Settings, Task
from maci2.experiments.imu_task import CovarianceTask, run_covariance
from maci2.experiments.init_task import (
    InitTask,
    TaskResult,
    died,
    run_initialization,
    split,
)
from maci2.experiments.recordings import Found
from maci2.experiments.robustness_task import RobustnessTask, run_robustness
from maci2.experiments.store import FORMAT, Store, to_text
from maci2.experiments.table import Findings
from maci2.experiments.visual_task import VisualTask, run_visual
from maci2.files import write_atomically

Progress = Callable[[str, int, int], None]
"""Experiment, tasks done, tasks in all."""


@dataclass(frozen=True)
class Reproduced:
    """One experiment as it was run."""

    experiment: Experiment
    folder: Path
    missing: tuple[str, ...]
    """Recordings and files that are not there, and tasks that could not begin."""

    findings: Findings | None
    """None where nothing of it could be run."""


def reproduce(
    experiment: Experiment,
    found: Found,
    output: Path,
    settings: Settings,
    pool: Pool,
    fresh: bool = False,
    on_progress: Progress = lambda *_: None,
) -> Reproduced:
    """Run what is not stored yet; write results, tables and the list of segments."""
    store = Store(output / experiment.name)
    if fresh and store.folder.is_dir():
        shutil.rmtree(store.folder)
    tasks = experiment.tasks(found, settings)
    missing = missing_inputs(experiment, found)
    records: Records = {}
    for task in tasks:
        stored = store.load(task.key, task.as_dict())
        if stored is not None:
            records[task.key] = stored
    on_progress(experiment.name, len(records), len(tasks))
    todo = [task for task in tasks if task.key not in records]
    for task, result in _results(todo, pool):
        body = {"left_out": result.left_out, "problem": result.problem, "rows": result.rows}
        store.save(task.key, task.as_dict(), body)
        store.save_times(task.key, result.times_ms)
        records[task.key] = {"task": task.as_dict(), **body}
        on_progress(experiment.name, len(records), len(tasks))
    ordered = {task.key: records[task.key] for task in tasks}
    problems = (f"{key}: {one['problem']}" for key, one in ordered.items() if one["problem"])
    missing = (*missing, *problems)
    findings = experiment.findings(ordered) if ordered else None
    _write_experiment(store.folder, experiment, settings, missing, ordered, findings)
    return Reproduced(experiment, store.folder, missing, findings)


def missing_inputs(experiment: Experiment, found: Found) -> tuple[str, ...]:
    """Recordings that are not there, and files that recordings lack."""
    missing = [f"{name}: no such recording" for name in found.missing(experiment.recordings)]
    for name, path in found.present(experiment.recordings).items():
        missing += [
            f"{name}: no {file}" for file in experiment.files if not (path / file).is_file()
        ]
    return tuple(missing)


def run_task(task: Task) -> TaskResult:
    """Whatever kind it is; runs in a worker. A recording that cannot be used costs its task."""
    try:
        if isinstance(task, InitTask):
            return run_initialization(task)
        if isinstance(task, CalibrationTask):
            return run_calibration(task)
        if isinstance(task, VisualTask):
            return run_visual(task)
        if isinstance(task, RobustnessTask):
            return run_robustness(task)
        return run_covariance(task)
    except Maci2Error as error:
        return TaskResult([], problem=_without_paths(str(error), task))


def _without_paths(text: str, task: Task) -> str:
    """Results are the same wherever the recordings lie: by name, not by path."""
    paths = dict(task.paths) if isinstance(task, CovarianceTask) else {task.recording: task.path}
    for name, path in paths.items():
        text = text.replace(str(path), name)
    return text


def _results(tasks: list[Task], pool: Pool) -> Iterator[tuple[Task, TaskResult]]:
    """Each task's result; one that kills its worker is done again window by window."""
    for task, result in run_all(run_task, tasks, pool):
        if not isinstance(result, WorkerDied):
            yield task, result
        elif isinstance(task, InitTask):
            yield task, _window_by_window(task, pool)
        else:
            yield task, TaskResult([], problem=result.reason)


def _window_by_window(task: InitTask, pool: Pool) -> TaskResult:
    """So that a window which kills its worker costs one row."""
    rows: dict[int, dict[str, Any]] = {}
    singles = split(task)
    for single, result in run_all(
        run_task, singles, Pool(max(pool.jobs, 2), pool.backend, pool.scheduler)
    ):
        assert isinstance(single, InitTask)
        assert single.only is not None
        row = died(single, result.reason) if isinstance(result, WorkerDied) else result.rows[0]
        rows[single.only] = row
    return TaskResult([rows[index] for index in sorted(rows)])


def _write_experiment(
    folder: Path,
    experiment: Experiment,
    settings: Settings,
    missing: tuple[str, ...],
    records: Records,
    findings: Findings | None,
) -> None:
    """experiment.json: what was run, on what, and what came out."""
    segments: dict[str, Any] = {}
    for record in records.values():
        task = record["task"]
        if "stride_s" in task:
            keyframes = task["method"]["keyframes"]
            name = f"{task['recording']}, every {task['stride_s']:g} s, {keyframes} keyframes"
            segments[name] = [row["start_ns"] for row in record["rows"]]
    record = {
        "format": FORMAT,
        "version": __version__,
        "name": experiment.name,
        "title": experiment.title,
        "settings": asdict(settings),
        "missing": list(missing),
        "results": list(records),
        "segments_start_ns": segments,
        "tables": [table.as_dict() for table in findings.tables] if findings else [],
        "claims": [asdict(claim) for claim in findings.claims] if findings else [],
    }
    write_atomically(folder / "experiment.json", to_text(record))
