"""Training of the match covariance: a small network, a heavy-tailed likelihood, calibration."""

from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from maci2.errors import DatasetError
from maci2.learn.vision.data import RenderedMatches
from maci2.learn.vision.held_out import (
    GROSS_PX,
    ROUNDS,
    Calibration,
    axis_nees,
    pose_scores,
)
from maci2.learn.vision.pose_likelihood import Mask, linearized, pose_nll
from maci2.types import Array
from maci2.vision.covariance import MAX_STD_PX, MIN_STD_PX, OUTPUTS, covariances
from maci2.vision.match_features import INPUTS
from maci2.vision.outlier_rejection import MIN_MATCHES

TAIL = 4.0
"""Degrees of freedom of the Student t: errors of matches have heavy tails."""

HELD_OUT = 0.25
"""Share of the scenes that only calibration sees."""

_DIAGONAL = [0, 2, 5, 9]


@dataclass(frozen=True)
class VisionTrainingConfig:
    """How to train."""

    epochs: int = 20
    """Passes over single matches."""

    batch: int = 1024
    rate: float = 2e-3
    weight_decay: float = 1e-4
    pose_epochs: int = 12
    """Passes over relative poses, after those over matches."""

    pose_batch: int = 12
    pose_rate: float = 5e-4
    pose_weight: float = 0.5
    """Weight of the likelihood of poses beside that of matches."""

    seed: int = 0


