"""Training of the match covariance: a small network, a heavy-tailed likelihood, calibration."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from maci2.errors import DatasetError
from maci2.gaussian import nees
from maci2.learn.vision.data import RenderedMatches
from maci2.lie import se3_inv, se3_log
from maci2.types import Array
from maci2.vision.covariance_models import MAX_STD_PX, MIN_STD_PX, OUTPUTS, covariances
from maci2.vision.keypoints import spread
from maci2.vision.match_features import INPUTS
from maci2.vision.outlier_rejection import consensus_pose
from maci2.vision.relative_pose import MAX_MATCHES, MIN_MATCHES, RADIUS_PX

TAIL = 4.0
"""Degrees of freedom of the Student t: errors of matches have heavy tails."""

GATE = 5.0
"""Standard deviations beyond which a match is an outlier and left to the robust loss."""

POSE_GATE = 22.46
"""Squared Mahalanobis norm beyond which a pose is lost: 99.9 % of chi-square with 6 dof."""

HELD_OUT = 0.25
"""Share of the scenes that only calibration sees."""

GROSS_PX = 10.0
"""Errors beyond this are a lost match: counted, not learned from."""

ROUNDS = 20
"""Rounds of calibration: what lies inside the gate changes with the factors."""

_DIAGONAL = [0, 2, 5, 9]


@dataclass(frozen=True)
class VisionTrainingConfig:
    """How to train."""

    epochs: int = 30
    batch: int = 1024
    rate: float = 2e-3
    weight_decay: float = 1e-4
    seed: int = 0


@dataclass(frozen=True)
class Calibration:
    """Consistency of the covariance on scenes not trained on."""

    axis_nees: tuple[float, float, float, float]
    """Per axis u1, v1, d0, d1, outliers rejected, before the factors of the axes were set."""

    pose_nees: float
    """Per degree of freedom, after that and before the common factor was set."""

    outliers: float
    """Share of matches beyond the gate."""


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
    """Fit on three quarters of the scenes, calibrate on the rest."""
    fitted, held = split(rendered)
    inputs, errors = matches_of(fitted)
    torch.manual_seed(config.seed)
    # Sums shared among threads would differ in their last digits from machine to machine.
    torch.set_num_threads(1)
    network = MatchNetwork()
    x, e = torch.from_numpy(inputs), torch.from_numpy(errors.astype(np.float32))
    network.mean.copy_(x.mean(dim=0))
    network.scale.copy_(1.0 / (x.std(dim=0) + 1e-3))
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=config.rate, weight_decay=config.weight_decay
    )
    updates = config.epochs * (len(x) // config.batch + 1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, config.rate, total_steps=updates + 1)
    for _ in range(config.epochs):
        for batch in torch.randperm(len(x)).split(config.batch):
            optimizer.zero_grad()
            student_nll(network(x[batch]), e[batch]).backward()
            nn.utils.clip_grad_norm_(network.parameters(), 5.0)
            optimizer.step()
            schedule.step()
    network.eval()
    return network, calibrate(network, held)


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
    axis_nees, outliers = _axis_nees(network, inputs, errors)
    for _ in range(ROUNDS):
        found, _ = _axis_nees(network, inputs, errors)
        network.log_factor += torch.from_numpy(0.5 * np.log(found)).float()
    pose_nees = _pose_nees(network, held)
    network.log_factor += 0.5 * float(np.log(pose_nees))
    u, v, d0, d1 = axis_nees.tolist()
    return Calibration((u, v, d0, d1), pose_nees, outliers)


def _axis_nees(
    network: MatchNetwork, inputs: NDArray[np.float32], errors: Array
) -> tuple[Array, float]:
    """Per axis inside the gate, and the share outside."""
    ratio = errors**2 / np.diagonal(network.covariances(inputs), axis1=1, axis2=2)
    inside = np.asarray((ratio < GATE**2).all(axis=1))
    return ratio[inside].mean(axis=0), float(1.0 - inside.mean())


def _pose_nees(network: MatchNetwork, rendered: list[RenderedMatches]) -> float:
    """Per degree of freedom, of relative poses inside the gate."""
    scores = np.array([_score(network, one) for one in rendered if len(one.errors) >= MIN_MATCHES])
    factor = 1.0
    for _ in range(ROUNDS):
        factor = float(scores[scores < POSE_GATE * factor].mean() / 6.0)
    return factor


def _score(network: MatchNetwork, one: RenderedMatches) -> float:
    covs = network.covariances(one.inputs)
    chosen = spread(one.matches.uv0, np.linalg.det(covs), MAX_MATCHES, RADIUS_PX)
    pose = consensus_pose(one.matches.take(chosen), covs[chosen], one.camera)
    error = se3_log(pose.T_ck_ck1 @ se3_inv(one.T_ck_ck1))
    return float(nees(error, pose.cov))
