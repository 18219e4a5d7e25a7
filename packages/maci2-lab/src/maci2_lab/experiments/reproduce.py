"""Running of experiments; stored results are kept and missing ones computed.

A window that runs out of time is tried again when nothing else is running. If it does so again, its
row is marked, the report says so, and the next run tries it once more.
"""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from maci2.errors import Maci2Error
from maci2.pipeline.prepare import Window
from maci2_lab.evaluation.protocol import Row
from maci2_lab.experiments.experiment import Experiment, Records, Settings, Task, TaskResult
from maci2_lab.experiments.initialization import CombinedExperiment, InitExperiment
from maci2_lab.experiments.recordings import Recordings, with_renderings
from maci2_lab.experiments.store import Store, row_record, time_table, write_result
from maci2_lab.experiments.table import Findings
from maci2_lab.parallel import Pool, WorkerDied, run_all

RENDERINGS = "renderings"
"""Folder for rendered recordings, next to the results."""

Progress = Callable[[str, int, int], None]
"""Progress callback: experiment, tasks done, tasks in total."""


@dataclass(frozen=True)
class Reproduced:
    """Result of running one experiment."""

    experiment: Experiment
    """The experiment."""

    folder: Path
    """Folder of the results."""

    missing: tuple[str, ...]
    """Missing parts: recordings and files that are not present, tasks that could not begin, windows
    that ran out of time."""

    findings: Findings | None
    """Findings; None if nothing could be run."""


def reproduce(
    experiment: Experiment,
    recordings: Recordings,
    output: Path,
    settings: Settings,
    pool: Pool,
    fresh: bool = False,
    on_progress: Progress = lambda *_: None,
) -> Reproduced:
    """Run the tasks that are not stored yet; write results, tables and the list of segments."""
    store = Store(output / experiment.name)
    if isinstance(experiment, InitExperiment | CombinedExperiment):
        recordings = with_renderings(
            experiment.renderings, recordings, output / RENDERINGS, pool, on_progress
        )
    if fresh and store.folder.is_dir():
        shutil.rmtree(store.folder)
    tasks = experiment.tasks(recordings, settings)
    records = _run_missing(experiment.name, tasks, store, pool, on_progress)
    for task in tasks:
        _retry_time_outs(task, records, store, pool)
    missing = (*missing_inputs(experiment, recordings), *_shortfalls(records))
    findings = experiment.findings(records) if records else None
    _write_experiment(store.folder, experiment, settings, missing, records, findings)
    # Times are never the same twice: they are shown, not stored among the tables.
    times = time_table(store, records)
    if findings is not None and times is not None:
        findings.tables.append(times)
    return Reproduced(experiment, store.folder, missing, findings)


def _run_missing(
    name: str, tasks: list[Task], store: Store, pool: Pool, on_progress: Progress
) -> Records:
    """Results of all tasks, stored or newly computed."""
    records: Records = {}
    for task in tasks:
        stored = store.load(task.key, task.options)
        if stored is not None:
            records[task.key] = stored
    on_progress(name, len(records), len(tasks))
    todo = [task for task in tasks if task.key not in records]
    for task, result in _results(todo, pool):
        body = {"left_out": result.left_out, "problem": result.problem, "rows": result.rows}
        store.save(task.key, task.options, body)
        store.save_times(task.key, result.times)
        records[task.key] = {"task": task.options, **body}
        on_progress(name, len(records), len(tasks))
    return {task.key: records[task.key] for task in tasks}


def _retry_time_outs(task: Task, records: Records, store: Store, pool: Pool) -> None:
    """Run windows that exceeded their time limit again, alone on the machine."""
    record = records[task.key]
    rows = {row["index"]: row for row in record["rows"] if "index" in row}
    # Where there are workers one of them does it; two jobs make joblib fetch one.
    alone = Pool(min(pool.jobs, 2), pool.backend, pool.scheduler)
    indices = timed_out_windows(record)
    for index in indices:
        for _, result in run_all(run_task, [task.single(index)], alone):
            if not isinstance(result, WorkerDied) and result.rows:
                rows[index] = result.rows[0]
    if indices:
        record["rows"] = [rows[index] for index in sorted(rows)]
        body = {key: record[key] for key in ("left_out", "problem", "rows")}
        store.save(task.key, task.options, body)


