"""From recordings to a weight file: the recipes of the bundled models, and of anybody's own."""

import logging
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from maci2 import __version__
from maci2.errors import DatasetError, OptionError
from maci2.evaluation.integration_errors import integration_errors
from maci2.gaussian import Array
from maci2.imu import BiasPrior, datasheet_model
from maci2.imu.model import load_imu_model
from maci2.imu.model_card import FORMAT, UNITS, LabelNoiseCard, ModelCard
from maci2.imu.network_shape import CONTEXT
from maci2.learn.alignment import align, bias_prior
from maci2.learn.export import export
from maci2.learn.forms import Form, form_named
from maci2.learn.likelihood import ErrorModel
from maci2.learn.network import ConstantModel, ImuNetwork, Model, build
from maci2.learn.shrinkage import shrink_corrections
from maci2.learn.training import Stage, Trainee, TrainingConfig, run_stage
from maci2.learn.windows import Track, Windows, load_track, with_bias_tracked
from maci2.sensors import open_recording

log = logging.getLogger(__name__)

VALIDATION_STRIDE = 50
RATE_TOLERANCE = 0.02
ROUGH_S = 0.25
MAX_FORCE_ANGLE_DEG = 60.0
"""Mean specific forces further apart than this mean other axes or another mounting."""


@dataclass(frozen=True)
class Recipe:
    """Which recordings, and what kind of truth each has."""

    name: str
    train: tuple[str, ...]
    """Names of folders or bags, or paths, that everything is fitted to."""

    tune: tuple[str, ...]
    """The same for the held-out stage: uncertainties only."""

    truth_kinds: dict[str, str]
    """Kind of truth by the beginning of a recording's name."""

    limits: tuple[str, ...] = ()

    rig: Path | None = None
    """Calibration instead of the recordings' own; bags need it."""

    topics: str = ""
    """Which topic of a bag is what."""

    def __post_init__(self) -> None:
        if not self.train:
            raise OptionError(f"recipe '{self.name}': no recording to train on.")
        shared = sorted(set(self.train) & set(self.tune))
        if shared:
            raise OptionError(
                f"recipe '{self.name}': {', '.join(shared)} is in both the training and the "
                "held-out part; uncertainties tuned on seen recordings are too small. Use each "
                "recording once."
            )

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


def train_imu(
    recipe: Recipe,
    data: Path,
    out: Path,
    form_name: str,
    work: Path,
    config: TrainingConfig | None = None,
    progress: bool = True,
) -> ModelCard:
    """Train a form by a recipe, write the weight file, return its card.

    Checkpoints go to `work`; called again after an interruption it goes on from there and ends with
    the same weights.
    """
    config = config or TrainingConfig()
    form = form_named(form_name)
    if form.held_out_stage and not recipe.tune:
        raise OptionError(
            f"--model {form_name} tunes its uncertainties on held-out recordings, but recipe "
            f"'{recipe.name}' has none; name some, or choose a form without that stage."
        )
    train = load_tracks(recipe, recipe.train, data)
    tune = load_tracks(recipe, recipe.tune, data)
    kinds = sorted({track.kind for track in train + tune})
    turn_on = turn_on_prior(train, tune) if form.tracks_bias else None
    if turn_on is not None:
        train = [with_bias_tracked(track, turn_on) for track in train]
        tune = [with_bias_tracked(track, turn_on) for track in tune]
    model, error_model = _start(form, train, tune, kinds, config.seed)
    _run_stages(model, error_model, train, tune, kinds, config, work, progress)
    card = _card(recipe, form_name, model, error_model, train + tune, kinds, config)
    if form.bias_spread:
        card = _with_bias(card, _remaining(model, card, train + tune, work))
    if turn_on is not None:
        card = card.model_copy(update=_turn_on_entries(turn_on))
    export(model, card, out)
    return card


def turn_on_prior(train: list[Track], tune: list[Track]) -> BiasPrior:
    """Raw biases: the mean of the training recordings, the spread of all."""
    spread = _bias_prior(train + tune)
    mean = np.mean([track.alignment.bias for track in train], axis=0)
    return BiasPrior(mean[:3], spread.std_gyro, mean[3:], spread.std_acc)


