"""Losses: Huber on the integration errors, Gaussian likelihood on their covariance (Eq. 8, App. D).

The covariance of an error is a sum of what the form allows: noise of the samples, an initial
covariance (the paper), spread of the remaining bias, noise of the labels at both ends.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import huber_loss, pad

from maci2.imu.network_shape import BLOCK, CONTEXT
from maci2.learn.imu.integration import (
    Integrated,
    integrate,
    so3_jr_inv,
    so3_log,
    steps_from_samples,
)
from maci2.learn.imu.model_forms import Form
from maci2.learn.imu.network import Model
from maci2.learn.imu.training_windows import HORIZONS, LENGTH, WARM_UP, Batch

HUBER_DELTA = 0.005
FIRST_LABEL_STD = (1e-3, 5e-3, 1e-3, 3e-4, 5e-4, 1e-3)
"""Where label noise starts [rad, m/s, m, s, rad/s, rad]: rotation, velocity, position, time, drift
and tilt."""

FIRST_GYRO_SHOWN = 0.5
"""Where the share of the gyroscope's noise that a truth shows starts."""

FIRST_COV_0_STD = (1e-3,) * 3 + (1e-2,) * 3 + (1e-3,) * 3


class ErrorModel(nn.Module):
    """What stands beside the samples' noise in the covariance of an integration error."""

    def __init__(self, form: Form, recordings: int, bias_std: Tensor) -> None:
        """`bias_std` (6,) spread of the remaining bias [gyro, acc]."""
        super().__init__()
        self.form = form
        self.bias_std: Tensor
        self.register_buffer("bias_std", bias_std.double())
        rows = recordings if form.start == "per recording" else 1
        first = torch.tensor(FIRST_LABEL_STD, dtype=torch.float64).log()
        self.log_label_std = nn.Parameter(first.repeat(rows, 1))
        # Logarithm of the odds: a share stays between nothing and all.
        first_odds = math.log(FIRST_GYRO_SHOWN / (1.0 - FIRST_GYRO_SHOWN))
        self.log_odds_shown = nn.Parameter(torch.full((recordings,), first_odds).double())
        self.log_diagonal = nn.Parameter(torch.tensor(FIRST_COV_0_STD, dtype=torch.float64).log())
        self.below = nn.Parameter(torch.zeros(9, 9, dtype=torch.float64))

    def cov_0(self) -> Tensor:
        """(9, 9) the paper's initial covariance, through its Cholesky factor."""
        diagonal = self.log_diagonal.exp()
        # Rows are scaled by their diagonal, so that entries below it are of order one.
        lower = diagonal[:, None] * (torch.eye(9, dtype=torch.float64) + self.below.tril(-1))
        return lower @ lower.T

    def start_parameters(self) -> list[nn.Parameter]:
        """Parameters of the initial covariance, where the form has one."""
        return [self.log_diagonal, self.below] if self.form.start == "cov_0" else []

    def label_parameters(self) -> list[nn.Parameter]:
        """Parameters of the label noise, where the form has it."""
        two_ended = self.form.start in ("two-ended", "per recording")
        learned = [self.log_label_std] if two_ended else []
        if self.form.truth_may_hide_gyro_noise:
            learned.append(self.log_odds_shown)
        return learned

    def gyro_shown(self, recording: Tensor) -> Tensor:
        """(B,) share of the variance of the gyroscope's samples that the truths show."""
        if not self.form.truth_may_hide_gyro_noise:
            return torch.ones(len(recording), dtype=torch.float64)
        return self.log_odds_shown.sigmoid()[recording]

    def forward(self, found: Integrated, batch: Batch) -> Tensor:
        """(B, K, 9, 9) covariance of the errors."""
        cov = found.cov
        if self.form.start == "cov_0":
            cov = cov + found.errors_D_start @ self.cov_0() @ found.errors_D_start.mT
        if self.form.bias_spread:
            scaled = found.errors_D_bias * self._bias_std(batch)[:, None, None]
            cov = cov + scaled @ scaled.mT
        if self.form.start in ("two-ended", "per recording"):
            start = self._labels(batch.recording, batch.rates[:, :1])
            end = self._labels(batch.recording, batch.rates[:, 1:])
            cov = cov + found.errors_D_start @ start @ found.errors_D_start.mT + end
            cov = cov + self._drift(batch.recording, found.t)
            tilted = self._std(batch.recording)[..., 5:, None] * found.errors_D_start[..., :3]
            tilted = tilted * (torch.arange(9) >= 3)[:, None]
            cov = cov + tilted @ tilted.mT
        return cov

    def _bias_std(self, batch: Batch) -> Tensor:
        """(B, 6) at the start; the tracker's own for a gyroscope whose bias is tracked."""
        std = self.bias_std.expand(len(batch.recording), 6)
        if batch.std_gyro_bias.shape[1] == 0:
            return std
        return torch.cat([batch.std_gyro_bias, std[:, 3:]], 1)

    def _drift(self, recording: Tensor, t: Tensor) -> Tensor:
        """(B, K, 9, 9) of the truth's orientation, growing with the time between both ends."""
        variance = (self._std(recording)[..., 4] * t).square()
        return torch.diag_embed(pad(variance[..., None].expand(-1, -1, 3), (0, 6)))

    def _std(self, recording: Tensor) -> Tensor:
        each = self.form.start == "per recording"
        row = recording if each else torch.zeros_like(recording)
        return self.log_label_std.exp()[row][:, None]

    def _labels(self, recording: Tensor, rates: Tensor) -> Tensor:
        """(B, ..., 9, 9) of states that move with `rates`."""
        std = self._std(recording)
        floor = std[..., :3].square().repeat_interleave(3, -1)
        moved = std[..., 3:4] * rates
        return torch.diag_embed(floor) + moved[..., :, None] * moved[..., None, :]


