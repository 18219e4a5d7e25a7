"""Recipes (recordings a model is trained on), of the bundled models and of anybody's own, and
the forms of the model that can be trained: ours, the paper's, and the baselines."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from maci2.errors import OptionError


@dataclass(frozen=True)
class Recipe:
    """Recordings to train on, and what kind of truth each has."""

    name: str
    train: tuple[str, ...]
    """Names of folders or bags, or paths, that everything is fitted to."""

    tune: tuple[str, ...]
    """Recordings of the held-out stage, which fits uncertainties only."""

    truth_kinds: dict[str, str]
    """Kind of truth by the beginning of a recording's name."""

    limits: tuple[str, ...] = ()

    rig: Path | None = None
    """Calibration instead of the recordings' own; bags need it."""

    topics: str = ""
    """Topics of a bag by role."""

    def __post_init__(self) -> None:
        if not self.train:
            raise OptionError(f"recipe '{self.name}': no recording to train on.")
        train, tune = ({Path(name).name for name in names} for names in (self.train, self.tune))
        shared = sorted(train & tune)
        if shared:
            raise OptionError(
                f"recipe '{self.name}': {', '.join(shared)} is in both the training and the "
                "held-out part; uncertainties tuned on seen recordings are too small. Use each "
                "recording once."
            )

    def without(self, names: Sequence[str]) -> "Recipe":
        """The recipe with recordings held out, to be measured on them: those of a day are alike, so
        that leaving out one of them says little."""
        for name in names:
            if name not in self.train + self.tune:
                raise OptionError(
                    f"--leave-out {name}: not in recipe '{self.name}'; choose of "
                    f"{', '.join(self.train + self.tune)}."
                )
        train, tune = (tuple(n for n in kept if n not in names) for kept in (self.train, self.tune))
        return replace(self, train=train, tune=tune)

    def kind(self, name: str) -> str:
        """The kind of truth of a recording."""
        for beginning, kind in self.truth_kinds.items():
            if name.removeprefix("dataset-").startswith(beginning):
                return kind
        return "truth"


EUROC = Recipe(
    "euroc",
    ("MH_01_easy", "MH_05_difficult", "V2_01_easy", "V2_03_difficult"),
    ("MH_03_medium", "V1_02_medium"),
    {"MH": "leica", "V": "vicon"},
    ("the ADIS16448 of EuRoC's VI-sensor on its MAV; another IMU needs its own training",),
)
TUMVI = Recipe(
    "tumvi",
    ("dataset-room1_512_16", "dataset-room3_512_16"),
    ("dataset-room5_512_16",),
    {"room": "mocap"},
    ("the calibrated release of TUM-VI's BMI160, hand-held; another IMU needs its own training",),
)
RECIPES = {recipe.name: recipe for recipe in (EUROC, TUMVI)}


def chosen_recipe(name: str, train: tuple[str, ...], tune: tuple[str, ...]) -> Recipe:
    """The recipe of this name, or one of the user's own where recordings are named."""
    if train:
        return Recipe(name, train, tune, {})
    if name not in RECIPES:
        raise OptionError(
            f"{name}: no such recipe ({', '.join(RECIPES)}); for your own recordings give "
            "--train and --tune."
        )
    return RECIPES[name]


@dataclass(frozen=True)
class Form:
    """Parts of a model and of its training."""

    correction: Literal["network", "constant"]
    """network: CNN and GRU; constant: one vector for all samples."""

    uncertainty: Literal["cnn", "gru", "constant", "datasheet", "scaled datasheet"]
    """Source of the samples' variances."""

    starts_uncertain: bool
    """True if every integration starts with the paper's covariance Sigma_0, in fusion too."""

    bias_spread: bool
    """True if the remaining bias of the samples has its own covariance, apart from their noise."""

    likelihood: Literal["full", "marginal"]
    """9x9, or three 3x3 blocks as the paper prints it."""

    held_out_stage: bool
    """True if uncertainties are tuned on recordings that the corrections have not seen."""

    learns_gyro_noise: bool = True
    """False for the data sheet's variances of the gyroscope: orientations of ground truth hide its
    noise (where they were integrated from it) or drown it (motion capture)."""

    axes_alike: bool = False
    """True if a sensor's three axes have one variance: a handful of recordings cannot
    distinguish them beside biases that wander (`docs/research/imu_model.md`)."""

    tracks_bias: bool = False
    """True if the gyroscope's turn-on bias is tracked (`maci2.imu.bias_tracker`) before all."""

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


def form_named(name: str) -> Form:
    """The form, or an error that lists them."""
    if name not in FORMS:
        raise OptionError(f"--model {name}: no such form; choose one of {', '.join(FORMS)}.")
    return FORMS[name]
