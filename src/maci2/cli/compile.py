"""`maci2 compile`, and the compilation of kernels before other commands."""

from collections.abc import Callable
from functools import partial, wraps
from typing import Annotated, Any

import typer

from maci2.cli import options as opt
from maci2.cli.json_output import write_json
from maci2.cli.printing import progress_bar

INSTANT = {"init": ("initialize", "odometry")}
"""Commands whose result is ready sooner with interpreted kernels than after compiling."""

NEEDS = {
    "calibrate": ("calibrate", "odometry"),
    "check": ("initialize", "odometry", "chain"),
    "demo": ("initialize", "calibrate", "odometry", "render"),
    "evaluate": ("initialize", "odometry"),
    "freeze": ("initialize", "calibrate", "chain", "render", "odometry"),
    "live": ("initialize", "odometry"),
    "reproduce": ("initialize", "calibrate", "baselines", "odometry", "chain"),
    "simulate": ("render",),
    "track": ("initialize", "odometry", "chain"),
    "train-vision": ("odometry", "render"),
    "truth": ("chain",),
    "vo": ("odometry",),
    "vo-report": ("odometry",),
    "watch": ("initialize", "chain"),
}
"""Jobs that a command compiles in parallel before it starts; others compile on first use."""


def with_kernels(command: Callable[..., None]) -> Callable[..., None]:
    """Wrap a command so that it first decides how to run its kernels."""

    @wraps(command)
    def call(**values: Any) -> None:
        options = values.get("options")
        vision = values.get("vision", "") if options is None else options.vision
        prepare_kernels(command.__name__.replace("_", "-"), vision)
        command(**values)

    return call


def jobs_of(command: str, vision: str) -> tuple[str, ...]:
    """Jobs that a command compiles; odometry only if camera motion comes from images."""
    source = vision.partition(":")[0] or ("none" if command == "check" else "images")
    return tuple(job for job in NEEDS[command] if job != "odometry" or source == "images")


def prepare_kernels(command: str, vision: str) -> None:
    """Decide how a command runs its kernels, before any is imported."""
    from maci2.compile import before_compiling, use_kernels
    from maci2.compile.mode import are_decided

    if are_decided():
        return
    if command in INSTANT:
        use_kernels("auto", INSTANT[command])
    elif command in NEEDS:
        before_compiling(partial(fill_visibly, jobs_of(command, vision)))


def fill_visibly(jobs: tuple[str, ...], processes: int = 0) -> list[str]:
    """Fill the cache with a progress bar; returns the jobs that failed."""
    from maci2.compile import fill

    with progress_bar() as on_progress:
        return fill(jobs, processes, on_progress)


def compile(
    jobs: Annotated[int, typer.Option(help="processes at once; 0: one per core")] = 0,
    json: opt.Json = None,
) -> None:
    """Fill the compile cache ahead of time.

    For container images, continuous integration and robots; other commands compile what they need
    by themselves. Exit code 1 if something is missing.
    """

    from maci2.compile import cache_folder
    from maci2.compile.cache import kernels_in
    from maci2.compile.fill import JOBS
    from maci2.errors import OptionError

    folder = cache_folder()
    if folder is None:
        raise OptionError(
            "no folder for compiled kernels: neither the package's folder nor the user's cache "
            "can be written; set NUMBA_CACHE_DIR to a folder that can."
        )
    names = tuple(JOBS)
    failed = fill_visibly(names, jobs)
    count = kernels_in(folder)
    typer.echo(f"{count} kernels compiled in {folder}")
    write_json(json, {"kernels": count, "folder": str(folder), "failed": failed})
    if failed:
        typer.echo(f"error: not compiled: {', '.join(failed)}", err=True)
        raise typer.Exit(1)