def load_tracks(recipe: Recipe, names: tuple[str, ...], data: Path) -> list[Track]:
    """Open the recordings under `data`, or in its folder of the recipe's name."""
    tracks = []
    for name in names:
        candidates = [data / name, data / recipe.name / name]
        path = next((one for one in candidates if one.exists()), None)
        if path is None:
            raise DatasetError(
                f"{name}: not found under {data}; looked for "
                f"{' and '.join(str(one) for one in candidates)}. Name the folder that holds it "
                "with --data."
            )
        recording = open_recording(path, recipe.rig, recipe.topics)
        tracks.append(load_track(recording, recipe.kind(recording.name)))
        states, alignment = tracks[-1].states, tracks[-1].alignment
        log.info(
            "%s: %d truth states, %d jumps, %d gaps, truth tilted %.2f deg",
            name,
            len(states),
            states.jumps,
            states.gaps,
            alignment.tilt_deg,
        )
    _require_one_rate(tracks)
    return tracks


def _require_one_rate(tracks: list[Track]) -> None:
    rates = [track.imu.rate_hz for track in tracks]
    if rates and max(rates) > (1.0 + RATE_TOLERANCE) * min(rates):
        pairs = ", ".join(f"{t.name} {t.imu.rate_hz:.1f} Hz" for t in tracks)
        raise DatasetError(f"{pairs}: recordings of one model must have one rate; resample them.")


def _start(
    form: Form, train: list[Track], tune: list[Track], kinds: list[str], seed: int
) -> tuple[Model, ErrorModel]:
    """A model at the training recordings' mean bias, with variances of the right size."""
    samples = np.concatenate(
        [np.concatenate([track.imu.gyro, track.imu.acc], axis=1) for track in train]
    )
    variance = _datasheet_variance(train[0])
    if "datasheet" not in form.uncertainty:
        variance = np.mean([_rough_variance(track) for track in train], axis=0)
    prior = _bias_prior(train + tune)
    spread = torch.tensor(np.concatenate([prior.std_gyro, prior.std_acc]))
    torch.manual_seed(seed)
    model = build(form, _float(samples.mean(0)), _float(samples.std(0)), _float(variance))
    bias = np.mean([track.alignment.bias for track in train], axis=0)
    with torch.no_grad():
        model.constant.copy_(-_float(bias))
        if isinstance(model, ConstantModel) and form.uncertainty == "scaled datasheet":
            rough = np.mean([_rough_variance(track) for track in train], axis=0) / variance
            model.log_factor.copy_(_float(np.log([rough[:3].mean(), rough[3:].mean()])))
    return model, ErrorModel(form, kinds, spread)


def _bias_prior(tracks: list[Track]) -> BiasPrior:
    return bias_prior([track.alignment for track in tracks], [track.kind for track in tracks])


def _datasheet_variance(track: Track) -> Array:
    """(6,) of one sample."""
    densities = np.repeat([track.noise.density_gyro, track.noise.density_acc], 3)
    return np.asarray(densities**2 * track.imu.rate_hz)


def _rough_variance(track: Track) -> Array:
    """(6,) that explains the errors over `ROUGH_S` once the recording's bias is known."""
    bias, gravity_w = track.alignment.bias, track.alignment.gravity_w
    measured = datasheet_model(track.imu, track.noise)
    measured = replace(measured, gyro=measured.gyro - bias[:3], acc=measured.acc - bias[3:])
    windows = integration_errors(measured, track.states, ROUGH_S, ROUGH_S, gravity_w)
    # White noise of variance s^2 per sample adds up to s^2 t / rate.
    return np.asarray((windows.e[:, :6] ** 2).mean(0) * track.imu.rate_hz / ROUGH_S)


def _float(values: Array) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32)


