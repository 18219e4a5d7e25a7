"""`maci2 model`."""

from typing import Annotated

import typer

from maci2.cli import options as opt
from maci2.cli.json_output import write_json

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
