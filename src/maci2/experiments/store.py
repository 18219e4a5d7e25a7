"""Results on disk: one file for each task, written whole, so that a run goes on where it ended."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maci2 import __version__
from maci2.errors import DatasetError
from maci2.files import write_atomically

FORMAT = 1
"""Of result files; another number means that this version cannot read them."""

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
            found = read_result(path)
        except DatasetError:
            if _is_whole(path):
                raise
            return None
        if found["version"] != __version__ or found["task"] != task:
            what = (
                f"version {found['version']}, this is {__version__}"
                if found["version"] != __version__
                else f"other options: {_difference(found['task'], task)}"
            )
            raise DatasetError(
                f"{path}: holds a result of {what}. Give another -o, or --fresh to do it anew."
            )
        return found

    def save(self, key: str, task: dict[str, Any], body: dict[str, Any]) -> None:
        record = {"format": FORMAT, "version": __version__, "task": task, **body}
        write_atomically(self.folder / RESULTS / f"{key}.json", to_text(record))

    def save_times(self, key: str, times_ms: list[float]) -> None:
        """Beside the results and not among them: no two runs take equally long."""
        record = {"times_ms": [round(value, 3) for value in times_ms]}
        write_atomically(self.folder / TIMES / f"{key}.json", to_text(record))

    def median_ms(self, key: str) -> float | None:
        path = self.folder / TIMES / f"{key}.json"
        if not path.is_file():
            return None
        times = sorted(json.loads(path.read_text())["times_ms"])
        return float(times[len(times) // 2]) if times else None


def to_text(record: dict[str, Any]) -> str:
    return json.dumps(record, indent=1, allow_nan=False) + "\n"


def read_result(path: Path) -> dict[str, Any]:
    """A result or experiment file; an error says what is wrong with it."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DatasetError(
            f"{path}: not a whole result file ({error}); run `maci2 reproduce` with the same -o "
            "again: it redoes what is broken."
        ) from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        number = found.get("format") if isinstance(found, dict) else None
        raise DatasetError(
            f"{path}: result format {number}, needed {FORMAT}; it was written by another version "
            "of maci2: run `maci2 reproduce --fresh` with this one."
        )
    return found


def _is_whole(path: Path) -> bool:
    try:
        json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError):
        return False
    return True


def _difference(found: dict[str, Any], wanted: dict[str, Any]) -> str:
    """The first option that differs, as `seed 1, now 0`."""
    for key in sorted({*found, *wanted}):
        if found.get(key) != wanted.get(key):
            return f"{key} {found.get(key)}, now {wanted.get(key)}"
    return "none that is known"
