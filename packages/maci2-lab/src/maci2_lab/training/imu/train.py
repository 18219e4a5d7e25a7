"""Training: recordings give a weight file, by a recipe."""

import logging
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from maci2.datasets import open_recording
from maci2.errors import DatasetError, OptionError
from maci2.geometry.gaussian import predictive_variance
from maci2.imu import BiasPrior
from maci2.imu.bias_tracker import STD_INSTABILITY, StationaryShift, stationary_blocks
from maci2.imu.learned_model import (
    DeviceConstants,
    ImuModel,
    ModelCard,
    load_imu_model,
    require_no_gaps,
)
from maci2.sensors import ImuSamples, Recording, require_plausible
from maci2.types import Array
from maci2_lab.evaluation.imu_report import imu_report, model_predictor
from maci2_lab.evaluation.integration_errors import LabelNoise
from maci2_lab.training.imu.data import (
    Track,
    Windows,
    audited_variances,
    bias_prior,
    load_track,
    with_bias_tracked,
)
from maci2_lab.training.imu.device_fit import fitted_device, refined_device
from maci2_lab.training.imu.export import (
    RATE_TOLERANCE,
    export,
    first_card,
    with_bias,
    with_card,
    with_label_noise,
    with_turn_on,
)
from maci2_lab.training.imu.finish import (
    fit_label_noise,
    shrink_corrections,
    variance_factor,
    vertical_spread,
)
from maci2_lab.training.imu.likelihood import ErrorModel
from maci2_lab.training.imu.network import ConstantModel, ImuNetwork, Model, build
from maci2_lab.training.imu.recipes import Form, Recipe, form_named
from maci2_lab.training.imu.stages import Stage, Trainee, TrainingConfig, run_stage
from maci2_lab.training.weight_file import write_weights

log = logging.getLogger(__name__)

VALIDATION_STRIDE = 3
"""Audited states from one window to the next on which epochs are compared."""

ENOUGH = 3
"""Number of recordings with a stationary part from which the shift is learned."""


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
    load = partial(load_tracks, recipe, data=data)
    train, tune = load(recipe.train), load(recipe.tune)
    device = fitted_device(train, tune) if form.bias_spread else None
    if device is not None:
        device = refined_device(device, lambda d: load(recipe.train + recipe.tune, device=d))
        train, tune = load(recipe.train, device=device), load(recipe.tune, device=device)
    turn_on = turn_on_prior(train, tune) if form.tracks_bias else None
    shift = rest_shift(train + tune)
    if turn_on is not None:
        train = [with_bias_tracked(track, turn_on, shift) for track in train]
        tune = [with_bias_tracked(track, turn_on, shift) for track in tune]
    model, error_model = _start(form, train, tune, config.seed)
    kept = _run_stages(model, error_model, train, tune, config, work, progress)
    card = first_card(recipe, form_name, model, error_model, train + tune, config)
    card = card.model_copy(update={"correction_kept": kept})
    if form.bias_spread:
        card = _with_what_is_left(model, card, train + tune, work / "untracked.onnx")
    if turn_on is not None:
        card = with_turn_on(card, turn_on, shift, vertical_spread(train + tune))
    if device is not None:
        card = card.model_copy(update={"device": tuple(device.numbers.tolist())})
    finished = work / "finished.onnx"
    export(model, card, finished)
    recordings = [_open(recipe, name, data) for name in recipe.tune or recipe.train]
    card = measured_card(finished, recordings)
    # The result gets its name once, complete: a model without figures would look like one.
    write_weights(with_card(finished.read_bytes(), card), out)
    return card


def _with_what_is_left(model: Model, card: ModelCard, tracks: list[Track], path: Path) -> ModelCard:
    """The card with the bias that the finished network leaves and what published truths add; its
    variances are brought to what all recordings together say."""
    export(model, card, path)
    if isinstance(model, ImuNetwork):
        factor = variance_factor(load_imu_model(path), tracks)
        model.scale_acc_variances(factor)
        log.info("variances of the accelerometer times %.2f", factor)
        export(model, card, path)
    runner = load_imu_model(path)
    card = with_bias(card, _remaining(runner, tracks))
    labels = [_label_noise(runner, card, track) for track in tracks]
    return with_label_noise(card, labels, tracks)


def measured_card(weights: Path, recordings: list[Recording]) -> ModelCard:
    """Card of a written model with the figures that it has as users will run it, against audited
    truths."""
    model = load_imu_model(weights)
    report = imu_report(recordings, {"it": model_predictor(model)}, growth_s=(), audit=True)
    figures = {
        f"{quantity} {part} {horizon} s": round(value, 5)
        for quantity, horizons in report["audited"]["average"]["it"].items()
        for horizon, parts in horizons.items()
        for part, value in parts.items()
    }
    return model.about.model_copy(update={"figures": figures})


def turn_on_prior(train: list[Track], tune: list[Track]) -> BiasPrior:
    """Raw biases: the mean of the training recordings, the spread of all."""
    spread = _bias_prior(train + tune)
    mean = np.mean([track.own_bias.mean for track in train], axis=0)
    return BiasPrior(mean[:3], spread.std_gyro, mean[3:], spread.std_acc)


def rest_shift(tracks: list[Track]) -> StationaryShift:
    """Rate of the stationary gyroscope beyond its bias in motion."""
    rates = [(stationary_rate(track.imu), track.own_bias.mean[:3]) for track in tracks]
    return shift_of([rate - bias for rate, bias in rates if rate is not None])