class MatchNetwork(nn.Module):
    """Network that maps the features of a match to the Cholesky factor of its covariance."""

    mean: Tensor
    scale: Tensor
    log_factor: Tensor
    """(4,) what calibration adds to the logarithms of the standard deviations."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(INPUTS))
        self.register_buffer("scale", torch.ones(INPUTS))
        self.register_buffer("log_factor", torch.zeros(4))
        last = nn.Linear(64, OUTPUTS)
        with torch.no_grad():
            last.weight.mul_(0.1)
            last.bias.zero_()
            last.bias[_DIAGONAL] = -2.0
        self.layers = nn.Sequential(
            nn.Linear(INPUTS, 128), nn.SiLU(), nn.Linear(128, 64), nn.SiLU(), last
        )

    def forward(self, inputs: Tensor) -> Tensor:
        x = ((inputs - self.mean) * self.scale).clamp(-6.0, 6.0)
        shift = torch.zeros(OUTPUTS)
        shift[_DIAGONAL] = self.log_factor
        factors: Tensor = self.layers(x) + shift
        return factors

    def covariances(self, inputs: NDArray[np.float32]) -> Array:
        """(n, 4, 4) [px^2] as at run time."""
        with torch.no_grad():
            return covariances(self(torch.from_numpy(inputs)).numpy().astype(np.float64))


def student_nll(outputs: Tensor, errors: Tensor) -> Tensor:
    """Mean negative log likelihood of errors (n, 4) under a Student t with this factor."""
    log_std = outputs[:, _DIAGONAL].clamp(float(np.log(MIN_STD_PX)), float(np.log(MAX_STD_PX)))
    # Forward substitution of L y = e, L = diag(std) (I + strictly lower shares).
    scaled = errors / log_std.exp()
    y: list[Tensor] = []
    for row in range(4):
        rest = scaled[:, row]
        for column in range(row):
            rest = rest - outputs[:, row * (row + 1) // 2 + column] * y[column]
        y.append(rest)
    square = torch.stack(y, dim=1).square().sum(dim=1)
    return (log_std.sum(dim=1) + 0.5 * (TAIL + 4.0) * torch.log1p(square / TAIL)).mean()


def train(
    rendered: list[RenderedMatches], config: VisionTrainingConfig
) -> tuple[MatchNetwork, Calibration]:
    """Fit on three quarters of the scenes, first single matches, then whole poses; choose and
    calibrate on the rest."""
    fitted, held = split(rendered)
    torch.manual_seed(config.seed)
    # Sums shared among threads would differ in their last digits from machine to machine.
    torch.set_num_threads(1)
    network = MatchNetwork()
    _fit_matches(network, *matches_of(fitted), config)
    _fit_poses(network, fitted, held, config)
    network.eval()
    return network, calibrate(network, held)


def _fit_matches(
    network: MatchNetwork, inputs: NDArray[np.float32], errors: Array, config: VisionTrainingConfig
) -> None:
    """Maximize the likelihood of the errors of matches."""
    x, e = torch.from_numpy(inputs), torch.from_numpy(errors.astype(np.float32))
    network.mean.copy_(x.mean(dim=0))
    network.scale.copy_(1.0 / (x.std(dim=0) + 1e-3))
    descent = _Descent(network, config, config.rate, config.epochs * (len(x) // config.batch + 1))
    for _ in range(config.epochs):
        for batch in torch.randperm(len(x)).split(config.batch):
            descent.step(student_nll(network(x[batch]), e[batch]))


def _fit_poses(
    network: MatchNetwork,
    fitted: list[RenderedMatches],
    held: list[RenderedMatches],
    config: VisionTrainingConfig,
) -> None:
    """Maximize the likelihood of poses beside that of matches; the weights stay that cost least on
    the scenes held out."""
    usable = [one for one in fitted if len(one.matches) >= 2 * MIN_MATCHES]
    batches = -(-len(usable) // config.pose_batch)
    descent = _Descent(network, config, config.pose_rate, config.pose_epochs * batches)
    rng = np.random.default_rng((config.seed, 3))
    best = (pose_scores(network.covariances, held).cost, deepcopy(network.state_dict()))
    for _ in range(config.pose_epochs):
        for batch in np.array_split(rng.permutation(len(usable)), batches):
            chosen = [usable[k] for k in batch]
            # Another half of the matches each time: hundreds of poses are few.
            kept = [rng.random(len(one.matches)) < 0.5 for one in chosen]
            descent.step(_joint_nll(network, chosen, kept, config.pose_weight))
        cost = pose_scores(network.covariances, held).cost
        if cost < best[0]:
            best = (cost, deepcopy(network.state_dict()))
    network.load_state_dict(best[1])


def _joint_nll(
    network: MatchNetwork, rendered: list[RenderedMatches], kept: list[Mask], pose_weight: float
) -> Tensor:
    poses = linearized(rendered, kept)
    errors = np.concatenate([one.errors[which] for one, which in zip(rendered, kept, strict=True)])
    near = torch.from_numpy((np.abs(errors) < GROSS_PX).all(axis=1))
    outputs = network(poses.inputs)
    matches = student_nll(outputs[near], torch.from_numpy(errors.astype(np.float32))[near])
    return matches + pose_weight * pose_nll(outputs, poses).float()


class _Descent:
    """AdamW with one cycle of learning rates."""

    def __init__(
        self, network: MatchNetwork, config: VisionTrainingConfig, rate: float, updates: int
    ):
        self._parameters = list(network.parameters())
        self._optimizer = torch.optim.AdamW(
            self._parameters, lr=rate, weight_decay=config.weight_decay
        )
        self._schedule = torch.optim.lr_scheduler.OneCycleLR(
            self._optimizer, rate, total_steps=updates + 1
        )

    def step(self, loss: Tensor) -> None:
        self._optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self._parameters, 5.0)
        self._optimizer.step()
        self._schedule.step()


def split(rendered: list[RenderedMatches]) -> tuple[list[RenderedMatches], list[RenderedMatches]]:
    """Matches to fit, and those of the last scenes to calibrate."""
    scenes = sorted({one.scene for one in rendered})
    last = set(scenes[-max(round(HELD_OUT * len(scenes)), 1) :])
    fitted = [one for one in rendered if one.scene not in last]
    if not fitted:
        raise DatasetError(
            f"{len(scenes)} scenes are too few to train and calibrate on; render at least 8."
        )
    return fitted, [one for one in rendered if one.scene in last]


def matches_of(rendered: list[RenderedMatches]) -> tuple[NDArray[np.float32], Array]:
    """Inputs and errors of all matches that were not lost."""
    inputs = np.concatenate([one.inputs for one in rendered])
    errors = np.concatenate([one.errors for one in rendered])
    kept = np.asarray((np.abs(errors) < GROSS_PX).all(axis=1))
    return inputs[kept], errors[kept]


def calibrate(network: MatchNetwork, held: list[RenderedMatches]) -> Calibration:
    """Set the factor of each axis by match errors, then one for all by the errors of poses."""
    inputs, errors = matches_of(held)
    before, outliers = axis_nees(network.covariances, inputs, errors)
    for _ in range(ROUNDS):
        found, _ = axis_nees(network.covariances, inputs, errors)
        network.log_factor += torch.from_numpy(0.5 * np.log(found)).float()
    pose_nees = pose_scores(network.covariances, held).factor
    network.log_factor += 0.5 * float(np.log(pose_nees))
    scores = pose_scores(network.covariances, held)
    u, v, d0, d1 = before.tolist()
    beyond = (scores.beyond(3.0, 1.0), scores.beyond(5.0, 1.0))
    return Calibration((u, v, d0, d1), pose_nees, outliers, beyond)
