"""Results on disk: one file per task, written atomically, so that a run can be resumed."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from maci2 import __version__
from maci2.baselines.stages import StageTime
from maci2.errors import DatasetError
from maci2.files import write_atomically

FORMAT = 1
"""Number of the format of result files; files of another number cannot be read."""

RESULTS, TIMES = "results", "times"


@dataclass(frozen=True)
class WindowTimes:
    """Wall times of the windows of one task."""

    total_ms: list[float] = field(default_factory=list)
    """Wall time of each window [ms]."""

    stages_ms: dict[str, list[float]] = field(default_factory=dict)
    """Stage -> of each window that went through it."""

    def add_stages(self, stages: tuple[StageTime, ...]) -> None:
        """Add the stages of one window."""
        for stage in stages:
            self.stages_ms.setdefault(stage.name, []).append(stage.ms)


@dataclass(frozen=True)
class Store:
    """One experiment's folder."""

    folder: Path

    def load(self, key: str, task: dict[str, Any]) -> dict[str, Any] | None:
        """The stored result of exactly this task; None where there is none, or a broken one."""
        path = self.folder / RESULTS / f"{key}.json"
        if not path.is_file():
            return None
        try:
            record = read_result(path)
        except DatasetError:
            if _is_whole(path):
                raise
            return None
        if record["version"] != __version__ or record["task"] != task:
            what = (
                f"version {record['version']}, this is {__version__}"
                if record["version"] != __version__
                else f"other options: {_difference(record['task'], task)}"
            )
            raise DatasetError(
                f"{path}: holds a result of {what}. Give another -o, or --fresh to do it anew."
            )
        return record

    def save(self, key: str, task: dict[str, Any], body: dict[str, Any]) -> None:
        """Write the result of a task, whole or not at all."""
        record = {"format": FORMAT, "version": __version__, "task": task, **body}
        write_atomically(self.folder / RESULTS / f"{key}.json", to_text(record))

    def save_times(self, key: str, times: WindowTimes) -> None:
        """Write wall times to files of their own, since they differ from run to run."""
        record = {
            "times_ms": [round(value, 3) for value in times.total_ms],
            "stages_ms": {
                name: [round(value, 3) for value in values]
                for name, values in times.stages_ms.items()
            },
        }
        write_atomically(self.folder / TIMES / f"{key}.json", to_text(record))

    def load_times(self, key: str) -> WindowTimes:
        """The stored wall times of a task; none where they are missing or broken."""
        try:
            record = json.loads((self.folder / TIMES / f"{key}.json").read_text())
            return WindowTimes(list(record["times_ms"]), dict(record.get("stages_ms", {})))
        except (OSError, ValueError, KeyError, TypeError):
            return WindowTimes()


def to_text(record: dict[str, Any]) -> str:
    """A record as JSON, in which NaN has no place."""
    return json.dumps(record, indent=1, allow_nan=False) + "\n"


def read_result(path: Path) -> dict[str, Any]:
    """A result or experiment file; an error says what is wrong with it."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DatasetError(
            f"{path}: not a whole result file ({error}); run `maci2 reproduce` with the same -o "
            "again: it redoes what is broken."
        ) from error
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        number = record.get("format") if isinstance(record, dict) else None
        raise DatasetError(
            f"{path}: result format {number}, needed {FORMAT}; it was written by another version "
            "of maci2: run `maci2 reproduce --fresh` with this one."
        )
    return record


def _is_whole(path: Path) -> bool:
    try:
        json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError):
        return False
    return True


def _difference(stored: dict[str, Any], wanted: dict[str, Any]) -> str:
    """The first option that differs, as `seed 1, now 0`."""
    for key in sorted({*stored, *wanted}):
        if stored.get(key) != wanted.get(key):
            return f"{key} {stored.get(key)}, now {wanted.get(key)}"
    return "none that is known"
