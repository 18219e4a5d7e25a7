"""Commands for files and kernels of this installation: `maci2 convert`, `model` and `compile`."""

from dataclasses import MISSING
from pathlib import Path
from typing import Annotated

import typer

from maci2.cli import options as opt
from maci2.cli.command import Use, command, fill_visibly, write_json
from maci2.pipeline.options import Opening, option, option_of


@command()
def convert(
    *,
    source: Annotated[
        Path,
        typer.Argument(
            help="calibration to read: file or folder of Kalibr, OpenVINS, VINS-Mono, VINS-Fusion, "
            "ORB-SLAM2, ORB-SLAM3, MSCKF-VIO, Basalt, an OAK, a ZED, a ROS CameraInfo, or a "
            "EuRoC-layout, TUM-VI or VBR recording"
        ),
        Use.READ,
    ],
    output: Annotated[
        Path, typer.Argument(help="folder to write; files get their usual names"), Use.OUTPUT
    ],
    to: str = option(MISSING, "kalibr, openvins, vins-fusion or orbslam3"),
    biases: Path | None = option(
        None, "JSON of init or calibrate with the initial biases for OpenVINS"
    ),
    imu_rate: float | None = option_of(Opening, "imu_rate"),
    imu_noise: str = option_of(Opening, "imu_noise"),
    T_b_c: str = option_of(Opening, "T_b_c"),
    json: opt.Json = None,
) -> None:
    """Convert a calibration to the files of another tool.

    Each file states its conventions in comments.
    """
    from maci2.datasets import open_rig
    from maci2.rigs import convert_rig, given_by, kind_of

    rig = open_rig(source, given_by(imu_rate, imu_noise, T_b_c))
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
    known = {"extrinsics_known": rig.extrinsics_known, "noise_known": rig.noise_known}
    files = [str(path) for path in paths]
    write_json(json, {"cameras": len(rig.cameras), **known, "files": files})


MATCHES = "matches"
"""Name of the covariance model of visual matches."""

BASELINES = {
    "airimu": "AirIMU's, variances from recurrent features",
    "datasheet": "constant correction, data-sheet noise",
    "paper": "the paper's, with an initial covariance of every integration",
    "paramnet": "constant correction and constant noise",
    "temperature": "constant correction, scaled data-sheet noise",
}
"""Variants of an IMU model that `maci2 imu-report` compares it with."""


@command()
def model(
    *,
    name: Annotated[
        str,
        typer.Argument(
            help="a bundled IMU model, a weight file, or `matches` (the covariance model of visual "
            "matches); without a name, all are listed"
        ),
    ] = "",
    json: opt.Json = None,
) -> None:
    """Show the cards of the learned models.

    A card states what a model was trained on, how accurate it is, and its limits.
    """
    from maci2.imu.learned_model import bundled_models, load_imu_model
    from maci2.vision.covariance import Learned, bundled_digest

    if name:
        card = Learned().card if name == MATCHES else load_imu_model(name).about
        typer.echo(card.text())
        write_json(json, card.model_dump(mode="json"))
        return
    digests = {**bundled_models(), MATCHES: bundled_digest()}
    for bundled, digest in digests.items():
        typer.echo(f"{bundled:<18} sha256 {digest[:12]}  {_purpose(bundled)}")
    typer.echo("`maci2 model NAME` shows the card of a model.")
    write_json(json, {"models": digests})


def _purpose(name: str) -> str:
    """One line about a bundled model."""
    if name == MATCHES:
        return "covariance of visual matches, for `maci2 vo` and --vision images"
    device, _, variant = name.partition("-")
    if not variant:
        return f"IMU model, for --imu {name}"
    return f"baseline of {device}: {BASELINES[variant]}"


@command()
def compile(
    *,
    jobs: int = option(0, "processes at once; 0: one per core"),
    json: opt.Json = None,
) -> None:
    """Fill the compile cache ahead of time.

    For container images, continuous integration and robots; other commands compile what they need
    by themselves. Exit code 1 if something is missing.
    """
    from importlib.util import find_spec

    from maci2.errors import OptionError
    from maci2.jit.cache import cache_folder, kernels_in
    from maci2.jit.fill import JOBS

    folder = cache_folder()
    if folder is None:
        raise OptionError(
            "no folder for compiled kernels: neither the package's folder nor the user's cache "
            "can be written; set NUMBA_CACHE_DIR to a folder that can."
        )
    names = tuple(job for job in JOBS if job != "train" or find_spec("torch") is not None)
    failed = fill_visibly(names, jobs)
    count = kernels_in(folder)
    typer.echo(f"{count} kernels compiled in {folder}")
    write_json(json, {"kernels": count, "folder": str(folder), "failed": failed})
    if failed:
        typer.echo(f"error: not compiled: {', '.join(failed)}", err=True)
        raise typer.Exit(1)
