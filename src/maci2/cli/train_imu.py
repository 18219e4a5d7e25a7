"""`maci2 train-imu`."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from maci2.cli import options as opt
from maci2.cli.early_checks import require_training
from maci2.cli.json_output import write_json
from maci2.errors import OptionError


def train_imu(
    recipe: Annotated[
        str, typer.Argument(help="euroc, tumvi, or a name of your own with --train and --tune")
    ],
    data: Annotated[Path, typer.Option(help="folder of the recordings")] = Path("."),
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="weight file  [default: RECIPE.onnx]")
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
    rig: opt.RigFile = None,
    topics: opt.Topics = "",
    epochs: Annotated[int | None, typer.Option(help="epochs of the first stage")] = None,
    held_out_epochs: Annotated[
        int | None, typer.Option(help="epochs of the held-out stage")
    ] = None,
    seed: Annotated[int, typer.Option(help="random seed")] = 0,
    threads: Annotated[int, typer.Option(help="number of torch threads")] = 1,
    json: opt.Json = None,
) -> None:
    """Train an IMU model for a sensor.

    Writes a weight file; needs `pip install maci2[train]`.
    """
    from maci2.learn.imu.recipes import chosen_recipe, form_named

    form_named(model)
    chosen = chosen_recipe(recipe, tuple(train or ()), tuple(tune or ())).without(leave_out or ())
    chosen = replace(chosen, rig=rig, topics=topics)
    path = output or Path(f"{recipe}.onnx" if model == "separated" else f"{recipe}-{model}.onnx")
    require_training(path, threads, seed, epochs, held_out_epochs)
    try:
        import torch

        from maci2.learn.imu.stages import training_config
        from maci2.learn.imu.train import train_imu as run
    except ImportError as error:
        raise OptionError(
            f"train-imu needs {error.name}; install it with: pip install 'maci2[train]'."
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
