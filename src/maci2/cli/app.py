"""The command line. Commands are thin: parse, call one library function, print its result.

Nothing heavy is imported here: `maci2 --help` answers before numba would have loaded.
"""

import sys

import typer

from maci2 import __version__
from maci2.cli.bench import bench
from maci2.cli.calibrate import calibrate
from maci2.cli.check import check
from maci2.cli.compile import compile, with_kernels
from maci2.cli.convert import convert
from maci2.cli.demo import demo
from maci2.cli.early_checks import with_early_checks
from maci2.cli.evaluate import evaluate
from maci2.cli.freeze import freeze
from maci2.cli.imu_report import imu_report
from maci2.cli.init import init
from maci2.cli.json_output import json_on_stdout
from maci2.cli.live import live
from maci2.cli.model import model
from maci2.cli.noise import noise
from maci2.cli.option_groups import spread
from maci2.cli.printing import show_progress, working_on
from maci2.cli.reproduce import report, reproduce
from maci2.cli.simulate import simulate
from maci2.cli.standard_streams import usable_streams
from maci2.cli.track import track
from maci2.cli.train_imu import train_imu
from maci2.cli.train_vision import train_vision
from maci2.cli.truth import truth
from maci2.cli.vo import vo, vo_report
from maci2.cli.watch import watch
from maci2.errors import Maci2Error

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
        context.with_resource(working_on(context.invoked_subcommand))


for command in (
    demo, check, simulate, vo, init, live, track, watch, calibrate, evaluate, reproduce, report,
    freeze, convert, truth, noise, bench, compile, imu_report, vo_report, train_imu, train_vision,
    model,
):  # fmt: skip
    checked = with_early_checks(with_kernels(command))
    app.command()(spread(checked if command is live else json_on_stdout(checked)))


INTERRUPTED = 130
"""Exit code of a command that was ended by Ctrl-C, as shells have it."""


def main() -> None:
    """Run a command; an error that the user can fix is printed, with exit code 2."""
    try:
        with usable_streams():
            app()
    except Maci2Error as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        _say_interrupted()
        sys.exit(INTERRUPTED)
    except SystemExit as ended:
        # Typer turns an interrupt of a command into this code, and says nothing.
        if ended.code == INTERRUPTED:
            _say_interrupted()
        raise


def _say_interrupted() -> None:
    typer.echo("interrupted", err=True)
