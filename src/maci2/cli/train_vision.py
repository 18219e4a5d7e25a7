"""`maci2 train-vision`."""

from pathlib import Path
from typing import Annotated

import typer

from maci2.cli import options as opt


def train_vision(
    output: Annotated[Path, typer.Option("-o", "--output", help=".onnx to write")] = Path(
        "match_covariance.onnx"
    ),
    scenes: Annotated[int, typer.Option(help="rooms to draw, a quarter of them to calibrate")] = 80,
    epochs: Annotated[int, typer.Option(help="passes over all matches")] = 30,
    seed: opt.Seed = 1000,
) -> None:
    """Train the covariance of matches on rendered scenes, calibrate it on others, export it."""
    from rich.progress import Progress

    from maci2.learn.vision_data import render_samples
    from maci2.learn.vision_training import TrainingConfig, export, train

    with Progress(transient=True) as progress:
        task = progress.add_task("drawing scenes", total=scenes)
        samples = render_samples(scenes, seed, lambda: progress.advance(task))
    config = TrainingConfig(epochs=epochs)
    network, calibration = train(samples, config)
    notes = {
        "trained_on": f"{scenes} rendered rooms, seed {seed}; no real image",
        "calibration": calibration.__dict__,
    }
    digest = export(network, output, notes)
    nees = ", ".join(f"{value:.2f}" for value in calibration.nees_before)
    typer.echo(f"wrote {output}, sha256 {digest}")
    typer.echo(f"NEES per axis (u, v, d0, d1) on held-out scenes before calibration: {nees}")
