"""The command line. Commands are thin: parse, call one library function, print its result.

Nothing heavy is imported here: `maci2 --help` answers before numba would have loaded.
"""

import sys

import typer

from maci2 import __version__
from maci2.cli.bench import bench
from maci2.cli.calibrate import calibrate
from maci2.cli.check import check
from maci2.cli.convert import convert
from maci2.cli.demo import demo
from maci2.cli.evaluate import evaluate
from maci2.cli.imu_report import imu_report
from maci2.cli.init import init
from maci2.cli.live import live
from maci2.cli.model import model
from maci2.cli.reproduce import report, reproduce
from maci2.cli.simulate import simulate
from maci2.cli.track import track
from maci2.cli.train_imu import train_imu
from maci2.cli.train_vision import train_vision
from maci2.cli.truth import truth
from maci2.cli.vo import vo, vo_report
from maci2.errors import Maci2Error

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Start a camera and an IMU together: gravity, velocities, biases and extrinsics, each "
    "with an honest covariance.",
)


@app.callback(invoke_without_command=True)
def version(show: bool = typer.Option(False, "--version", help="Print the version.")) -> None:
    """Shared by all commands."""
    if show:
        typer.echo(__version__)
        raise typer.Exit


for command in (
    demo, check, simulate, vo, init, live, track, calibrate, evaluate, reproduce, report, convert,
    truth, bench, imu_report, vo_report, train_imu, train_vision, model,
):  # fmt: skip
    app.command()(command)


def main() -> None:
    """Entry point; what a user can mend is one paragraph and exit code 2."""
    try:
        app()
    except Maci2Error as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        sys.exit(130)
