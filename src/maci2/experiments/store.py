"""Results on disk: one file for each task, written whole, so that a run goes on where it ended."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maci2 import __version__
from maci2.errors import DatasetError
from maci2.files import write_atomically

FORMAT = 1
"""Number of the format of result files; files of another number cannot be read."""

RESULTS, TIMES = "results", "times"


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

    def save_times(self, key: str, times_ms: list[float]) -> None:
        """Write wall times beside the results, not among them: no two runs take equally long."""
        record = {"times_ms": [round(value, 3) for value in times_ms]}
        write_atomically(self.folder / TIMES / f"{key}.json", to_text(record))

    def median_ms(self, key: str) -> float | None:
        """Median wall time of a task's windows; None where none is stored."""
        path = self.folder / TIMES / f"{key}.json"
        if not path.is_file():
            return None
        times = sorted(json.loads(path.read_text())["times_ms"])
        return float(times[len(times) // 2]) if times else None


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
