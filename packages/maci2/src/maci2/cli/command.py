"""Commands: what is done before a command of the command line starts, and its option `--json`.

A command is a function of options; its facts (uses of paths, kernels) are attributes of its options
and arguments of the decorator `command`.
"""

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, TextIO, get_args, get_type_hints

import typer

from maci2.cli.terminal import progress_bar
from maci2.errors import DatasetError, OptionError, OutputError
from maci2.pipeline.options import Option, flag_of

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
