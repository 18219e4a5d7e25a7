"""From torch to a weight file: ONNX with its model card inside, written whole or not at all."""

import hashlib
import io
import warnings
from pathlib import Path

import numpy as np
import onnx
import torch

from maci2.errors import Maci2Error
from maci2.files import write_atomically
from maci2.imu.model_card import METADATA_KEY, ModelCard
from maci2.imu.network_shape import BLOCK, CONTEXT
from maci2.learn.network import ImuNetwork, Model

AGREEMENT = 1e-5
"""Largest difference of torch and ONNX outputs [rad/s, m/s^2, log variance]."""


def export(model: Model, card: ModelCard, path: Path) -> str:
    """Write the .onnx and beside it its SHA-256, which is returned."""
    data = to_onnx(model, card)
    difference = disagreement(model, data)
    if difference > AGREEMENT:
        raise Maci2Error(
            f"{path}: torch and ONNX outputs differ by {difference:.2g}, needed {AGREEMENT:.0e} at "
            "most; nothing was written."
        )
    return write_weights(data, path)


def to_onnx(model: Model, card: ModelCard) -> bytes:
    """The model over streams of any length."""
    model.eval()
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # The exporter that takes GRUs over streams of any length is the older one, and says so.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model,
            _example(model, 50),
            buffer,  # type: ignore[arg-type]
            dynamo=False,
            input_names=["samples", "state_1", "state_2"],
            output_names=["corrections", "log_variances", "state_1_out", "state_2_out"],
            dynamic_axes={"samples": {1: "time"}},
            opset_version=20,
        )
    proto = onnx.load_from_string(buffer.getvalue())
    entry = proto.metadata_props.add()
    entry.key, entry.value = METADATA_KEY, card.model_dump_json()
    onnx.checker.check_model(proto)
    return bytes(proto.SerializeToString())


def with_card(data: bytes, card: ModelCard) -> bytes:
    """The same weights with another card."""
    proto = onnx.load_from_string(data)
    for entry in proto.metadata_props:
        if entry.key == METADATA_KEY:
            entry.value = card.model_dump_json()
    return bytes(proto.SerializeToString())


def write_weights(data: bytes, path: Path) -> str:
    """Write the .onnx whole and its SHA-256 beside it; the digest."""
    digest = hashlib.sha256(data).hexdigest()
    write_atomically(path, data)
    write_atomically(path.with_name(path.name + ".sha256"), f"{digest}  {path.name}\n")
    return digest


def disagreement(model: Model, data: bytes) -> float:
    """Largest difference of torch and onnxruntime over a stream of another length."""
    import onnxruntime

    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    inputs = _example(model, 333)
    with torch.no_grad():
        expected = model(*inputs)
    names = [entry.name for entry in session.get_inputs()]
    found = session.run(None, {n: x.numpy() for n, x in zip(names, inputs, strict=True)})
    pairs = zip(expected, found, strict=True)
    return max(float(np.abs(one.numpy() - other).max()) for one, other in pairs)


def _example(model: Model, blocks: int) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    length = BLOCK * (blocks - 1) + 2 * CONTEXT + 1
    samples = torch.randn(1, length, 6, generator=generator)
    if isinstance(model, ImuNetwork):
        # Samples like those of training: far from them float32 has no digits to agree in.
        samples = model.mean + model.std * samples
    return (samples, *model.start_states(1))
