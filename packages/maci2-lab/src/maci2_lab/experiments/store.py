"""Results on disk: one file per task, written atomically, so that a run can be resumed; rows of
windows in these files; and the table of their wall times."""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from maci2 import __version__
from maci2.errors import DatasetError
from maci2.estimator import Status
from maci2.files import read_json, write_atomically
from maci2.metrics.init_errors import InitErrors
from maci2_lab.baselines.segment import StageTime
from maci2_lab.evaluation.protocol import Row, StatedUncertainty
from maci2_lab.experiments.table import Cell, Line, Record, Table

DIGITS = 9
"""Significant digits in result files."""


def rounded(value: Any) -> Any:
    """Value with all numbers in it rounded to `DIGITS` digits; None (null in JSON) for numbers that
    are not finite."""
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [rounded(one) for one in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if np.isfinite(value) else None
    return value


def row_record(row: Row) -> Record:
    """One row for a result file; times are kept apart."""
    errors, audited = row.errors, row.audited
    record = {
        "index": row.index,
        "start_ns": row.start_ns,
        "end_ns": row.end_ns,
        "accepted": row.accepted,
        "unsure": row.unsure,
        "reason": "; ".join(row.reasons),
        "errors": None if errors is None else errors.as_dict(),
        "nees": {} if errors is None else errors.nees,
    }
    optional = {
        "excited": row.excited,
        "position_w": row.position_w,
        "audited": audited and {"errors": audited.as_dict(), "nees": audited.nees},
        "posterior": row.stated and asdict(row.stated),
        "timed_out": row.timed_out or None,
    }
    known = {key: value for key, value in optional.items() if value is not None}
    return {key: rounded(value) for key, value in (record | known).items()}


def row_from_record(record: Record) -> Row:
    """Row read from a result file."""
    status: Status = "ok" if record["accepted"] else "weak" if record["unsure"] else "failed"
    position, posterior, audited = (
        record.get(name) for name in ("position_w", "posterior", "audited")
    )
    return Row(
        index=record["index"],
        start_ns=record["start_ns"],
        end_ns=record["end_ns"],
        status=status,
        reasons=(record["reason"],) if record["reason"] else (),
        errors=_errors(record["errors"], record["nees"]),
        timed_out=record.get("timed_out", False),
        position_w=None if position is None else tuple(position),
        excited=record.get("excited"),
        stated=None if posterior is None else StatedUncertainty(**_with_tuples(posterior)),
        audited=_errors(audited["errors"], audited["nees"]) if audited else None,
    )


def _errors(errors: Record | None, nees: Record) -> InitErrors | None:
    return None if errors is None else InitErrors(**errors, nees=nees)


def _with_tuples(record: Record) -> Record:
    first, second = record["gravity_cov_deg2"]
    error = tuple(record["gravity_error_deg"])
    cov = tuple(first), tuple(second)
    return record | {"gravity_error_deg": error, "gravity_cov_deg2": cov}


FORMAT = 2
"""Version of the format of result files; other versions cannot be read."""

RESULTS, TIMES = "results", "times"

CHECKSUM = "sha256"
"""Key of the digest of a record, which reveals values changed by a disk or by hand."""


@dataclass(frozen=True)
class WindowTimes:
    """Wall times of the windows of one task."""

    total_ms: list[float] = field(default_factory=list)
    """Wall time of each window [ms]."""

    stages_ms: dict[str, list[float]] = field(default_factory=dict)
    """Times of each stage, one per window that went through it."""

    def add_stages(self, stages: tuple[StageTime, ...]) -> None:
        """Add the stages of one window."""
        for stage in stages:
            self.stages_ms.setdefault(stage.name, []).append(stage.ms)


@dataclass(frozen=True)
class Store:
    """Folder of one experiment."""

    folder: Path

    def load(self, key: str, task: Record) -> Record | None:
        """Stored result of exactly this task; None if missing or damaged."""
        path = self.folder / RESULTS / f"{key}.json"
        if not path.is_file():
            return None
        record = _read_whole(path)
        if record is None:
            return None
        _require_format(record, path)
        if record["version"] != __version__ or record["task"] != task:
            what = (
                f"version {record['version']}, this is {__version__}"
                if record["version"] != __version__
                else f"other options: {_difference(record['task'], task)}"
            )
            raise DatasetError(
                f"{path}: holds a result of {what}. Give another -o, or --fresh to run it again."
            )
        return record

    def save(self, key: str, task: Record, body: Record) -> None:
        """Write the result of a task atomically."""
        write_result(self.folder / RESULTS / f"{key}.json", {"task": task, **body})

    def save_times(self, key: str, times: WindowTimes) -> None:
        """Write wall times to files of their own, since they differ from run to run."""
        record = {
            "times_ms": np.round(times.total_ms, 3).tolist(),
            "stages_ms": {k: np.round(v, 3).tolist() for k, v in times.stages_ms.items()},
        }
        write_result(self.folder / TIMES / f"{key}.json", record)

    def load_times(self, key: str) -> WindowTimes:
        """Stored wall times of a task; empty if missing or damaged."""
        record = _read_whole(self.folder / TIMES / f"{key}.json")
        if record is None or record["format"] != FORMAT:
            return WindowTimes()
        return WindowTimes(record["times_ms"], record["stages_ms"])


def write_result(path: Path, body: Record) -> None:
    """Write a record with format, version and checksum, atomically."""
    record = {"format": FORMAT, "version": __version__, **body}
    text = json.dumps({**record, CHECKSUM: _checksum(record)}, indent=1, allow_nan=False)
    write_atomically(path, text + "\n")


def read_result(path: Path) -> Record:
    """Read a result or experiment file; the error describes what is wrong with it."""
    record = _read_whole(path)
    if record is None:
        raise DatasetError(
            f"{path}: is missing, damaged or was changed; run `maci2 reproduce` with the same -o "
            "again: it redoes what is broken."
        )
    _require_format(record, path)
    return record


def _read_whole(path: Path) -> Record | None:
    """Record as written; None if missing or changed; of another format, its version only."""
    try:
        record = read_json(path, "a result of `maci2 reproduce`")
    except DatasetError:
        return None
    number = record.get("format")
    if isinstance(number, int) and number != FORMAT:
        return {"format": number}
    stated = record.pop(CHECKSUM, None)
    return record if stated == _checksum(record) else None


def _require_format(record: Record, path: Path) -> None:
    if record["format"] != FORMAT:
        raise DatasetError(
            f"{path}: result format {record['format']}, needed {FORMAT}; it was written by another "
            "version of maci2: run `maci2 reproduce --fresh` with this one."
        )


def _checksum(record: Record) -> str:
    return hashlib.sha256(json.dumps(record).encode()).hexdigest()


def _difference(stored: Record, wanted: Record) -> str:
    """First option that differs, as `seed 1, now 0`."""
    for key in sorted({*stored, *wanted}):
        if stored.get(key) != wanted.get(key):
            return f"{key} {stored.get(key)}, now {wanted.get(key)}"
    return "none that is known"


def time_table(store: Store, records: dict[str, Record]) -> Table | None:
    """Median over all windows of each method, over all recordings and inputs; None without times.

    Stages that a method does not have are missing; what is no stage is in the whole only.
    """
    totals: dict[str, list[float]] = {}
    stages: dict[str, dict[str, list[float]]] = {}
    for key, record in records.items():
        method = record["task"].get("method")
        if not isinstance(method, dict):
            continue
        name = f"{method['name']}, {str(method['vision']).partition(':')[0]}"
        times = store.load_times(key)
        totals.setdefault(name, []).extend(times.total_ms)
        for stage, values in times.stages_ms.items():
            stages.setdefault(name, {}).setdefault(stage, []).extend(values)
    if not any(totals.values()):
        return None
    columns = tuple(dict.fromkeys(stage for one in stages.values() for stage in one))
    lines = tuple(
        Line(name, "", (_cell(values), *(_cell(stages.get(name, {}).get(c, [])) for c in columns)))
        for name, values in totals.items()
    )
    return Table(
        "Median wall time of a window [ms]",
        ("all", *columns),
        lines,
        "On this machine as it was loaded; tracks and the odometry of images are made once for all "
        "methods and are not in it, or in the first method that asked.",
    )


def _cell(values: list[float]) -> Cell:
    return Cell(median(values) if values else None, 1)
