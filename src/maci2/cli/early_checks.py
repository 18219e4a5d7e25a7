"""Checks of a command line before anything heavy is loaded."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from maci2.cli.json_output import STDOUT
from maci2.errors import DatasetError, OptionError, OutputError, require_in_range

INPUTS = ("sequence", "sequences", "folders", "source", "along")
"""Parameters with paths that a command reads."""

OUTPUTS = ("json", "report")
"""Parameters with files that a command writes at its end."""

FOLDERS = {
    "track": "output",
    "watch": "output",
    "evaluate": "output",
    "reproduce": "output",
    "noise": "tools",
}
"""Command -> its parameter that names a folder to write into when all is done."""


def with_early_checks(command: Callable[..., None]) -> Callable[..., None]:
    """Wrap a command so that it starts only if its inputs exist and its outputs can be written."""

    @wraps(command)
    def call(**values: Any) -> None:
        for name in INPUTS:
            for path in _paths(values.get(name)):
                if not path.exists():
                    raise DatasetError(f"{path}: no such file or folder; check the path.")
        for name in OUTPUTS:
            for path in _paths(values.get(name)):
                if str(path) != STDOUT:
                    _require_writable(path)
        for path in _paths(values.get(FOLDERS.get(command.__name__, ""))):
            _require_folder(path)
        _require_different(values)
        command(**values)

    return call


def _paths(value: object) -> list[Path]:
    values = value if isinstance(value, list) else [value]
    return [path for path in values if isinstance(path, Path)]


def _require_folder(path: Path) -> None:
    """Raise if no folder can be made of this name."""
    taken = next((one for one in (path, *path.parents) if one.exists()), None)
    if taken is not None and not taken.is_dir():
        raise OutputError(
            f"{taken}: is a file, needed a folder to write into. Choose another name."
        )


def _require_different(values: dict[str, Any]) -> None:
    """Raise where two results would be written to one file, of which the last would be left."""
    seen: dict[Path, str] = {}
    for name in (*OUTPUTS, "output"):
        for path in _paths(values.get(name)):
            if str(path) == STDOUT:
                continue
            other = seen.setdefault(path.resolve(), name)
            if other != name:
                raise OptionError(
                    f"--{name} and --{other} are both {path}: one would replace the other. Give "
                    "two names."
                )


def _require_writable(path: Path) -> None:
    from maci2.files import require_writable

    require_writable(path)


def require_training(output: Path, threads: int, seed: int, *epochs: int | None) -> None:
    """Raise for invalid options of a training, which would otherwise fail hours later."""
    require_in_range("--threads", threads, 1, 1024)
    require_in_range("--seed", seed, 0, 2**32 - 1)
    for number in epochs:
        if number is not None:
            require_in_range("--epochs, --held-out-epochs", number, 1, 1e6)
    _require_writable(output)
