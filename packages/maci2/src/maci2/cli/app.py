"""The command line. Commands are thin: parse, call one library function, print its result.

Nothing heavy is imported here: `maci2 --help` answers before numba would have loaded.
"""

import sys
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from typing import Any

import typer

from maci2 import __version__
from maci2.cli.command import progress_bar, show_progress, usable_streams
from maci2.cli.estimate import calibrate, init, track, vo, watch
from maci2.cli.examine import check, noise, truth
from maci2.cli.live import live
from maci2.cli.setup import compile, convert, model
from maci2.cli.simulate import demo, simulate
from maci2.errors import Maci2Error, OptionError

COMMANDS = (
    demo, check, simulate, vo, init, live, track, watch, calibrate, convert, truth, noise, compile,
    model,
)  # fmt: skip

LAB = {
    "evaluate": "Initialize on every window and compare with ground truth.",
    "reproduce": "Run the paper's experiments.",
    "report": "Write one self-contained report from stored results.",
    "freeze": "Store the commands' answers, or compare with stored ones.",
    "bench": "Measure speed relative to other libraries.",
    "imu-report": "Check that covariances of an IMU model are consistent.",
    "vo-report": "Check that covariances of visual odometry are consistent.",
    "train-imu": "Train an IMU model for a sensor.",
    "train-vision": "Train the covariance model of matches on rendered rooms.",
}
"""Commands of maci2-lab, with the first lines of their help."""

HOOK = "maci2.commands"
"""Entry points of this group are further commands."""

INTERRUPTED = 130
"""Exit code of a command that was ended by Ctrl-C, as shells have it."""

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # Rich would take "[s]" and "[default: 0.1]" for its own marks and leave them out.
    rich_markup_mode=None,
    help="Visual-inertial initialization, camera-IMU calibration and odometry: gravity, "
    "velocities, biases, extrinsics and poses, each with a consistent covariance.",
)


@app.callback(invoke_without_command=True)
def version(
    context: typer.Context,
    show: bool = typer.Option(False, "--version", help="Print the version."),
    quiet: bool = typer.Option(False, "--quiet", help="Show no progress."),
) -> None:
    """Handle the options that precede the command."""
    if show:
        typer.echo(__version__)
        raise typer.Exit
    if context.invoked_subcommand is not None:
        show_progress(not quiet)
        context.with_resource(progress_bar(context.invoked_subcommand))


def further_commands() -> Iterator[Callable[..., None]]:
    """Commands of other packages."""
    for point in entry_points(group=HOOK):
        yield point.load()


def not_installed(name: str) -> Callable[[typer.Context], None]:
    """A command in the place of one of maci2-lab."""

    def refuse(context: typer.Context) -> None:
        raise OptionError(
            f"maci2 {name} needs maci2-lab: pip install maci2-lab, or in a clone of the repository "
            "pip install packages/maci2-lab."
        )

    refuse.__doc__ = f"{LAB[name]} Needs `pip install maci2-lab`."
    return refuse


def add_commands(further: tuple[Callable[..., None], ...]) -> None:
    """Register all commands; those of the lab that are not installed explain how to get them."""
    for command in (*COMMANDS, *further):
        app.command()(command)
    anything: dict[str, Any] = {"ignore_unknown_options": True, "allow_extra_args": True}
    installed = {one.__name__.replace("_", "-") for one in further}
    for name in LAB:
        if name not in installed:
            app.command(name, context_settings=anything)(not_installed(name))


add_commands(tuple(further_commands()))


def main() -> None:
    """Run a command; an error that the user can fix is printed, with exit code 2."""
    try:
        with usable_streams():
            app()
    except Maci2Error as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)
    except (KeyboardInterrupt, SystemExit) as ended:
        # Typer turns an interrupt of a command into this code, and prints nothing.
        if isinstance(ended, SystemExit) and ended.code != INTERRUPTED:
            raise
        typer.echo("interrupted", err=True)
        sys.exit(INTERRUPTED)
