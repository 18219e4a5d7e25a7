"""The weight file of an IMU model and its card."""

from dataclasses import asdict, astuple
from pathlib import Path

import numpy as np
import onnx
import torch

from maci2 import __version__
from maci2.imu import BiasPrior
from maci2.imu.learned_model import (
    BLOCK,
    CONTEXT,
    FORMAT,
    METADATA_KEY,
    UNITS,
    LabelNoiseCard,
    ModelCard,
)
from maci2_lab.evaluation.integration_errors import LabelNoise
from maci2_lab.training.imu.data import Track
from maci2_lab.training.imu.likelihood import ErrorModel
from maci2_lab.training.imu.network import ImuNetwork, Model
from maci2_lab.training.imu.recipes import Recipe
from maci2_lab.training.imu.stages import TrainingConfig
from maci2_lab.training.weight_file import largest_difference, onnx_of, write_agreeing

RATE_TOLERANCE = 0.02
MAX_FORCE_ANGLE_DEG = 60.0
"""Mean specific forces further apart than this mean other axes or another mounting."""


def first_card(
    recipe: Recipe,
    form_name: str,
    model: Model,
    error_model: ErrorModel,
    tracks: list[Track],
    config: TrainingConfig,
) -> ModelCard:
    """All but what is known of the biases."""
    form = model.form
    forces = np.array([track.imu.acc.mean(0) for track in tracks])
    mean_force = forces.mean(0) / np.linalg.norm(forces.mean(0))
    cov_0 = error_model.cov_0().detach().numpy().tolist() if form.starts_uncertain else []
    return ModelCard(
        format=FORMAT,
        name=recipe.name if form_name == "separated" else f"{recipe.name}-{form_name}",
        form=form_name,
        package_version=__version__,
        trained_on=[Path(name).name for name in recipe.train],
        tuned_on=[Path(name).name for name in recipe.tune] if form.held_out_stage else [],
        seed=config.seed,
        rate_hz=round(tracks[0].imu.rate_hz, 1),
        rate_tolerance=RATE_TOLERANCE,
        units=UNITS,
        lookahead_samples=CONTEXT,
        mean_force=tuple(mean_force.tolist()),
        max_force_angle_deg=MAX_FORCE_ANGLE_DEG,
        turn_on_mean=[],
        turn_on_std=[],
        rest_shift_mean=[],
        rest_shift_std=[],
        correction_kept=[],
        bias_mean=[0.0] * 6,
        bias_std=[],
        cov_0=cov_0,
        label_noise={},
        truth_kinds=recipe.truth_kinds,
        figures={},
        limits=list(recipe.limits),
    )


def label_noise_of(labels: list[LabelNoise], tracks: list[Track]) -> dict[str, LabelNoiseCard]:
    """Noise to expect of an unseen recording's published truth: by kind, the geometric mean of
    those seen."""
    found = {}
    for kind in sorted({track.kind for track in tracks}):
        alike = [one for one, track in zip(labels, tracks, strict=True) if track.kind == kind]
        mean = np.exp(np.mean([np.log(astuple(one)) for one in alike], axis=0))
        found[kind] = LabelNoiseCard(**asdict(LabelNoise(*mean.tolist())))
    return found


def bias_entries(name: str, prior: BiasPrior) -> dict[str, list[float]]:
    """Entries of a card for a prior of biases, [gyro, acc]."""
    return {
        f"{name}_mean": np.concatenate([prior.mean_gyro, prior.mean_acc]).tolist(),
        f"{name}_std": np.concatenate([prior.std_gyro, prior.std_acc]).tolist(),
    }


AGREEMENT = 1e-5
"""Largest difference of torch and ONNX outputs [rad/s, m/s^2, log variance]."""


def export(model: Model, card: ModelCard, path: Path) -> str:
    """Write the .onnx and beside it its SHA-256, which is returned."""
    data = to_onnx(model, card)
    return write_agreeing(data, disagreement(model, data), AGREEMENT, path)


def to_onnx(model: Model, card: ModelCard) -> bytes:
    """The model over streams of any length."""
    model.eval()
    return onnx_of(
        model,
        _example(model, 50),
        METADATA_KEY,
        card,
        input_names=["samples", "state_1", "state_2"],
        output_names=["corrections", "log_variances", "state_1_out", "state_2_out"],
        dynamic_axes={"samples": {1: "time"}},
    )


def with_card(data: bytes, card: ModelCard) -> bytes:
    """Weights of a file with another card."""
    proto = onnx.load_from_string(data)
    for entry in proto.metadata_props:
        if entry.key == METADATA_KEY:
            # Models without constants of their device are written as they were before these.
            entry.value = card.model_dump_json(exclude=None if card.device else {"device"})
    return bytes(proto.SerializeToString())


def disagreement(model: Model, data: bytes) -> float:
    """Largest difference of torch and onnxruntime over a stream of another length."""
    return largest_difference(model, data, _example(model, 333))


def _example(model: Model, blocks: int) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    length = BLOCK * (blocks - 1) + 2 * CONTEXT + 1
    samples = torch.randn(1, length, 6, generator=generator)
    if isinstance(model, ImuNetwork):
        # Samples like those of training: far from them float32 has no digits to agree in.
        samples = model.mean + model.std * samples
    return (samples, *model.start_states(1))
