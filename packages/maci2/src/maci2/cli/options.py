"""Options that several commands share."""

from pathlib import Path
from typing import Annotated, Any

import typer

from maci2.cli.command import Use
from maci2.pipeline.options import option

Sequence = Annotated[
    Path,
    typer.Argument(
        metavar="SEQ",
        help="recording: a folder in EuRoC, TUM-VI or VBR layout, a ROS bag, a table of IMU "
        "samples, or a folder with imu.csv and images named by timestamp",
    ),
    Use.READ,
]
Sequences = Annotated[
    list[Path],
    typer.Argument(
        metavar="SEQ", help="recordings: folders in EuRoC, TUM-VI or VBR layout, or ROS bags"
    ),
    Use.READ,
]
Interval = Annotated[float, typer.Option(help="time between keyframes [s]")]
Report = Annotated[Path | None, typer.Option(help="HTML report to write"), Use.FILE]
Rerun = Annotated[str, typer.Option(help="show the result in Rerun: FILE.rrd to write, or live")]
Json = Annotated[
    Path | None,
    typer.Option("--json", help="write the result as JSON to this file; - prints it"),
    Use.FILE,
]


def output(text: str, default: Any = None, use: Use = Use.OUTPUT) -> Any:
    """The option `-o` of a command."""
    return option(default, text, "-o", "--output", use=use)
