"""Training of the match covariance: a small network, a heavy-tailed likelihood, calibration in
scenes that were not trained on."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from maci2.errors import DatasetError
from maci2.geometry import se3_inv, se3_log
from maci2.geometry.gaussian import chi2_quantile, chi2_significance, nees
from maci2.types import Array
from maci2.vision.covariance import INPUTS, MAX_STD_PX, MIN_STD_PX, OUTPUTS, covariances
from maci2.vision.keyframe import spread
from maci2.vision.relative_pose import (
    CONTAMINATION,
    MAX_MATCHES,
    MIN_MATCHES,
    RADIUS_PX,
    consensus_pose,
    contamination_scale,
)
from maci2.vision.two_frame import INLIER_CHI2, ROBUST_FACTOR, ROBUST_NORM, points
from maci2_lab.training.vision.data import RenderedMatches

GATE = 5.0
"""Standard deviations beyond which a match is an outlier and left to the robust loss."""

POSE_GATE = chi2_quantile(6, 0.999)
"""Squared Mahalanobis norm beyond which a pose is lost: 99.9 % of chi-square with 6 dof."""

GROSS_PX = 10.0
"""Errors beyond this are a lost match: counted, not learned from."""

ROUNDS = 20
"""Rounds of calibration: what lies inside the gate changes with the factors."""

TAIL_COSTS = ((3.0, 1.0), (5.0, 5.0))
"""Standard deviations, and what all poses beyond them would cost, in natural logarithm: a pose that
is wrong and certain harms more than its share."""

Covariances = Callable[[NDArray[np.float32]], Array]
"""Network inputs (n, INPUTS) -> covariances (n, 4, 4) [px^2]."""


@dataclass(frozen=True)
class Calibration:
    """Consistency of the covariance on scenes not trained on."""

    axis_nees: tuple[float, float, float, float]
    """Per axis u1, v1, d0, d1, outliers rejected, before the factors of the axes were set."""

    pose_nees: float
    """Per degree of freedom, after that and before the common factor was set."""

    outliers: float
    """Share of matches beyond the gate."""

    beyond_sigmas: tuple[float, float] = (0.0, 0.0)
    """Shares of poses beyond 3 and 5 standard deviations, when calibrated."""


@dataclass(frozen=True)
class PoseScores:
    """Agreement of the estimator's poses with the true ones."""

    squares: Array
    """(n,) squared Mahalanobis norms of the errors."""

    log_dets: Array
    """(n,) of the covariances."""

    @property
    def factor(self) -> float:
        """NEES per degree of freedom of the poses inside the gate."""
        factor = 1.0
        for _ in range(ROUNDS):
            factor = float(self.squares[self.squares < POSE_GATE * factor].mean() / 6.0)
        return factor

    def beyond(self, sigmas: float, factor: float) -> float:
        """Share of errors as improbable as one of so many standard deviations in one dimension,
        when covariances are multiplied by a factor."""
        limit = chi2_quantile(6, 1.0 - chi2_significance(1, sigmas**2))
        return float((self.squares > factor * limit).mean())

    @property
    def cost(self) -> float:
        """Criterion that decides between networks: negative log likelihood per degree of freedom of
        poses inside the gate when calibrated, and the price of tails."""
        factor = self.factor
        spread_of = 0.5 * (np.median(self.log_dets) / 6.0 + np.log(factor))
        return float(spread_of) + sum(
            cost * self.beyond(sigmas, factor) for sigmas, cost in TAIL_COSTS
        )


def axis_nees(
    covariances: Covariances, inputs: NDArray[np.float32], errors: Array
) -> tuple[Array, float]:
    """(4,) of matches inside the gate, and the share outside."""
    ratio = errors**2 / np.diagonal(covariances(inputs), axis1=1, axis2=2)
    inside = np.asarray((ratio < GATE**2).all(axis=1))
    return ratio[inside].mean(axis=0), float(1.0 - inside.mean())


def pose_scores(covariances: Covariances, rendered: list[RenderedMatches]) -> PoseScores:
    """Scores of all relative poses with matches enough, as the estimator finds them."""
    found = [_score(covariances, one) for one in rendered if len(one.matches) >= MIN_MATCHES]
    squares, log_dets = np.array(found).T
    return PoseScores(squares, log_dets)


def _score(covariances: Covariances, one: RenderedMatches) -> tuple[float, float]:
    covs = covariances(one.inputs)
    chosen = spread(one.matches.uv0, np.linalg.det(covs), MAX_MATCHES, RADIUS_PX)
    pose = consensus_pose(one.matches.take(chosen), covs[chosen], one.camera, one.predicted)
    cov = contamination_scale(pose) * pose.cov
    error = se3_log(pose.T_ck_ck1 @ se3_inv(one.T_ck_ck1))
    return float(nees(error, cov)), float(np.linalg.slogdet(cov)[1])


Mask = NDArray[np.bool_]

POSE_TAIL = 8.0
"""Degrees of freedom of the Student t that poses are given: tails cost, but a lost pose does not
decide alone."""

FLOOR_PX = 1e-3
"""Keeps residual covariances from being singular."""


