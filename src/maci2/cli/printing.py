"""Tables and progress on the terminal."""

import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maci2.text_tables import FILE_WIDTH, number, rich_table, sigmas, vector

if TYPE_CHECKING:
    from maci2.estimation import Verdict

__all__ = [
    "FILE_WIDTH",
    "number",
    "print_summary",
    "print_table",
    "print_verdict",
    "sigmas",
    "vector",
]


def print_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], width: int = FILE_WIDTH
) -> None:
    """Print a table whose first column is text and whose others are numbers; `width` characters
    where the output is not a terminal."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console.width = width
    console.print(rich_table(title, columns, rows))


def print_verdict(verdict: "Verdict") -> None:
    """Print status and reasons, a line each."""
    from maci2.estimation.result_output import verdict_text

    print_summary(verdict_text(verdict), verdict)


def print_summary(text: str, verdict: "Verdict") -> None:
    """Print the summary of a result with its status in colour."""
    from rich.console import Console
    from rich.text import Text

    color = {"ok": "green", "weak": "yellow", "failed": "red"}[verdict.status]
    summary = Text(text)
    summary.highlight_regex(rf"(?<=verdict: ){verdict.status}", f"bold {color}")
    console = Console()
    console.print(summary, soft_wrap=True)


def write_json(path: Path | None, record: dict[str, Any]) -> None:
    """Write a result, whole or not at all; nothing without a path."""
    if path is None:
        return
    from maci2 import files

    files.write_json(path, record)


def command_line() -> str:
    """What the user typed, as a report quotes it."""
    return shlex.join(["maci2", *sys.argv[1:]])
