"""The terminal: safe standard streams, tables, progress, reports, and the viewer of `--rerun`."""

import errno
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from maci2.errors import OptionError, OutputError
from maci2.text_tables import FILE_WIDTH, rich_table

if TYPE_CHECKING:
    from rich.progress import Progress

    from maci2.estimator import Verdict
    from maci2.report.rerun_viewer import Viewer

LIVE = "live"
"""Value of `--rerun` that opens a window."""

UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF)
"""Errors of a stream that cannot be written, except a closed pipe."""


@contextmanager
def usable_streams() -> Iterator[None]:
    """Make printing safe: a stream that cannot be written gives an error, not a traceback."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.filename is not None or error.errno not in (*UNWRITABLE, errno.EPIPE):
            raise
        _drop_output()
        if error.errno == errno.EPIPE:
            sys.exit(1)
        raise OutputError(
            f"the standard output cannot be written ({os.strerror(error.errno).lower()}), so the "
            "result was not printed. Check where the output goes and how much space is left."
        ) from None


def _drop_output() -> None:
    """Discard what is still buffered, which would fail again when the interpreter exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


class _Shown:
    """Switch of progress bars, and the bar that is visible at the moment."""

    wanted = True
    live: "Progress | None" = None


def show_progress(wanted: bool) -> None:
    """Turn progress bars on or off; they never appear in a pipe or a log."""
    _Shown.wanted = wanted


@contextmanager
def progress_bar(first: str = "starting") -> Iterator[Callable[[str, int, int], None]]:
    """Progress bar on stderr; yields a function to update its label, its count and its total.

    The bar appears at once with the label `first`, unless stderr is not a terminal or `--quiet` was
    given. A total of 0 means that it is not known.
    """
    if not (_Shown.wanted and sys.stderr.isatty()):
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), *Progress.get_default_columns(), TimeElapsedColumn())
    progress = Progress(
        *columns,
        console=Console(stderr=True),
        transient=True,
        # Lines on the same terminal go above the bar; into a pipe they go as they are.
        redirect_stdout=sys.stdout.isatty(),
        redirect_stderr=True,
    )
    task = progress.add_task(first, total=None)

    def on_progress(name: str, done: int = 0, total: int = 0) -> None:
        progress.update(task, description=name, completed=done, total=total or None)

    outer, _Shown.live = _Shown.live, progress
    if outer is not None:
        outer.stop()
    progress.start()
    try:
        yield on_progress
    finally:
        progress.stop()
        _Shown.live = outer


@contextmanager
def working_on(command: str) -> Iterator[None]:
    """Show a spinner while a command runs, until the command shows a bar of its own."""
    with progress_bar(command):
        yield


def print_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], width: int = FILE_WIDTH
) -> None:
    """Print a table with text in the first column and numbers in the others; `width` characters
    wide if the output is not a terminal."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console.width = width
    console.print(rich_table(title, columns, rows))


def print_summary(text: str, verdict: "Verdict") -> None:
    """Print the summary of a result with its status in colour."""
    from rich.console import Console
    from rich.text import Text

    color = {"ok": "green", "weak": "yellow", "failed": "red"}[verdict.status]
    summary = Text(text)
    summary.highlight_regex(rf"(?<=verdict: ){verdict.status}", f"bold {color}")
    console = Console()
    console.print(summary, soft_wrap=True)


def write_report(path: Path, page: str) -> None:
    """Write an HTML report and print its path."""
    from maci2.files import write_atomically

    write_atomically(path, page)
    typer.echo(f"wrote {path}")


def command_line() -> str:
    """The command as the user typed it, for reports."""
    return shlex.join(["maci2", *sys.argv[1:]])


def require_viewer(target: str) -> None:
    """Raise, before any work is done, if the result could not be shown."""
    if not target:
        return
    if target != LIVE and not target.endswith(".rrd"):
        raise OptionError(f"--rerun is '{target}'; give a file that ends in .rrd, or live.")
    if find_spec("rerun") is None:
        raise OptionError("--rerun needs Rerun: pip install 'maci2[viewer]'.")


@contextmanager
def viewer(target: str, title: str, say: Callable[[str], None] = typer.echo) -> "Iterator[Viewer]":
    """Open a viewer; at the end, print the file that was written."""
    from maci2.report.rerun_viewer import Viewer

    yield Viewer(target, title)
    if target != LIVE:
        say(f"wrote {target}")
