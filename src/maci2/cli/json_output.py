"""The option `--json` of all commands: a file, or `-` for JSON alone on the standard output."""

import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import wraps
from pathlib import Path
from typing import Any, TextIO

STDOUT = "-"


class _Output:
    """Standard output of the process while text for people is redirected to stderr."""

    stream: TextIO | None = None


def json_on_stdout(command: Callable[..., None]) -> Callable[..., None]:
    """Wrap a command so that with `--json -` its text for people goes to the standard error."""

    @wraps(command)
    def call(**values: Any) -> None:
        if str(values.get("json")) != STDOUT:
            command(**values)
            return
        _Output.stream = sys.stdout
        try:
            with redirect_stdout(sys.stderr):
                command(**values)
        finally:
            _Output.stream = None

    return call


def write_json(path: Path | None, record: dict[str, Any]) -> None:
    """Write a result atomically; without a path, do nothing."""
    if path is None:
        return
    from maci2 import files

    if str(path) == STDOUT:
        stream = _Output.stream or sys.stdout
        stream.write(files.json_text(record))
        stream.flush()
        return
    files.write_json(path, record)
