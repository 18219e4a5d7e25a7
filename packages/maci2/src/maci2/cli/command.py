"""Commands and their terminal: what is done before a command starts, its option `--json`, safe
standard streams, tables, progress, reports, and the viewer of `--rerun`.

A command is a function of options; its facts (uses of paths, kernels) are attributes of its options
and arguments of the decorator `command`.
"""

import errno
import inspect
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import partial, wraps
from importlib.util import find_spec
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO, get_args, get_type_hints

import typer

from maci2.errors import DatasetError, OptionError, OutputError
from maci2.pipeline.options import Option, flag_of
from maci2.text_tables import FILE_WIDTH, rich_table

if TYPE_CHECKING:
    from rich.progress import Progress

    from maci2.estimator import Verdict
    from maci2.report.rerun_viewer import Viewer

STDOUT = "-"
"""Value of `--json` for JSON alone on the standard output."""


class Use(Enum):
    """Use of the paths of an option, as metadata of its type."""

    READ = "read"
    """Must exist."""

    FILE = "file"
    """Is written at the end of the command, and must be writable at its start."""

    FOLDER = "folder"
    """Files are written into it at the end of the command."""

    OUTPUT = "output"
    """Is written; the command itself checks it."""


def command(
    *kernels: str,
    interpreted: bool = False,
    default_vision: str = "images",
    own_json: bool = False,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a function as a command; each field of its groups of options is an option.

    `kernels` are the jobs that are compiled in parallel before it starts; with `interpreted` its
    result is ready sooner with interpreted kernels than after compiling. `default_vision` is its
    source of camera motion where none is given. With `own_json` it writes `--json` itself.
    """

    def decorate(run: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(run, include_extras=True)
        groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
        parameters: list[inspect.Parameter] = []
        for name, own in inspect.signature(run).parameters.items():
            if name in groups:
                types = get_type_hints(groups[name], include_extras=True)
                parameters += [parameter(one.name, one, types) for one in fields(groups[name])]
            else:
                parameters.append(parameter(name, own.default, hints))
        uses = {
            one.name: use
            for one in parameters
            for use in get_args(one.annotation)
            if isinstance(use, Use)
        }

        def jobs(vision: str) -> tuple[str, ...]:
            """Jobs to compile; odometry only if camera motion comes from images."""
            from_images = (vision or default_vision).partition(":")[0] == "images"
            return tuple(job for job in kernels if job != "odometry" or from_images)

        @wraps(run)
        def call(**values: Any) -> None:
            check_paths(values, uses)
            for name, group in groups.items():
                values[name] = group(**{one.name: values.pop(one.name) for one in fields(group)})
            vision = str(values.get("vision") or getattr(values.get("options"), "vision", ""))
            prepare_kernels(kernels if interpreted else jobs(vision), interpreted)
            with text_on_stderr(str(values.get("json")) == STDOUT and not own_json):
                run(**values)

        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {one.name: one.annotation for one in parameters}
        call.jobs = jobs  # type: ignore[attr-defined]
        return call

    return decorate


def parameter(name: str, default: Any, types: dict[str, Any]) -> inspect.Parameter:
    """A parameter as typer takes it; its default may be a field made by `option`."""
    annotation = types[name]
    if isinstance(default, Field):
        about: Option = default.metadata["option"]
        typed = typer.Option(*(about.flags or (flag_of(name),)), help=about.help)
        annotation = Annotated[about.typed or annotation, typed, about.use]
        default = default.default if about.typed_default is None else about.typed_default
    if default is MISSING:
        default = inspect.Parameter.empty
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def check_paths(values: dict[str, Any], uses: dict[str, Use]) -> None:
    """Raise unless inputs exist, outputs can be written, and no two outputs are one file."""
    outputs: dict[Path, str] = {}
    for name, use in uses.items():
        listed = values[name] if isinstance(values[name], list) else [values[name]]
        for path in listed:
            if path is None or str(path) == STDOUT:
                continue
            if use is Use.READ:
                if not path.exists():
                    raise DatasetError(f"{path}: no such file or folder; check the path.")
                continue
            if use is Use.FILE:
                from maci2.files import require_writable

                require_writable(path)
            if use is Use.FOLDER:
                taken = next((one for one in (path, *path.parents) if one.exists()), None)
                if taken is not None and not taken.is_dir():
                    raise OutputError(
                        f"{taken}: is a file, needed a folder to write into. Choose another name."
                    )
            other = outputs.setdefault(path.resolve(), name)
            if other != name:
                raise OptionError(
                    f"--{name} and --{other} are both {path}: one would replace the other. Give "
                    "two names."
                )


def prepare_kernels(jobs: tuple[str, ...], interpreted: bool) -> None:
    """Decide how a command runs its kernels, before any is imported."""
    if not jobs:
        return
    from maci2.jit.kernels import are_decided, before_compiling, use_kernels

    if are_decided():
        return
    if interpreted:
        use_kernels("auto", jobs)
    else:
        before_compiling(partial(fill_visibly, jobs))


def fill_visibly(jobs: tuple[str, ...], processes: int = 0) -> list[str]:
    """Fill the cache with a progress bar; returns the jobs that failed."""
    from maci2.jit.fill import fill

    with progress_bar() as on_progress:
        return fill(jobs, processes, on_progress)


class _Output:
    """Standard output of the process while text for people is redirected to stderr."""

    stream: TextIO | None = None


@contextmanager
def text_on_stderr(wanted: bool) -> Iterator[None]:
    """Send what is printed to the standard error, so that JSON is alone on the standard output."""
    if not wanted:
        yield
        return
    _Output.stream = sys.stdout
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _Output.stream = None


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
