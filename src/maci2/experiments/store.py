"""Results on disk: one file per task, written atomically, so that a run can be resumed."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from maci2 import __version__
from maci2.baselines.segment import StageTime
from maci2.errors import DatasetError
from maci2.files import read_json, write_atomically

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

    def load(self, key: str, task: dict[str, Any]) -> dict[str, Any] | None:
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

    def save(self, key: str, task: dict[str, Any], body: dict[str, Any]) -> None:
        """Write the result of a task atomically."""
        write_result(self.folder / RESULTS / f"{key}.json", {"task": task, **body})

    def save_times(self, key: str, times: WindowTimes) -> None:
        """Write wall times to files of their own, since they differ from run to run."""
        record = {
            "times_ms": [round(value, 3) for value in times.total_ms],
            "stages_ms": {
                name: [round(value, 3) for value in values]
                for name, values in times.stages_ms.items()
            },
        }
        write_result(self.folder / TIMES / f"{key}.json", record)

    def load_times(self, key: str) -> WindowTimes:
        """Stored wall times of a task; empty if missing or damaged."""
        record = _read_whole(self.folder / TIMES / f"{key}.json")
        if record is None or record["format"] != FORMAT:
            return WindowTimes()
        return WindowTimes(record["times_ms"], record["stages_ms"])


def write_result(path: Path, body: dict[str, Any]) -> None:
    """Write a record with format, version and checksum, atomically."""
    record = {"format": FORMAT, "version": __version__, **body}
    text = json.dumps({**record, CHECKSUM: _checksum(record)}, indent=1, allow_nan=False)
    write_atomically(path, text + "\n")


def read_result(path: Path) -> dict[str, Any]:
    """Read a result or experiment file; the error says what is wrong with it."""
    record = _read_whole(path)
    if record is None:
        raise DatasetError(
            f"{path}: is missing, damaged or was changed; run `maci2 reproduce` with the same -o "
            "again: it redoes what is broken."
        )
    _require_format(record, path)
    return record


def _read_whole(path: Path) -> dict[str, Any] | None:
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


def _require_format(record: dict[str, Any], path: Path) -> None:
    if record["format"] != FORMAT:
        raise DatasetError(
            f"{path}: result format {record['format']}, needed {FORMAT}; it was written by another "
            "version of maci2: run `maci2 reproduce --fresh` with this one."
        )


def _checksum(record: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record).encode()).hexdigest()


def _difference(stored: dict[str, Any], wanted: dict[str, Any]) -> str:
    """First option that differs, as `seed 1, now 0`."""
    for key in sorted({*stored, *wanted}):
        if stored.get(key) != wanted.get(key):
            return f"{key} {stored.get(key)}, now {wanted.get(key)}"
    return "none that is known"
