"""`maci2 bench`."""

from typing import Annotated

import typer

from maci2.cli import options as opt
from maci2.cli.printing import print_table, write_json


def bench(
    repeats: Annotated[int, typer.Option(help="runs of each; the median counts")] = 50,
    json: opt.Json = None,
) -> None:
    """Speed against GTSAM on the same problem, in one run, as ratios."""
    from maci2.benchmarks.speed import run_bench

    report = run_bench(repeats)
    print_table("speed, one core", report.columns, report.rows())
    for note in report.notes:
        typer.echo(note)
    typer.echo(f"memory growth over 1000 windows: {report.memory_growth_mb:.1f} MB")
    write_json(json, report.as_dict())