def _run_stages(
    model: Model,
    error_model: ErrorModel,
    train: list[Track],
    tune: list[Track],
    kinds: list[str],
    config: TrainingConfig,
    work: Path,
    progress: bool,
) -> None:
    seen, unseen = (0.0, 1.0 - config.validation_share), (1.0 - config.validation_share, 1.0)
    stages: list[tuple[Stage, list[Track]]] = []
    if model.form.uncertainty != "datasheet":
        stages.append(("first", train))
    if model.form.held_out_stage:
        stages.append(("held-out", tune))
    for stage, tracks in stages:
        trainee = Trainee(
            model,
            error_model,
            config,
            stage,
            Windows(tracks, kinds, config.stride, seen),
            Windows(tracks, kinds, VALIDATION_STRIDE, unseen),
        )
        run_stage(trainee, work / stage, progress)
        if stage == "first" and tune and isinstance(model, ImuNetwork) and model.form.bias_spread:
            shares = shrink_corrections(model, train, tune)
            log.info("share of the network's correction kept: gyro %.2f, acc %.2f", *shares)


def _card(
    recipe: Recipe,
    form_name: str,
    model: Model,
    error_model: ErrorModel,
    tracks: list[Track],
    kinds: list[str],
    config: TrainingConfig,
) -> ModelCard:
    form = model.form
    forces = np.array([track.imu.acc.mean(0) for track in tracks])
    mean_force = forces.mean(0) / np.linalg.norm(forces.mean(0))
    cov_0 = error_model.cov_0().detach().numpy().tolist() if form.start == "cov_0" else []
    return ModelCard(
        format=FORMAT,
        name=recipe.name if form_name == "separated" else f"{recipe.name}-{form_name}",
        form=form_name,
        package_version=__version__,
        trained_on=[Path(name).name for name in recipe.train],
        tuned_on=[Path(name).name for name in recipe.tune] if form.held_out_stage else [],
        seed=config.seed,
        rate_hz=round(tracks[0].imu.rate_hz, 1),
        rate_tolerance=RATE_TOLERANCE,
        units=UNITS,
        lookahead_samples=CONTEXT,
        mean_force=tuple(mean_force.tolist()),
        max_force_angle_deg=MAX_FORCE_ANGLE_DEG,
        turn_on_mean=[],
        turn_on_std=[],
        bias_mean=[0.0] * 6,
        bias_std=[],
        cov_0=cov_0,
        label_noise=_label_noise(error_model, kinds, tracks),
        truth_kinds=recipe.truth_kinds,
        figures={},
        limits=list(recipe.limits),
    )


def _label_noise(
    error_model: ErrorModel, kinds: list[str], tracks: list[Track]
) -> dict[str, LabelNoiseCard]:
    if error_model.form.start not in ("two-ended", "per kind"):
        return {}
    rows = error_model.log_label_std.detach().exp().numpy()
    return {
        kind: LabelNoiseCard(
            std_rotation=row[0],
            std_velocity=row[1],
            std_position=row[2],
            std_time=row[3],
            std_drift=row[4],
            std_tilt=_tilt_spread([track for track in tracks if track.kind == kind]),
        )
        for kind, row in zip(kinds, np.broadcast_to(rows, (len(kinds), 5)), strict=True)
    }


def _tilt_spread(tracks: list[Track]) -> float:
    """[rad] each axis: worlds of unseen recordings are as far from level as those seen."""
    tilts = [np.radians(track.alignment.tilt_deg) for track in tracks]
    return float(np.sqrt(np.mean(np.square(tilts)) / 2.0))


def _remaining(model: Model, card: ModelCard, tracks: list[Track], work: Path) -> BiasPrior:
    """The bias that the trained model leaves in recordings whose turn-on bias is tracked."""
    path = work / "untracked.onnx"
    export(model, card, path)
    runner = load_imu_model(path)
    left = [
        replace(track, alignment=align(runner.measure(track.imu), track.states)) for track in tracks
    ]
    return _bias_prior(left)


def _turn_on_entries(turn_on: BiasPrior) -> dict[str, list[float]]:
    return {
        "turn_on_mean": np.concatenate([turn_on.mean_gyro, turn_on.mean_acc]).tolist(),
        "turn_on_std": np.concatenate([turn_on.std_gyro, turn_on.std_acc]).tolist(),
    }


def _with_bias(card: ModelCard, prior: BiasPrior) -> ModelCard:
    return card.model_copy(
        update={
            "bias_mean": np.concatenate([prior.mean_gyro, prior.mean_acc]).tolist(),
            "bias_std": np.concatenate([prior.std_gyro, prior.std_acc]).tolist(),
        }
    )
