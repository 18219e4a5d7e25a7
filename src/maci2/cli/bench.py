"""`maci2 bench`."""

from typing import Annotated

import typer

from maci2.cli import options as opt


def bench(
    repeats: Annotated[int, typer.Option(help="runs of each; the median counts")] = 50,
    json: opt.Json = None,
) -> None:
    """Speed against GTSAM on the same problem, in one run, as ratios."""
    typer.echo(f"{repeats} {json}")
