"""`maci2 model`."""

from typing import Annotated

import typer


def model(
    name: Annotated[
        str, typer.Argument(help="a bundled IMU model or a weight file; none lists them")
    ] = "",
) -> None:
    """The card of an IMU model: what it was trained on, how well it does, its limits."""
    from maci2.imu.model import bundled_models, load_imu_model

    if name:
        typer.echo(load_imu_model(name).card())
        return
    for bundled, digest in bundled_models().items():
        typer.echo(f"{bundled:<20} sha256 {digest}")
