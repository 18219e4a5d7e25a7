"""Commands that train models: `maci2 train-imu` and `train-vision`."""

import logging
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Annotated

import typer

from maci2.cli import options as opt
from maci2.cli.command import Use, command, progress_bar, write_json
from maci2.errors import OptionError, require_in_range
from maci2.pipeline.options import Measuring, Opening, option_of


@command()
def train_imu(
    recipe: Annotated[
        str, typer.Argument(help="euroc, tumvi, or a name of your own with --train and --tune")
    ],
    data: Annotated[Path, typer.Option(help="folder of the recordings")] = Path("."),
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="weight file  [default: RECIPE.onnx]"),
        Use.OUTPUT,
    ] = None,
    model: Annotated[
        str,
        typer.Option(help="separated, paper, airimu, paramnet, datasheet or temperature"),
    ] = "separated",
    train: Annotated[
        list[str] | None, typer.Option(help="recording to train on; may be given several times")
    ] = None,
    tune: Annotated[
        list[str] | None,
        typer.Option(
            help="held-out recording to tune uncertainties on; may be given several times"
        ),
    ] = None,
    leave_out: Annotated[
        list[str] | None,
        typer.Option(
            help="recording of the recipe to leave out, for cross-validation; may be given several "
            "times"
        ),
    ] = None,
    work: Annotated[
        Path | None,
        typer.Option(help="folder for checkpoints and logs; training resumes from it"),
    ] = None,
    rig: Path | None = option_of(Opening, "rig"),
    topics: str = option_of(Opening, "topics"),
    epochs: Annotated[int | None, typer.Option(help="epochs of the first stage")] = None,
    held_out_epochs: Annotated[
        int | None, typer.Option(help="epochs of the held-out stage")
    ] = None,
    seed: Annotated[int, typer.Option(help="random seed")] = 0,
    threads: Annotated[int, typer.Option(help="number of torch threads")] = 1,
    json: opt.Json = None,
) -> None:
    """Train an IMU model for a sensor.

    Writes a weight file; needs `pip install maci2-lab[train]`.
    """
    from maci2_lab.training.imu.recipes import chosen_recipe, form_named

    form_named(model)
    chosen = chosen_recipe(recipe, tuple(train or ()), tuple(tune or ())).without(leave_out or ())
    chosen = replace(chosen, rig=rig, topics=topics)
    path = output or Path(f"{recipe}.onnx" if model == "separated" else f"{recipe}-{model}.onnx")
    require_training(path, threads, seed, epochs, held_out_epochs)
    try:
        import torch

        from maci2_lab.training.imu.stages import training_config
        from maci2_lab.training.imu.train import train_imu as run
    except ImportError as error:
        raise OptionError(
            f"train-imu needs {error.name}; install it with: pip install 'maci2-lab[train]'."
        ) from error
    logging.basicConfig(format="%(message)s")
    logging.getLogger("maci2").setLevel(logging.INFO)
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    torch.set_num_threads(threads)
    config = training_config(seed, epochs, held_out_epochs)
    folder = work or path.with_suffix(".training")
    card = run(chosen, data, path, model, folder, config)
    typer.echo(card.text())
    typer.echo(f"wrote {path}")
    write_json(json, {"file": str(path), "card": card.model_dump(mode="json")})


@command("odometry", "render")
def train_vision(
    output: Annotated[
        Path, typer.Option("-o", "--output", help="weight file to write"), Use.OUTPUT
    ] = Path("match_covariance.onnx"),
    scenes: Annotated[
        int, typer.Option(help="rooms to render; a quarter of them are for calibration")
    ] = 160,
    epochs: Annotated[int, typer.Option(help="passes over all matches")] = 20,
    seed: int = option_of(Measuring, "seed"),
    threads: Annotated[int, typer.Option(help="number of torch threads")] = 1,
    json: opt.Json = None,
) -> None:
    """Train the covariance model of matches on rendered rooms.

    Needs `pip install maci2-lab[train]`.
    """
    require_training(output, threads, seed, epochs)
    require_in_range("--scenes", scenes, 4, 1e6)
    try:
        import torch

        from maci2_lab.training.vision.data import render_matches
        from maci2_lab.training.vision.export import card_of, export
        from maci2_lab.training.vision.train import VisionTrainingConfig, train
    except ImportError as error:
        raise OptionError(
            f"train-vision needs {error.name}; install it with: pip install 'maci2-lab[train]'."
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


def require_training(output: Path, threads: int, seed: int, *epochs: int | None) -> None:
    """Raise for invalid options of a training, which would otherwise fail hours later."""
    require_in_range("--threads", threads, 1, 1024)
    require_in_range("--seed", seed, 0, 2**32 - 1)
    for number in epochs:
        if number is not None:
            require_in_range("--epochs, --held-out-epochs", number, 1, 1e6)
    from maci2.files import require_writable

    require_writable(output)
