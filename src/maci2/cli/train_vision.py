"""`maci2 train-vision`."""

from itertools import count
from pathlib import Path
from typing import Annotated

import typer

from maci2.cli import options as opt
from maci2.cli.early_checks import require_training
from maci2.cli.json_output import write_json
from maci2.cli.printing import progress_bar
from maci2.errors import OptionError, require_in_range


def train_vision(
    output: Annotated[Path, typer.Option("-o", "--output", help="weight file to write")] = Path(
        "match_covariance.onnx"
    ),
    scenes: Annotated[
        int, typer.Option(help="rooms to render; a quarter of them are for calibration")
    ] = 160,
    epochs: Annotated[int, typer.Option(help="passes over all matches")] = 20,
    seed: opt.Seed = 0,
    threads: Annotated[int, typer.Option(help="number of torch threads")] = 1,
    json: opt.Json = None,
) -> None:
    """Train the covariance model of matches on rendered rooms.

    Needs `pip install maci2[train]`.
    """
    require_training(output, threads, seed, epochs)
    require_in_range("--scenes", scenes, 4, 1e6)
    try:
        import torch

        from maci2.learn.vision.data import render_matches
        from maci2.learn.vision.export import card_of, export
        from maci2.learn.vision.train import VisionTrainingConfig, train
    except ImportError as error:
        raise OptionError(
            f"train-vision needs {error.name}; install it with: pip install 'maci2[train]'."
        ) from error
    torch.set_num_threads(threads)
    with progress_bar() as on_progress:
        done = count(1)
        steps = render_matches(
            scenes, seed, lambda: on_progress("rendering rooms", next(done), scenes)
        )
    config = VisionTrainingConfig(epochs=epochs, seed=seed)
    network, calibration = train(steps, config)
    card = card_of(steps, seed, config, calibration)
    digest = export(network, card, output)
    typer.echo(card.text())
    typer.echo(f"wrote {output}, sha256 {digest}")
    record = {"file": str(output), "sha256": digest, "card": card.model_dump(mode="json")}
    write_json(json, record)
