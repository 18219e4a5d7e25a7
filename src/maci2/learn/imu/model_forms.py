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

    starts_uncertain: bool
    """Whether every integration starts with the paper's covariance Sigma_0, in fusion too."""

    bias_spread: bool
    """Whether the bias left in the samples has its own covariance, apart from their noise."""

    likelihood: Literal["full", "marginal"]
    """9x9, or three 3x3 blocks as the paper prints it."""

    held_out_stage: bool
    """Whether uncertainties are tuned on recordings that the corrections have not seen."""

    learns_gyro_noise: bool = True
    """Whether the gyroscope's variances are learned, or the data sheet's: orientation truths hide
    its noise (where they were integrated from it) or drown it (motion capture)."""

    axes_alike: bool = False
    """Whether a sensor's three axes have one variance: a handful of recordings cannot tell them
    apart beside biases that wander (`docs/research/imu_model.md`)."""

    tracks_bias: bool = False
    """Whether the gyroscope's turn-on bias is tracked (`maci2.imu.bias_tracker`) before all."""

    hidden: tuple[int, int] = (64, 64)
    """Widths of the two GRU layers."""


FORMS: dict[str, Form] = {
    "separated": Form(
        "network",
        "cnn",
        False,
        True,
        "full",
        True,
        learns_gyro_noise=False,
        axes_alike=True,
        tracks_bias=True,
    ),
    "paper": Form("network", "cnn", True, False, "marginal", True),
    "airimu": Form("network", "gru", False, False, "marginal", False),
    "paramnet": Form("constant", "constant", False, False, "marginal", False),
    "datasheet": Form("constant", "datasheet", False, False, "marginal", False),
    "temperature": Form("constant", "scaled datasheet", False, False, "marginal", True),
}

DEFAULT_FORM = "separated"


def form_named(name: str) -> Form:
    """The form, or an error that lists them."""
    if name not in FORMS:
        raise OptionError(f"--model {name}: no such form; choose one of {', '.join(FORMS)}.")
    return FORMS[name]
