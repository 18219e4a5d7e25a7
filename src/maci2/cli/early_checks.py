"""What is wrong with a command line and can be seen before anything heavy is loaded."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from maci2.errors import DatasetError

INPUTS = ("sequence", "sequences", "folders", "source", "along")
"""Parameters that name what a command reads."""


def with_early_checks(command: Callable[..., None]) -> Callable[..., None]:
    """The command, once what it is to read has been found to exist."""

    @wraps(command)
    def call(**values: Any) -> None:
        for name in INPUTS:
            for path in _paths(values.get(name)):
                if not path.exists():
                    raise DatasetError(f"{path}: no such file or folder; check the path.")
        command(**values)

    return call


def _paths(value: object) -> list[Path]:
    values = value if isinstance(value, list) else [value]
    return [path for path in values if isinstance(path, Path)]