def stationary_rate(samples: ImuSamples) -> Array | None:
    """(3,) what the gyroscope reads while stationary [rad/s]; None if the device never is."""
    blocks = stationary_blocks(samples)
    if not blocks.still.any():
        return None
    weight = blocks.std_rate[blocks.still] ** -2
    return np.asarray((weight * blocks.rate[blocks.still]).sum(0) / weight.sum(0))


def shift_of(seen: list[Array]) -> StationaryShift:
    """Shift to expect of an unseen recording, from the shifts of seen ones."""
    if len(seen) < ENOUGH:
        return StationaryShift()
    std = np.sqrt(predictive_variance(np.array(seen)) + STD_INSTABILITY**2)
    return StationaryShift(np.mean(seen, axis=0), np.full(3, std))


def load_tracks(
    recipe: Recipe, names: tuple[str, ...], data: Path, device: DeviceConstants | None = None
) -> list[Track]:
    """Open the recordings under `data`, or in its folder of the recipe's name, and audit their
    ground truths with the samples that the device's constants give."""
    tracks = []
    for name in names:
        recording = _open(recipe, name, data)
        require_plausible(recording.imu)
        require_no_gaps(recording.imu)
        tracks.append(load_track(recording, recipe.kind(recording.name), device))
        states = tracks[-1].audited.states
        log.info("%s: %d audited states, %d gaps", name, len(states), states.gaps)
    _require_one_rate(tracks)
    return tracks


def _open(recipe: Recipe, name: str, data: Path) -> Recording:
    return open_recording(_find(recipe, name, data), recipe.rig, recipe.topics)


def _find(recipe: Recipe, name: str, data: Path) -> Path:
    candidates = [data / name, data / recipe.name / name]
    for path in candidates:
        if path.exists():
            return path
    raise DatasetError(
        f"{name}: not found under {data}; looked for {candidates[0]} and {candidates[1]}. Name the "
        "folder that holds it with --data."
    )


def _require_one_rate(tracks: list[Track]) -> None:
    rates = [track.imu.rate_hz for track in tracks]
    if rates and max(rates) > (1.0 + RATE_TOLERANCE) * min(rates):
        pairs = ", ".join(f"{t.name} {t.imu.rate_hz:.1f} Hz" for t in tracks)
        raise DatasetError(f"{pairs}: recordings of one model must have one rate; resample them.")


def _start(
    form: Form, train: list[Track], tune: list[Track], seed: int
) -> tuple[Model, ErrorModel]:
    """A model at the training recordings' mean bias, with variances of the right size."""
    samples = np.concatenate(
        [np.concatenate([track.imu.gyro, track.imu.acc], axis=1) for track in train]
    )
    variance = _datasheet_variance(train[0])
    if "datasheet" not in form.uncertainty:
        learned = slice(0 if form.learns_gyro_noise else 3, 6)
        variance[learned] = _audited_variance(train)[learned]
    prior = _bias_prior(train + tune)
    spread = torch.tensor(np.concatenate([prior.std_gyro, prior.std_acc]))
    torch.manual_seed(seed)
    # Sums shared among threads would differ in their last digits from machine to machine.
    torch.set_num_threads(1)
    model = build(form, _float(samples.mean(0)), _float(samples.std(0)), _float(variance))
    bias = np.mean([track.own_bias.mean for track in train], axis=0)
    with torch.no_grad():
        model.constant.copy_(-_float(bias))
        if isinstance(model, ConstantModel) and form.uncertainty == "scaled datasheet":
            rough = _audited_variance(train) / variance
            model.log_factor.copy_(_float(np.log([rough[:3].mean(), rough[3:].mean()])))
    return model, ErrorModel(form, spread)


def _bias_prior(tracks: list[Track]) -> BiasPrior:
    return bias_prior([track.own_bias for track in tracks])


def _datasheet_variance(track: Track) -> Array:
    """(6,) of one sample."""
    densities = np.repeat([track.noise.density_gyro, track.noise.density_acc], 3)
    return np.asarray(densities**2 * track.imu.rate_hz)


def _audited_variance(tracks: list[Track]) -> Array:
    """(6,) of one sample, as the audits took it in the mean."""
    return np.asarray(np.mean([audited_variances(track).mean(axis=0) for track in tracks], axis=0))


def _float(values: Array) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32)


def _run_stages(
    model: Model,
    error_model: ErrorModel,
    train: list[Track],
    tune: list[Track],
    config: TrainingConfig,
    work: Path,
    progress: bool,
) -> list[float]:
    """Train; the shares of the correction that were kept."""
    kept: list[float] = []
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
            Windows(tracks, config.stride, seen),
            Windows(tracks, VALIDATION_STRIDE, unseen),
        )
        run_stage(trainee, work / stage, progress)
        if stage == "first" and tune and isinstance(model, ImuNetwork) and model.form.bias_spread:
            kept = list(shrink_corrections(model, train, tune))
            log.info("share of the network's correction kept: gyro %.2f, acc %.2f", *kept)
    return kept


def _remaining(runner: ImuModel, tracks: list[Track]) -> BiasPrior:
    """Remaining bias of the trained model in recordings whose turn-on bias is tracked."""
    left = []
    for track in tracks:
        measured = runner.measure(track.imu)
        assert measured.removed_gyro is not None
        assert measured.removed_acc is not None
        left.append(track.bias(np.hstack([measured.removed_gyro, measured.removed_acc])))
    return bias_prior(left)


def _label_noise(runner: ImuModel, card: ModelCard, track: Track) -> LabelNoise:
    measured = replace(runner.measure(track.imu), std_gyro_bias=track.std_gyro_bias)
    labels = fit_label_noise(measured, track, card.bias_prior())
    log.info("%s: noise of the truth %s", track.name, labels)
    return labels
