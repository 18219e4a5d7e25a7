"""`maci2 demo`."""

from pathlib import Path
from typing import Annotated

import typer

from maci2.cli import options as opt
from maci2.cli.calibrate import print_calibration
from maci2.cli.init import print_result
from maci2.cli.printing import print_table


def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="folder for the report")] = Path(
        "maci2-demo"
    ),
    seed: opt.Seed = 0,
) -> None:
    """Draw stereo images, estimate everything, print estimate, 1-sigma and true error."""
    from rich.console import Console

    console = Console()
    with console.status("loading (the first run compiles for a minute or two)") as status:
        from maci2.demo import run_demo

        result = run_demo(output, seed, lambda step: status.update(step))
    console.rule("initialization")
    print_result(result.calibration_inputs, result.initialized, result.errors)
    console.rule("calibration")
    print_calibration(result.calibration_inputs, result.calibration)
    console.rule("are the uncertainties true?")
    print_table(
        f"{len(result.samples)} simulated windows",
        ("state", "NEES per degree of freedom, 1 is right"),
        [(key.replace("_", " "), f"{value:.2f}") for key, value in result.nees.items()],
    )
    typer.echo(f"report: {output / 'report.html'}")
