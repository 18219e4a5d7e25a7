"""`maci2 demo`."""

from pathlib import Path
from typing import Annotated

import typer

from maci2.cli import options as opt


def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="folder for the report")] = Path(
        "maci2-demo"
    ),
    seed: opt.Seed = 0,
) -> None:
    """Simulate a recording, estimate everything, print estimate, 1-sigma and true error."""
    typer.echo(f"{output} {seed}")
