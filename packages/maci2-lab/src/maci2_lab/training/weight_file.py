"""Export from torch to a weight file: ONNX with its card inside, written whole or not at all."""

import hashlib
import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch

from maci2.errors import Maci2Error
from maci2.files import write_together
from maci2.model_card import Card


def onnx_of(
    network: torch.nn.Module,
    example: tuple[torch.Tensor, ...],
    key: str,
    card: Card,
    **names: Any,
) -> bytes:
    """The network with its card; `names` of inputs, outputs and axes of any length."""
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # The exporter that takes GRUs over streams of any length is the older one, and says so.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network,
            example,
            buffer,  # type: ignore[arg-type]
            dynamo=False,
            opset_version=20,
            **names,
        )
    proto = onnx.load_from_string(buffer.getvalue())
    entry = proto.metadata_props.add()
    entry.key, entry.value = key, card.model_dump_json()
    onnx.checker.check_model(proto)
    return bytes(proto.SerializeToString())


def largest_difference(
    network: torch.nn.Module, data: bytes, inputs: tuple[torch.Tensor, ...]
) -> float:
    """Largest difference between the outputs of torch and onnxruntime."""
    import onnxruntime

    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    with torch.no_grad():
        expected = network(*inputs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    names = [entry.name for entry in session.get_inputs()]
    found = session.run(None, {n: x.numpy() for n, x in zip(names, inputs, strict=True)})
    pairs = zip(expected, found, strict=True)
    return max(float(np.abs(one.numpy() - other).max()) for one, other in pairs)


def write_agreeing(data: bytes, difference: float, most: float, path: Path) -> str:
    """Write weights whose outputs are torch's; the digest."""
    if difference > most:
        raise Maci2Error(
            f"{path}: torch and ONNX outputs differ by {difference:.2g}, needed {most:.0e} at "
            "most; nothing was written."
        )
    return write_weights(data, path)


def write_weights(data: bytes, path: Path) -> str:
    """Write the .onnx whole and its SHA-256 beside it; the digest."""
    digest = hashlib.sha256(data).hexdigest()
    sums = path.with_name(path.name + ".sha256")
    write_together({path: data, sums: f"{digest}  {path.name}\n"})
    return digest
