"""Losses: Huber on the integration errors, Gaussian likelihood on their covariance (Eq. 8, App. D).

The covariance of an error is a sum of what the form allows: noise of the samples, an initial
covariance (the paper), spread of the remaining bias; and of what the audited truth says of itself.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import huber_loss

from maci2.imu.learned_model import BLOCK, CONTEXT
from maci2_lab.training.imu.data import WARM_UP, Batch
from maci2_lab.training.imu.integration import (
    Integrated,
    integrate,
    so3_jr_inv,
    so3_log,
    steps_from_samples,
)
from maci2_lab.training.imu.network import Model
from maci2_lab.training.imu.recipes import Form

HUBER_DELTA = 0.005
FIRST_COV_0_STD = (1e-3,) * 3 + (1e-2,) * 3 + (1e-3,) * 3


class ErrorModel(nn.Module):
    """Contributions beside the samples' noise to the covariance of an integration error."""

    def __init__(self, form: Form, bias_std: Tensor) -> None:
        """`bias_std` (6,) spread of the remaining bias [gyro, acc]."""
        super().__init__()
        self.form = form
        self.bias_std: Tensor
        self.register_buffer("bias_std", bias_std.double())
        self.log_diagonal = nn.Parameter(torch.tensor(FIRST_COV_0_STD, dtype=torch.float64).log())
        self.below = nn.Parameter(torch.zeros(9, 9, dtype=torch.float64))

    def cov_0(self) -> Tensor:
        """(9, 9) the paper's initial covariance, through its Cholesky factor."""
        diagonal = self.log_diagonal.exp()
        # Rows are scaled by their diagonal, so that entries below it are of order one.
        lower = diagonal[:, None] * (torch.eye(9, dtype=torch.float64) + self.below.tril(-1))
        return lower @ lower.T

    def parameters_learned(self) -> list[nn.Parameter]:
        """Parameters of the initial covariance, where the form has one."""
        return [self.log_diagonal, self.below] if self.form.starts_uncertain else []

    def forward(self, found: Integrated, batch: Batch) -> Tensor:
        """(B, K, 9, 9) covariance of the errors."""
        cov = found.cov
        if self.form.starts_uncertain:
            cov = cov + found.errors_D_start @ self.cov_0() @ found.errors_D_start.mT
        cov = batch.seen @ cov @ batch.seen.mT + batch.cov_truth
        if self.form.bias_spread:
            scaled = found.errors_D_bias * self._bias_std(batch)[:, None, None]
            cov = cov + scaled @ scaled.mT
        return cov

    def _bias_std(self, batch: Batch) -> Tensor:
        """(B, 6) at the start; the tracker's own for a gyroscope whose bias is tracked."""
        std = self.bias_std.expand(len(batch.samples), 6)
        if batch.std_gyro_bias.shape[1] == 0:
            return std
        return torch.cat([batch.std_gyro_bias, std[:, 3:]], 1)


def integrate_windows(
    model: Model, batch: Batch, jitter: Tensor | None = None
) -> tuple[Integrated, Tensor]:
    """Run the model over the windows and integrate its corrected samples to the horizons; with it
    (B,) the mean logarithm of the accelerometer's variances.

    `jitter` (B, 1, 6) is added to what the model reads, not to what is integrated.
    """
    length = batch.times.shape[1]
    read = batch.samples if jitter is None else batch.samples + jitter
    correction, log_variance, *_ = model(read, *model.start_states(len(read)))
    covered = slice(WARM_UP // BLOCK, (WARM_UP + length) // BLOCK)
    correction, log_variance = (
        blocks[:, covered].double().repeat_interleave(BLOCK, 1)
        for blocks in (correction, log_variance)
    )
    first = WARM_UP + CONTEXT
    corrected = batch.samples[:, first : first + length].double() + correction
    variance = log_variance.exp()
    steps = steps_from_samples(
        batch.times,
        corrected[..., :3],
        corrected[..., 3:],
        variance[..., :3],
        variance[..., 3:],
    )
    mean_log_variance = log_variance[..., 3:].mean((1, 2))
    return integrate(steps, batch.horizons[0].tolist()), mean_log_variance


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
