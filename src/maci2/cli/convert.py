"""`maci2 convert`."""

from pathlib import Path
from typing import Annotated

import typer

from maci2.cli import options as opt
from maci2.cli.json_output import write_json


def convert(
    source: Annotated[
        Path,
        typer.Argument(
            help="calibration to read: file or folder of Kalibr, OpenVINS, VINS-Mono, VINS-Fusion, "
            "ORB-SLAM2, ORB-SLAM3, MSCKF-VIO, Basalt, an OAK, a ZED, a ROS CameraInfo, or a "
            "EuRoC-layout, TUM-VI or VBR recording"
        ),
    ],
    output: Annotated[Path, typer.Argument(help="folder to write; files get their usual names")],
    to: Annotated[str, typer.Option("--to", help="kalibr, openvins, vins-fusion or orbslam3")],
    biases: Annotated[
        Path | None,
        typer.Option(help="JSON of init or calibrate with the initial biases for OpenVINS"),
    ] = None,
    imu_rate: opt.ImuRate = None,
    imu_noise: opt.ImuNoiseText = "",
    t_b_c: opt.Extrinsics = "",
    json: opt.Json = None,
) -> None:
    """Convert a calibration to the files of another tool.

    Each file states its conventions in comments.
    """
    from maci2.datasets import open_rig
    from maci2.rigs import convert_rig, given_by, kind_of

    rig = open_rig(source, given_by(imu_rate, imu_noise, t_b_c))
    if source.is_file():
        extrinsics = "known" if rig.extrinsics_known else "unknown"
        noise = "known" if rig.noise_known else "unknown"
        typer.echo(
            f"read {kind_of(source).name}: {len(rig.cameras)} cameras, camera-IMU extrinsics "
            f"{extrinsics}, IMU noise {noise}"
        )
    paths = convert_rig(rig, output, to, biases)
    for path in paths:
        typer.echo(f"wrote {path}")
    record = {
        "cameras": len(rig.cameras),
        "extrinsics_known": rig.extrinsics_known,
        "noise_known": rig.noise_known,
        "files": [str(path) for path in paths],
    }
    write_json(json, record)
