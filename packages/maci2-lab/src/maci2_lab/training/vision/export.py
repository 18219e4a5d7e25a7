"""The weight file of the match covariance."""

from pathlib import Path

import torch

from maci2 import __version__
from maci2.vision.covariance import FORMAT, INPUTS, METADATA_KEY, MatchCard
from maci2_lab.training.vision.data import RenderedMatches
from maci2_lab.training.vision.train import Calibration, MatchNetwork, VisionTrainingConfig, split
from maci2_lab.training.weight_file import largest_difference, onnx_of, write_agreeing

AGREEMENT = 1e-4
"""Largest difference of torch and ONNX outputs [natural logarithm, shares]."""

LIMITS = [
    "matches of pyramidal Lucas-Kanade with a window of 21 px on locally scaled images; another "
    "matcher needs its own",
    "no real image was seen: what real lenses and clocks add is in vision/covariance.py",
]


def card_of(
    rendered: list[RenderedMatches], seed: int, config: VisionTrainingConfig, found: Calibration
) -> MatchCard:
    """Card of the weights."""
    fitted, held = split(rendered)
    return MatchCard(
        format=FORMAT,
        package_version=__version__,
        inputs=INPUTS,
        scenes=len({one.scene for one in fitted}),
        held_out_scenes=len({one.scene for one in held}),
        matches=sum(len(one.errors) for one in fitted),
        seed=seed,
        epochs=config.epochs,
        outliers=found.outliers,
        axis_nees=found.axis_nees,
        pose_nees=found.pose_nees,
        beyond_sigmas=found.beyond_sigmas,
        limits=LIMITS,
    )


def export(network: MatchNetwork, card: MatchCard, path: Path) -> str:
    """Write the .onnx and beside it its SHA-256, which is returned."""
    data = to_onnx(network, card)
    return write_agreeing(data, disagreement(network, data), AGREEMENT, path)


def to_onnx(network: MatchNetwork, card: MatchCard) -> bytes:
    """The network over any number of matches."""
    return onnx_of(
        network,
        (torch.zeros(2, INPUTS),),
        METADATA_KEY,
        card,
        input_names=["inputs"],
        output_names=["factor"],
        dynamic_axes={"inputs": {0: "matches"}, "factor": {0: "matches"}},
    )


def disagreement(network: MatchNetwork, data: bytes) -> float:
    """Largest difference of torch and onnxruntime on inputs like those of training."""
    noise = torch.randn(333, INPUTS, generator=torch.Generator().manual_seed(0))
    return largest_difference(network, data, (network.mean + noise / network.scale,))
