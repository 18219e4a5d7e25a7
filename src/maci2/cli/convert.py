"""`maci2 convert`."""

from pathlib import Path
from typing import Annotated

import typer


def convert(
    source: Annotated[
        Path,
        typer.Argument(
            help="calibration to read: file or folder of Kalibr, OpenVINS, VINS-Fusion or "
            "ORB-SLAM3, or a EuRoC-layout, TUM-VI or VBR recording"
        ),
    ],
    output: Annotated[Path, typer.Argument(help="folder to write; files get their usual names")],
    to: Annotated[str, typer.Option("--to", help="kalibr, openvins, vins-fusion or orbslam3")],
    biases: Annotated[
        Path | None,
        typer.Option(help="JSON of init or calibrate: biases for OpenVINS to start from"),
    ] = None,
) -> None:
    """Write a calibration in another tool's files; each says its convention in a comment."""
    from maci2.datasets import open_rig
    from maci2.rigs import convert_rig

    for path in convert_rig(open_rig(source), output, to, biases):
        typer.echo(f"wrote {path}")
