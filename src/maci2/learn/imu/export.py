"""The weight file of an IMU model."""

from pathlib import Path

import onnx
import torch

from maci2.imu.learned_model import BLOCK, CONTEXT, METADATA_KEY, ModelCard
from maci2.learn.imu.network import ImuNetwork, Model
from maci2.learn.weight_file import largest_difference, onnx_of, write_agreeing, write_weights

__all__ = ["disagreement", "export", "to_onnx", "with_card", "write_weights"]

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
    """The same weights with another card."""
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