@dataclass(frozen=True)
class LinearizedPoses:
    """Matches of some relative poses, linearized at the true motion, in double precision."""

    inputs: Tensor
    """(n, INPUTS) what the network reads, in single precision."""

    pose: Tensor
    """(n,) which relative pose each match belongs to."""

    count: int
    """Number of relative poses."""

    r: Tensor
    """(n, 3) residuals p0 - T p1 [m]."""

    D: Tensor
    """(n, 3, 4) their derivative by (u1, v1, d0, d1)."""

    J: Tensor
    """(n, 3, 6) their derivative by the pose."""


def linearized(rendered: list[RenderedMatches], kept: list[Mask]) -> LinearizedPoses:
    """Some matches of each relative pose, by mask."""
    parts = [_linearized_one(one, which) for one, which in zip(rendered, kept, strict=True)]
    r, D, J = (torch.from_numpy(np.concatenate(column)) for column in zip(*parts, strict=True))
    inputs = np.concatenate([one.inputs[which] for one, which in zip(rendered, kept, strict=True)])
    pose = np.repeat(np.arange(len(parts)), [len(part[0]) for part in parts])
    return LinearizedPoses(torch.from_numpy(inputs), torch.from_numpy(pose), len(parts), r, D, J)


def _linearized_one(one: RenderedMatches, which: Mask) -> tuple[Array, Array, Array]:
    matches, camera = one.matches.take(which), one.camera
    R, t = one.T_ck_ck1[:3, :3], one.T_ck_ck1[:3, 3]
    p0 = points(matches.uv0, matches.disparity0, camera)
    p1 = points(matches.uv1, matches.disparity1, camera)
    turned = p1 @ R.T
    q = turned + t
    D = np.empty((len(q), 3, 4))
    D[:, :, :2] = -R[:, :2] * (p1[:, 2] / camera.focal)[:, None, None]
    D[:, :, 2] = -p0 / matches.disparity0[:, None]
    D[:, :, 3] = turned / matches.disparity1[:, None]
    J = np.zeros((len(q), 3, 6))
    J[:, range(3), range(3)] = -1.0
    J[:, 0, 4], J[:, 0, 5] = -q[:, 2], q[:, 1]
    J[:, 1, 3], J[:, 1, 5] = q[:, 2], -q[:, 0]
    J[:, 2, 3], J[:, 2, 4] = -q[:, 1], q[:, 0]
    return p0 - q, D, J


def factors(outputs: Tensor) -> Tensor:
    """(n, 4, 4) Cholesky factors [px] of the network's outputs, in double precision."""
    rows, columns = np.tril_indices(4)
    shares = torch.zeros(len(outputs), 4, 4, dtype=torch.float64)
    shares[:, rows, columns] = outputs.double()
    diagonal = torch.diagonal(shares, dim1=1, dim2=2)
    std = diagonal.clamp(float(np.log(MIN_STD_PX)), float(np.log(MAX_STD_PX))).exp()
    lower = torch.tril(shares, -1) + torch.eye(4, dtype=torch.float64)
    return std[:, :, None] * lower


def pose_nll(outputs: Tensor, poses: LinearizedPoses) -> Tensor:
    """Mean negative log likelihood of the true motions, per degree of freedom.

    Likelihood of the true motions under poses that predicted match covariances weigh together.

    Errors of single matches do not tell everything: those of one thing that moves, of one edge of
    depth or of one repeating wall err together, and weights matter only against each other. So the
    network is also asked how probable its poses make the true ones. Each is one step of Eq. 5 from
    the truth, where everything but the covariances is known beforehand. It tells weights apart, not
    the size of all of them together, since a robust loss makes up for too small ones: that is set
    by matches and calibration.
    """
    D_L = poses.D @ factors(outputs)
    floor = FLOOR_PX * poses.D
    S = D_L @ D_L.transpose(1, 2) + floor @ floor.transpose(1, 2)
    W = torch.linalg.inv(S)
    chi2 = torch.einsum("ni,nij,nj->n", poses.r, W, poses.r).detach()
    fits = chi2 < INLIER_CHI2
    weight = fits / (1.0 + chi2 / ROBUST_NORM**2)
    JtW = poses.J.transpose(1, 2) @ W * weight[:, None, None]
    prior = 1e-3 * torch.eye(6, dtype=torch.float64)
    H = prior.repeat(poses.count, 1, 1).index_add(0, poses.pose, JtW @ poses.J)
    g = torch.zeros(poses.count, 6, dtype=torch.float64).index_add(
        0, poses.pose, torch.einsum("nij,nj->ni", JtW, poses.r)
    )
    error = torch.linalg.solve(H, g)
    matches = torch.bincount(poses.pose, minlength=poses.count)
    inliers = torch.bincount(poses.pose[fits], minlength=poses.count).clamp(min=1)
    factor = ROBUST_FACTOR * (1.0 + CONTAMINATION * (matches - inliers) / inliers)
    square = torch.einsum("ni,nij,nj->n", error, H, error) / factor
    log_det = 6.0 * torch.log(factor) - torch.linalg.slogdet(H).logabsdet
    nll = 0.5 * log_det + 0.5 * (POSE_TAIL + 6.0) * torch.log1p(square / POSE_TAIL)
    return nll.mean() / 6.0


TAIL = 4.0
"""Degrees of freedom of the Student t: errors of matches have heavy tails."""

HELD_OUT = 0.25
"""Share of the scenes that only calibration sees."""

_DIAGONAL = [0, 2, 5, 9]


@dataclass(frozen=True)
class VisionTrainingConfig:
    """Options of training."""

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
