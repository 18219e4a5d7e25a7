"""`maci2 model`."""

from typing import Annotated

import typer

MATCHES = "matches"
"""Name of the match covariance, which belongs to cameras and not to an IMU."""


def model(
    name: Annotated[
        str,
        typer.Argument(
            help="a bundled IMU model, a weight file, or `matches`, the covariance of visual "
            "matches; none lists them"
        ),
    ] = "",
) -> None:
    """The card of a learned model: what it was trained on, how well it does, its limits."""
    from maci2.imu.learned_model import bundled_models, load_imu_model
    from maci2.vision.covariance_models import Learned, bundled_digest

    if name == MATCHES:
        typer.echo(Learned().card.text())
        return
    if name:
        typer.echo(load_imu_model(name).card())
        return
    for bundled, digest in {**bundled_models(), MATCHES: bundled_digest()}.items():
        typer.echo(f"{bundled:<20} sha256 {digest}")