def timed_out_windows(record: dict[str, Any]) -> list[int]:
    """Indices of windows of a task that exceeded their time limit."""
    return [row["index"] for row in record["rows"] if row.get("timed_out")]


def _shortfalls(records: Records) -> Iterator[str]:
    """Tasks that could not start, and windows that exceeded their time limit twice."""
    for key, record in records.items():
        if record["problem"]:
            yield f"{key}: {record['problem']}"
        indices = timed_out_windows(record)
        if indices:
            windows = ", ".join(str(index) for index in indices)
            limit_s = record["task"]["limit_s"]
            yield (
                f"{key}: {len(indices)} of {len(record['rows'])} windows ran out of time "
                f"({limit_s:g} s of processor time), also when tried alone: {windows}; they count "
                "as failures here and are tried again by the next run"
            )


def missing_inputs(experiment: Experiment, recordings: Recordings) -> tuple[str, ...]:
    """Descriptions of recordings that are missing or ambiguous, and of missing files."""
    if isinstance(experiment, CombinedExperiment):
        lists = [missing_inputs(part, recordings) for part in experiment.parts]
        return tuple(dict.fromkeys(line for lines in lists for line in lines))
    missing = [f"{name}: no such recording" for name in recordings.missing(experiment.recordings)]
    for name, path in recordings.present(experiment.recordings).items():
        missing += [
            f"{name}: no {file}" for file in experiment.files if not (path / file).is_file()
        ]
        missing += [
            f"{name}: {other} has the same name and is not used"
            for other in recordings.duplicates.get(name, ())
        ]
    return tuple(missing)


def run_task(task: Task) -> TaskResult:
    """Run a task in a worker; an unusable recording fails only its task."""
    try:
        return task.run()
    except Maci2Error as error:
        problem = str(error)
        # Results do not depend on the location of recordings.
        for name, path in task.paths.items():
            problem = problem.replace(str(path), name)
        return TaskResult([], problem=problem)


def _results(tasks: list[Task], pool: Pool) -> Iterator[tuple[Task, TaskResult]]:
    """Result of each task; one that kills its worker is run again window by window."""
    for task, result in run_all(run_task, tasks, pool):
        if not isinstance(result, WorkerDied):
            yield task, result
        elif task.windows is not None:
            yield task, _window_by_window(task, task.windows(), pool)
        else:
            yield task, TaskResult([], problem=result.reason)


def _window_by_window(task: Task, windows: list[Window], pool: Pool) -> TaskResult:
    """Run each window as a task of its own, so that one that kills its worker costs one row."""
    several = Pool(max(pool.jobs, 2), pool.backend, pool.scheduler)
    singles = {window.index: task.single(window.index) for window in windows}
    found = {one.key: result for one, result in run_all(run_task, list(singles.values()), several)}
    rows = []
    for window in windows:
        result = found[singles[window.index].key]
        if isinstance(result, WorkerDied):
            end_ns, reasons = int(window.stamps_ns[-1]), (result.reason,)
            row = Row(window.index, window.start_ns, end_ns, "failed", reasons, None)
            rows.append(row_record(row))
        else:
            rows += result.rows
    return TaskResult(rows)


def _write_experiment(
    folder: Path,
    experiment: Experiment,
    settings: Settings,
    missing: tuple[str, ...],
    records: Records,
    findings: Findings | None,
) -> None:
    """Record for experiment.json: what was run, on what, and the results."""
    segments: dict[str, Any] = {}
    for record in records.values():
        task = record["task"]
        if "stride_s" in task:
            keyframes = task["method"]["keyframes"]
            name = f"{task['recording']}, every {task['stride_s']:g} s, {keyframes} keyframes"
            segments[name] = [row["start_ns"] for row in record["rows"]]
    record = {
        "name": experiment.name,
        "title": experiment.title,
        "settings": asdict(settings),
        "missing": list(missing),
        "results": list(records),
        "segments_start_ns": segments,
        "tables": [table.as_dict() for table in findings.tables] if findings else [],
        "claims": [asdict(claim) for claim in findings.claims] if findings else [],
    }
    write_result(folder / "experiment.json", record)
