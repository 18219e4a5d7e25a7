"""Training of the match covariance: a small network, a heavy-tailed likelihood, then calibration."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from maci2 import __version__
from maci2.errors import DatasetError
from maci2.gaussian import Array
from maci2.learn.vision_data import Samples
from maci2.vision.covariance_models import MAX_STD_PX, MIN_STD_PX, OUTPUTS, covariances
from maci2.vision.evidence import INPUTS

TAIL = 4.0
"""Degrees of freedom of the Student t: errors of matches have heavy tails."""

GATE = 5.0
"""Standard deviations beyond which a match is an outlier and left to the robust loss."""

HELD_OUT = 0.25
"""Share of the scenes that only calibration sees."""

GROSS_PX = 10.0
"""Errors beyond this are a lost match: counted, not learned from."""


@dataclass(frozen=True)
class TrainingConfig:
    """How to train."""

    epochs: int = 30
    batch: int = 1024
    rate: float = 2e-3
    weight_decay: float = 1e-4
    seed: int = 0


@dataclass(frozen=True)
class Calibration:
    """How true the covariance is on scenes not trained on, outliers left out."""

    nees_before: list[float]
    """Per axis u1, v1, d0, d1: mean squared error over predicted variance."""

    nees: list[float]
    """After the factors were set."""

    outliers: float
    """Share of matches beyond the gate."""

    matches: int


class MatchNetwork(nn.Module):
    """From the evidence of a match to the Cholesky factor of its covariance."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(INPUTS))
        self.register_buffer("scale", torch.ones(INPUTS))
        self.register_buffer("log_factor", torch.zeros(4))
        """What calibration multiplies the standard deviations by."""
        self.layers = nn.Sequential(
            nn.Linear(INPUTS, 128), nn.SiLU(), nn.Linear(128, 64), nn.SiLU(),
            nn.Linear(64, OUTPUTS),
        )  # fmt: skip
        with torch.no_grad():
            self.layers[-1].weight.mul_(0.1)
            self.layers[-1].bias.zero_()
            self.layers[-1].bias[_DIAGONAL] = -2.0

    def forward(self, inputs: Tensor) -> Tensor:
        x = ((inputs - self.mean) * self.scale).clamp(-6.0, 6.0)
        out = self.layers(x)
        shift = torch.zeros(OUTPUTS, dtype=out.dtype)
        shift[_DIAGONAL] = self.log_factor
        return out + shift


_ROWS, _COLUMNS = np.tril_indices(4)
_DIAGONAL = [0, 2, 5, 9]


def student_nll(outputs: Tensor, errors: Tensor) -> Tensor:
    """Mean negative log likelihood of errors (n, 4) under a Student t with this factor."""
    log_std = outputs[:, _DIAGONAL].clamp(float(np.log(MIN_STD_PX)), float(np.log(MAX_STD_PX)))
    std = log_std.exp()
    # Forward substitution of L y = e, L = diag(std) (I + strictly lower shares).
    scaled = errors / std
    y: list[Tensor] = []
    for row in range(4):
        rest = scaled[:, row]
        for column in range(row):
            at = row * (row + 1) // 2 + column
            rest = rest - outputs[:, at] * y[column]
        y.append(rest)
    square = torch.stack(y, dim=1).square().sum(dim=1)
    return (log_std.sum(dim=1) + 0.5 * (TAIL + 4.0) * torch.log1p(square / TAIL)).mean()


def train(samples: Samples, config: TrainingConfig) -> tuple[MatchNetwork, Calibration]:
    """Fit on three quarters of the scenes, calibrate on the rest."""
    torch.manual_seed(config.seed)
    kept = (np.abs(samples.errors) < GROSS_PX).all(axis=1)
    held = _held_out(samples.scenes)
    fit = kept & ~held
    if not fit.any() or not held.any():
        raise DatasetError(
            f"{len(np.unique(samples.scenes))} scenes with {len(kept)} matches are too few to "
            "train and calibrate on; render at least 8."
        )
    x = torch.from_numpy(samples.inputs[fit])
    e = torch.from_numpy(samples.errors[fit].astype(np.float32))
    network = MatchNetwork()
    network.mean.copy_(x.mean(dim=0))
    network.scale.copy_(1.0 / (x.std(dim=0) + 1e-3))
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=config.rate, weight_decay=config.weight_decay
    )
    steps = config.epochs * (len(x) // config.batch + 1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, config.rate, total_steps=steps + 1)
    for _ in range(config.epochs):
        for batch in torch.randperm(len(x)).split(config.batch):
            optimizer.zero_grad()
            loss = student_nll(network(x[batch]), e[batch])
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(network.parameters(), 5.0)
            optimizer.step()
            schedule.step()
    network.eval()
    return network, calibrate(network, samples.inputs[kept & held], samples.errors[kept & held])


def calibrate(network: MatchNetwork, inputs: np.ndarray, errors: Array) -> Calibration:
    """Set the factor of each axis so that errors inside the gate have the variance predicted."""
    before, _ = _axis_nees(network, inputs, errors)
    for _ in range(20):
        nees, _ = _axis_nees(network, inputs, errors)
        network.log_factor += torch.from_numpy(0.5 * np.log(nees)).float()
    nees, outliers = _axis_nees(network, inputs, errors)
    return Calibration(before.tolist(), nees.tolist(), outliers, len(errors))


def _axis_nees(network: MatchNetwork, inputs: np.ndarray, errors: Array) -> tuple[Array, float]:
    with torch.no_grad():
        outputs = network(torch.from_numpy(inputs)).numpy().astype(np.float64)
    ratio = errors**2 / np.diagonal(covariances(outputs), axis1=1, axis2=2)
    inside = (ratio < GATE**2).all(axis=1)
    return ratio[inside].mean(axis=0), float(1.0 - inside.mean())


def _held_out(scenes: np.ndarray) -> np.ndarray:
    names = np.unique(scenes)
    return np.isin(scenes, names[-max(round(HELD_OUT * len(names)), 1) :])


def export(network: MatchNetwork, path: Path, notes: dict[str, object]) -> str:
    """Write the .onnx with its notes as metadata; its sha256."""
    import onnx

    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial.onnx")
    torch.onnx.export(
        network, (torch.zeros(2, INPUTS),), str(partial), input_names=["inputs"],
        output_names=["factor"], dynamic_shapes=({0: torch.export.Dim("matches")},),
        dynamo=True, external_data=False, verbose=False,
    )  # fmt: skip
    model = onnx.load(str(partial))
    notes = {"version": __version__, "units": "px", "order": "u1 v1 d0 d1", **notes}
    for key, value in notes.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value if isinstance(value, str) else json.dumps(value)
    onnx.save(model, str(partial))
    partial.replace(path)
    return hashlib.sha256(path.read_bytes()).hexdigest()