def integrate_windows(
    model: Model, batch: Batch, gyro_shown: Tensor, jitter: Tensor | None = None
) -> Integrated:
    """Run the model over the windows and integrate its corrected samples to the horizons.

    `gyro_shown` (B,) is the share of the gyroscope's variance that counts. `jitter` (B, 1, 6) is
    added to what the model reads, not to what is integrated.
    """
    read = batch.samples if jitter is None else batch.samples + jitter
    correction, log_variance, *_ = model(read, *model.start_states(len(read)))
    covered = slice(WARM_UP // BLOCK, (WARM_UP + LENGTH) // BLOCK)
    correction, log_variance = (
        blocks[:, covered].double().repeat_interleave(BLOCK, 1)
        for blocks in (correction, log_variance)
    )
    first = WARM_UP + CONTEXT
    corrected = batch.samples[:, first : first + LENGTH].double() + correction
    variance = log_variance.exp()
    steps = steps_from_samples(
        batch.times,
        corrected[..., :3],
        corrected[..., 3:],
        gyro_shown[:, None, None] * variance[..., :3],
        variance[..., 3:],
    )
    return integrate(steps, list(HORIZONS))


def errors(found: Integrated, batch: Batch) -> Tensor:
    """(B, K, 9) [Log(R_truth^T gamma), beta - beta_truth, alpha - alpha_truth]."""
    rotation = so3_log(batch.R_bi_bj.mT @ found.gamma)
    return torch.cat([rotation, found.beta - batch.beta, found.alpha - batch.alpha], -1)


def huber(e: Tensor, valid: Tensor) -> Tensor:
    """Mean over valid windows of L_r + L_v + L_p."""
    each = huber_loss(e, torch.zeros_like(e), reduction="none", delta=HUBER_DELTA).sum(-1)
    return (each * valid).sum() / valid.sum()


def negative_log_likelihood(e: Tensor, cov: Tensor, valid: Tensor, form: Form) -> Tensor:
    """Mean over valid windows of (|e|^2_cov + ln det cov) / 2, constants dropped."""
    J = torch.eye(9, dtype=e.dtype, device=e.device).repeat(*e.shape[:2], 1, 1)
    J[..., :3, :3] = so3_jr_inv(e[..., :3])
    cov = J @ cov @ J.mT
    if form.likelihood == "full":
        each = _gaussian(e, cov)
    else:
        blocks = [slice(k, k + 3) for k in (0, 3, 6)]
        each = torch.stack([_gaussian(e[..., b], cov[..., b, b]) for b in blocks]).sum(0)
    return torch.where(valid, each, torch.zeros_like(each)).sum() / valid.sum()


def _gaussian(e: Tensor, cov: Tensor) -> Tensor:
    lower = torch.linalg.cholesky(cov)
    white = torch.linalg.solve_triangular(lower, e[..., None], upper=False)[..., 0]
    log_det = 2.0 * lower.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return 0.5 * (white.square().sum(-1) + log_det)
