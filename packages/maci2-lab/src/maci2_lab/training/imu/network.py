"""The network: a shared CNN, corrections through GRUs, uncertainties from the CNN (App. D).

Two convolutions of kernel 7 and stride 3 make one feature vector per block of 9 samples, from the
25 samples around the block's first: 12 of look-ahead. The caller brings those samples, so nothing
inside pads. Both GRU states go in and come out, so that a stream may be run in pieces.
"""

import math

import torch
from torch import Tensor, nn

from maci2.imu.learned_model import BLOCK, CONTEXT
from maci2_lab.training.imu.recipes import Form

CHANNELS = (32, 64)
KERNEL = 7
STRIDE = 3
DROPOUT = 0.1

CORRECTION_SCALE = (math.radians(1.0),) * 3 + (0.1,) * 3
"""Size of a learned correction [rad/s, m/s^2]; the constant part is not bound by it."""

MAX_LOG_FACTOR = 3.0
"""A sample's variance stays within a factor of e^3 = 20 of the learned constant."""

assert STRIDE * STRIDE == BLOCK
assert (KERNEL - 1) // 2 * (1 + STRIDE) == CONTEXT


class ImuNetwork(nn.Module):
    """Samples (B, 9 m + 16, 6) -> corrections (B, m, 6) and log variances (B, m, 6).

    The first sample given lies `CONTEXT` before the first block.
    """

    def __init__(self, form: Form, mean: Tensor, std: Tensor, variance: Tensor) -> None:
        """`mean` and `std` (6,) of the training samples; `variance` (6,) to start from."""
        super().__init__()
        self.form = form
        self.mean: Tensor
        self.std: Tensor
        self.scale: Tensor
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)
        self.register_buffer("scale", torch.tensor(CORRECTION_SCALE))
        self.learned: Tensor
        self.first_log_variance: Tensor
        learned = torch.tensor([form.learns_gyro_noise] * 3 + [True] * 3)
        self.register_buffer("learned", learned)
        self.register_buffer("first_log_variance", variance.log())
        self.alike: Tensor
        mean_of_three = torch.full((3, 3), 1.0 / 3.0)
        self.register_buffer("alike", torch.block_diag(mean_of_three, mean_of_three))
        self.constant = nn.Parameter(torch.zeros(6))
        self.log_variance = nn.Parameter(variance.log())
        first, second = CHANNELS
        self.encoder = nn.Sequential(_convolution(6, first), _convolution(first, second))
        self.gru_1 = nn.GRU(second, form.hidden[0], batch_first=True)
        self.gru_2 = nn.GRU(form.hidden[0], form.hidden[1], batch_first=True)
        self.correction_head = _head(form.hidden[1])
        self.uncertainty_head = _head(form.hidden[1] if form.uncertainty == "gru" else second)

    def start_states(self, batch: int) -> tuple[Tensor, Tensor]:
        """GRU states at the start of a stream."""
        one, two = self.form.hidden
        return torch.zeros(1, batch, one), torch.zeros(1, batch, two)

    def forward(
        self, samples: Tensor, state_1: Tensor, state_2: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Corrections to add, log variances, and both GRU states after the last block."""
        scaled = (samples - self.mean) / self.std
        features = self.encoder(scaled.transpose(1, 2)).transpose(1, 2)
        hidden, state_1 = self.gru_1(features, state_1)
        hidden, state_2 = self.gru_2(hidden, state_2)
        read = hidden if self.form.uncertainty == "gru" else features
        correction = self.constant + self.scale * self.correction_head(hidden)
        # Motion unlike any in training must not make a sample worthless, nor priceless.
        spread = MAX_LOG_FACTOR * torch.tanh(self.uncertainty_head(read) / MAX_LOG_FACTOR)
        learned = self.log_variance + spread
        if self.form.axes_alike:
            learned = learned @ self.alike
        log_variance = torch.where(self.learned, learned, self.first_log_variance)
        return correction, log_variance, state_1, state_2

    def scale_acc_variances(self, factor: float) -> None:
        """Multiply all of the accelerometer's variances."""
        with torch.no_grad():
            self.log_variance[3:] += math.log(factor)

    def uncertainty_parameters(self) -> list[nn.Parameter]:
        """All of the network that the held-out stage may move."""
        return [self.log_variance, *self.uncertainty_head.parameters()]


class ConstantModel(nn.Module):
    """One correction and one variance for all samples, behind the network's interface."""

    def __init__(self, form: Form, variance: Tensor) -> None:
        super().__init__()
        self.form = form
        self.datasheet: Tensor
        self.register_buffer("datasheet", variance.log())
        self.constant = nn.Parameter(torch.zeros(6))
        # The data sheet's ratios of axes stay; one factor for each sensor.
        self.log_factor = nn.Parameter(torch.zeros(2 if "datasheet" in form.uncertainty else 6))

    def start_states(self, batch: int) -> tuple[Tensor, Tensor]:
        """Empty, for the interface's sake."""
        return torch.zeros(1, batch, 1), torch.zeros(1, batch, 1)

    def forward(
        self, samples: Tensor, state_1: Tensor, state_2: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Constant outputs with the signature of `ImuNetwork.forward`."""
        blocks = torch.zeros_like(samples[:, CONTEXT : samples.shape[1] - CONTEXT : BLOCK])
        factors = self.log_factor.repeat_interleave(6 // self.log_factor.shape[0])
        return blocks + self.constant, blocks + self.datasheet + factors, state_1, state_2

    def uncertainty_parameters(self) -> list[nn.Parameter]:
        """The factors, unless the data sheet is taken as it is."""
        return [] if self.form.uncertainty == "datasheet" else [self.log_factor]


Model = ImuNetwork | ConstantModel


def build(form: Form, mean: Tensor, std: Tensor, datasheet: Tensor) -> Model:
    """A model of this form that starts at the data sheet's variances (6,)."""
    if form.correction == "constant":
        return ConstantModel(form, datasheet)
    return ImuNetwork(form, mean, std, datasheet)


def _convolution(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv1d(inputs, outputs, KERNEL, stride=STRIDE),
        nn.BatchNorm1d(outputs),
        nn.GELU(),
        nn.Dropout(DROPOUT),
    )


def _head(inputs: int) -> nn.Sequential:
    """Starts at zero output: training begins at the constant model."""
    last = nn.Linear(128, 6)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(nn.Linear(inputs, 128), nn.GELU(), last)
