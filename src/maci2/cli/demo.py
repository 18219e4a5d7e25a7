"""`maci2 demo`."""

from pathlib import Path
from typing import Annotated

import typer

from maci2.cli import options as opt
from maci2.cli.json_output import write_json
from maci2.cli.printing import command_line, print_summary, print_table, progress_bar


def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="folder for the report")] = Path(
        "maci2-demo"
    ),
    seed: opt.Seed = 0,
    json: opt.Json = None,
) -> None:
    """Run on rendered images and compare with the true values.

    Renders stereo images of a synthetic room, initializes and calibrates on them, and compares the
    stated uncertainties with the actual errors.
    """
    from rich.console import Console

    console = Console()
    with progress_bar() as on_progress:
        on_progress("loading", 0, 0)
        from maci2.demo import demo_record, run_demo

        result = run_demo(output, seed, lambda step: on_progress(step, 0, 0), command_line())
    console.rule("initialization")
    print_summary(result.initialization.summary(), result.initialization.verdict)
    console.rule("calibration")
    print_summary(result.calibration.summary(), result.calibration.verdict)
    console.rule("are the uncertainties consistent?")
    print_table(
        f"{len(result.samples)} simulated windows",
        ("state", "NEES per degree of freedom, 1 is ideal"),
        [(key.replace("_", " "), f"{value:.2f}") for key, value in result.nees.items()],
    )
    typer.echo(f"wrote {output / 'report.html'}")
    write_json(json, demo_record(result))
