"""`maci2 model`."""

from typing import Annotated

import typer

from maci2.cli import options as opt
from maci2.cli.json_output import write_json

MATCHES = "matches"
"""Name of the match covariance, which belongs to cameras and not to an IMU."""


def model(
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
    from maci2.vision.covariance_models import Learned, bundled_digest

    if name:
        card = Learned().card if name == MATCHES else load_imu_model(name).about
        typer.echo(card.text())
        write_json(json, card.model_dump(mode="json"))
        return
    digests = {**bundled_models(), MATCHES: bundled_digest()}
    for bundled, digest in digests.items():
        typer.echo(f"{bundled:<20} sha256 {digest}")
    write_json(json, {"models": digests})
