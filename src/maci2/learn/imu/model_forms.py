"""The forms of the IMU model that can be trained: ours, the paper's, and the baselines."""

from dataclasses import dataclass
from typing import Literal

from maci2.errors import OptionError


@dataclass(frozen=True)
class Form:
    """What a model is made of."""

    correction: Literal["network", "constant"]
    """network: CNN and GRU; constant: one vector for all samples."""

    uncertainty: Literal["cnn", "gru", "constant", "datasheet", "scaled datasheet"]
    """What the samples' variances are read from."""

    start: Literal["nothing", "cov_0", "two-ended", "per recording"]
    """What stands beside the samples' noise: nothing; the paper's initial covariance, in fusion
    too; noise of the labels at both ends, one for all recordings or one for each. Label
    noise never enters fusion."""

    bias_spread: bool
    """Whether the bias left in the samples has its own covariance, apart from their noise."""

    likelihood: Literal["full", "marginal"]
    """9x9, or three 3x3 blocks as the paper prints it."""

    held_out_stage: bool
    """Whether uncertainties are tuned on recordings that the corrections have not seen."""

    learns_gyro_noise: bool = True
    """Whether the gyroscope's variances are learned, or the data sheet's: orientation truths hide
    its noise (where they were integrated from it) or drown it (motion capture)."""

    truth_may_hide_gyro_noise: bool = False
    """Whether it is learned, for each recording, how much of the gyroscope's noise its truth shows:
    nothing where that truth was integrated from the same samples."""

    tracks_bias: bool = False
    """Whether the gyroscope's turn-on bias is tracked (`maci2.imu.bias_tracking`) before all."""

    hidden: tuple[int, int] = (64, 64)
    """Widths of the two GRU layers."""


FORMS: dict[str, Form] = {
    "separated": Form(
        "network",
        "cnn",
        "per recording",
        True,
        "full",
        True,
        learns_gyro_noise=False,
        truth_may_hide_gyro_noise=True,
        tracks_bias=True,
    ),
    "paper": Form("network", "cnn", "cov_0", False, "marginal", True),
    "two-ended": Form("network", "cnn", "two-ended", False, "full", True),
    "airimu": Form("network", "gru", "nothing", False, "marginal", False),
    "paramnet": Form("constant", "constant", "nothing", False, "marginal", False),
    "datasheet": Form("constant", "datasheet", "nothing", False, "marginal", False),
    "temperature": Form("constant", "scaled datasheet", "nothing", False, "marginal", True),
}

DEFAULT_FORM = "separated"


def form_named(name: str) -> Form:
    """The form, or an error that lists them."""
    if name not in FORMS:
        raise OptionError(f"--model {name}: no such form; choose one of {', '.join(FORMS)}.")
    return FORMS[name]
