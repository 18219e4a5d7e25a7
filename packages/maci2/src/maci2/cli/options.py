"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from maci2.cli.command import Use, option_of
from maci2.pipeline.options import Measuring, Opening, Starting, Windows

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
RigFile = Annotated[Path | None, option_of(Opening, "rig")]
ImuRate = Annotated[float | None, option_of(Opening, "imu_rate")]
ImuNoiseText = Annotated[str, option_of(Opening, "imu_noise")]
Extrinsics = Annotated[str, option_of(Opening, "T_b_c")]
Topics = Annotated[str, option_of(Opening, "topics")]
Imu = Annotated[str, option_of(Measuring, "imu")]
VisionFrame = Annotated[str, option_of(Measuring, "vision_frame")]
VisionStd = Annotated[str | None, option_of(Measuring, "vision_std")]
VisionScaleStd = Annotated[float | None, option_of(Measuring, "vision_scale_std")]
Truth = Annotated[str, option_of(Measuring, "truth")]
Seed = Annotated[int, option_of(Measuring, "seed")]
Keyframes = Annotated[int, option_of(Windows, "keyframes")]
Window = Annotated[float, option_of(Windows, "window_s")]
Start = Annotated[float, option_of(Starting, "start_s")]
Interval = Annotated[float, typer.Option(help="time between keyframes [s]")]
Report = Annotated[Path | None, typer.Option(help="HTML report to write"), Use.FILE]
Rerun = Annotated[str, typer.Option(help="show the result in Rerun: FILE.rrd to write, or live")]
Spoil = Annotated[str, typer.Option("--spoil", hidden=True)]
"""Name of --degrade in version 0.1."""

Json = Annotated[
    Path | None,
    typer.Option("--json", help="write the result as JSON to this file; - prints it"),
    Use.FILE,
]
