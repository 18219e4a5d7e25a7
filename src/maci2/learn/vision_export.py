"""From torch to the weight file of the match covariance, with its card inside."""

import hashlib
import io
import warnings
from pathlib import Path

import numpy as np
import onnx
import torch

from maci2 import __version__
from maci2.errors import Maci2Error
from maci2.files import write_atomically
from maci2.learn.vision_data import RenderedStep
from maci2.learn.vision_training import Calibration, MatchNetwork, VisionTrainingConfig, split
from maci2.vision.evidence import INPUTS
from maci2.vision.match_card import FORMAT, METADATA_KEY, MatchCard

AGREEMENT = 1e-4
"""Largest difference of torch and ONNX outputs [natural logarithm, shares]."""

LIMITS = [
    "matches of pyramidal Lucas-Kanade with a window of 21 px; another matcher needs its own",
    "no real image was seen: what real lenses and stamps add is in vision/shared_errors.py",
]


def card_of(
    steps: list[RenderedStep], seed: int, config: VisionTrainingConfig, found: Calibration
) -> MatchCard:
    """What the weights say of themselves."""
    fitted, held = split(steps)
    return MatchCard(
        format=FORMAT,
        package_version=__version__,
        inputs=INPUTS,
        scenes=len({step.scene for step in fitted}),
        held_out_scenes=len({step.scene for step in held}),
        matches=sum(len(step.errors) for step in fitted),
        seed=seed,
        epochs=config.epochs,
        outliers=found.outliers,
        axis_nees=found.axis_nees,
        pose_nees=found.pose_nees,
        limits=LIMITS,
    )


def export(network: MatchNetwork, card: MatchCard, path: Path) -> str:
    """Write the .onnx and beside it its SHA-256, which is returned."""
    data = to_onnx(network, card)
    difference = disagreement(network, data)
    if difference > AGREEMENT:
        raise Maci2Error(
            f"{path}: torch and ONNX outputs differ by {difference:.2g}, needed {AGREEMENT:.0e} at "
            "most; nothing was written."
        )
    digest = hashlib.sha256(data).hexdigest()
    write_atomically(path, data)
    write_atomically(path.with_name(path.name + ".sha256"), f"{digest}  {path.name}\n")
    return digest


def to_onnx(network: MatchNetwork, card: MatchCard) -> bytes:
    """The network over any number of matches."""
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # The older exporter announces its successor.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network,
            (torch.zeros(2, INPUTS),),
            buffer,  # type: ignore[arg-type]
            dynamo=False,
            input_names=["inputs"],
            output_names=["factor"],
            dynamic_axes={"inputs": {0: "matches"}, "factor": {0: "matches"}},
            opset_version=20,
        )
    proto = onnx.load_from_string(buffer.getvalue())
    entry = proto.metadata_props.add()
    entry.key, entry.value = METADATA_KEY, card.model_dump_json()
    onnx.checker.check_model(proto)
    return bytes(proto.SerializeToString())


def disagreement(network: MatchNetwork, data: bytes) -> float:
    """Largest difference of torch and onnxruntime on inputs like those of training."""
    import onnxruntime

    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    noise = torch.randn(333, INPUTS, generator=torch.Generator().manual_seed(0))
    inputs = network.mean + noise / network.scale
    with torch.no_grad():
        expected = network(inputs).numpy()
    (found,) = session.run(None, {"inputs": inputs.numpy()})
    return float(np.abs(expected - found).max())
