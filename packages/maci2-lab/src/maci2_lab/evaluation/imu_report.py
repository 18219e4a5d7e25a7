"""Consistency of the covariances of an IMU model: integration errors against their prediction.

Consistency of the covariances of an IMU model: integration errors against their prediction.

A predictor says how it corrects samples and what it expects of an error: noise of the samples (and
an initial covariance, in the paper's form), spread of the remaining bias, noise of the truth that
the error is measured against. The last comes with the model, by kind of truth, from the recordings
it was tuned on; nothing is fitted to the recording under test.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from maci2.errors import OptionError
from maci2.geometry.gaussian import nees
from maci2.imu import ALPHA, BETA, GAMMA, BiasPrior, ImuMeasurements
from maci2.imu.learned_model import ImuModel, bundled_models, load_imu_model
from maci2.imu.model_choice import find_imu_model, is_learned
from maci2.sensors import ImuSamples, Recording
from maci2.tools.ground_truth.choose import audited_or_none, published_names
from maci2.types import Array
from maci2_lab.evaluation.audited_integration import audited_states, audited_windows
from maci2_lab.evaluation.integration_errors import (
    NO_LABEL_NOISE,
    LabelNoise,
    WindowErrors,
    integration_errors,
)
from maci2_lab.evaluation.truth_states import TruthStates, truth_states


@dataclass(frozen=True)
class Predictor:
    """A model under test."""

    measure: Callable[[Recording], ImuMeasurements]
    """Applies the model to a recording's samples."""

    calibrated: Callable[[ImuSamples], ImuSamples]
    """Takes off the device's errors that the model knows; audits use the samples so."""

    bias: BiasPrior | None
    """Spread of the remaining bias of the samples, where the model has one."""

    labels: Callable[[str], LabelNoise]
    """Noise of the ground truth of a recording, by the recording's name."""


def unlearned_predictor(name: str) -> Predictor:
    """Uncorrected samples with the noise of the IMU model `raw` or `datasheet`."""
    measure = find_imu_model(name)
    return Predictor(
        lambda recording: measure(recording.imu, recording.rig.imu),
        lambda samples: samples,
        None,
        lambda _: NO_LABEL_NOISE,
    )


def model_predictor(model: ImuModel) -> Predictor:
    """A learned model and all it states of its errors."""
    card = model.about

    def labels(name: str) -> LabelNoise:
        short = name.removeprefix("dataset-")
        for beginning, kind in card.truth_kinds.items():
            if short.startswith(beginning) and kind in card.label_noise:
                return LabelNoise(**card.label_noise[kind].model_dump())
        return NO_LABEL_NOISE

    bias = card.bias_prior() if card.bias_std else None
    return Predictor(lambda recording: model.measure(recording.imu), model.calibrated, bias, labels)


def choose_predictors(
    recordings: list[Recording], names: list[str], baselines: bool
) -> dict[str, Predictor]:
    """The requested models, or the bundled one for these recordings; with `baselines`, also the
    bundled variants of each model and raw samples with data-sheet noise."""
    chosen = names or [_bundled_for(recordings)]
    if baselines:
        variants = [
            variant
            for name in chosen
            for variant in bundled_models()
            if variant.startswith(f"{name}-")
        ]
        chosen = [*chosen, *variants, "datasheet"]
    return {name: _predictor(name) for name in dict.fromkeys(chosen)}


def _predictor(name: str) -> Predictor:
    return model_predictor(load_imu_model(name)) if is_learned(name) else unlearned_predictor(name)


def _bundled_for(recordings: list[Recording]) -> str:
    """`tumvi` for its rooms, else `euroc`."""
    rooms = all(
        recording.name.removeprefix("dataset-").startswith("room") for recording in recordings
    )
    return "tumvi" if rooms else "euroc"


PARTS = {"rotation": GAMMA, "velocity": BETA, "position": ALPHA}
HORIZONS_S = (0.25, 1.0)
GROWTH_S = (0.05, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5)
STRIDE_S = 0.1
BINS = 6
TRUTHS = ("state_groundtruth_openvins",)
"""Ground truths preferred to a recording's default one: V1_01's own is off by 5.5 deg."""

Scored = tuple[WindowErrors, Array]
"""Errors over windows and the covariance that was predicted for each."""


def imu_report(
    recordings: list[Recording],
    predictors: dict[str, Predictor],
    horizons_s: tuple[float, ...] = HORIZONS_S,
    growth_s: tuple[float, ...] = GROWTH_S,
    bins: int = BINS,
    names: Sequence[str] = (),
    truth_names: tuple[str, ...] = TRUTHS,
    audit: bool = False,
) -> dict[str, Any]:
    """Numbers per recording and model, their averages, bins pooled over recordings, growth.

    `names` are those under which recordings are reported; their own where none are given. With
    `audit` the same models are also compared with the audited ground truths, under `audited`;
    it has no recordings, and None for their average, where nothing could be audited.
    """
    if not recordings:
        raise OptionError("imu-report: no recording given; name at least one.")
    horizons = sorted({*horizons_s, *growth_s})
    published, audited = _Tally(predictors, horizons_s), _Tally(predictors, horizons_s)
    shown = names or [recording.name for recording in recordings]
    for shown_name, recording in zip(shown, recordings, strict=True):
        measured = {name: one.measure(recording) for name, one in predictors.items()}
        truth = recording.truth(published_names(truth_names))
        states = truth_states(recording.imu, truth, recording.name)
        scored = {
            name: {h: _scored(measured[name], states, h, one, recording.name) for h in horizons}
            for name, one in predictors.items()
        }
        about = {"truth_jumps": states.jumps, "truth_gaps": states.gaps}
        published.add(shown_name, scored, growth_s, about)
        if audit:
            against = _audited(recording, measured, predictors, horizons_s, truth_names)
            if against is not None:
                audited.add(shown_name, against, (), {})
    report = published.report(bins)
    return report | {"audited": audited.report(bins)} if audit else report


class _Tally:
    """Scores against one kind of ground truth, recording after recording."""

    def __init__(self, predictors: dict[str, Predictor], horizons_s: tuple[float, ...]) -> None:
        self.horizons_s = horizons_s
        self.sequences: dict[str, Any] = {}
        self.pooled: dict[str, dict[str, list[tuple[Array, Array]]]] = {n: {} for n in predictors}

    def add(
        self,
        name: str,
        scored: dict[str, dict[float, Scored]],
        growth_s: tuple[float, ...],
        about: dict[str, Any],
    ) -> None:
        """Add one recording, by model and horizon; `about` holds further entries."""
        for model, by_horizon in scored.items():
            for h in self.horizons_s:
                windows, cov = by_horizon[h]
                self.pooled[model].setdefault(_key(h), []).append((windows.e, cov))
        self.sequences[name] = about | _sequence(scored, self.horizons_s, growth_s)

    def report(self, bins: int) -> dict[str, Any]:
        """The numbers under the keys of imu-report; without a recording the average is None."""
        known = bool(self.sequences)
        return {
            "sequences": self.sequences,
            "average": {n: _average(self.sequences, n) for n in self.pooled} if known else None,
            "bins": {n: _binned(parts, bins) for n, parts in self.pooled.items()},
        }


def _audited(
    recording: Recording,
    measured: dict[str, ImuMeasurements],
    predictors: dict[str, Predictor],
    horizons_s: tuple[float, ...],
    truth_names: tuple[str, ...],
) -> dict[str, dict[float, Scored]] | None:
    """Errors against the audited ground truth by model and horizon; None where there is none.

    The audit is made with the samples as the model calibrates them: one that followed a wrong scale
    would call the model's correction of it an error.
    """
    chosen = recording.truth(truth_names)
    stated = chosen is not None and chosen.covariance is not None
    scored: dict[str, dict[float, Scored]] = {}
    for name, predictor in predictors.items():
        calibrated = replace(recording, imu=predictor.calibrated(recording.imu))
        truth = chosen if stated else audited_or_none(calibrated, truth_names)
        if truth is None:
            return None
        audited = audited_states(calibrated.imu, recording.rig.imu, truth, recording.name)
        scored[name] = {}
        for horizon_s in horizons_s:
            windows = audited_windows(audited, horizon_s)
            errors = _without_mean_bias(windows.errors(measured[name]), predictor)
            scored[name][horizon_s] = errors, windows.cov(errors, predictor.bias)
    return scored


def _sequence(
    scored: dict[str, dict[float, Scored]],
    horizons_s: tuple[float, ...],
    growth_s: tuple[float, ...],
) -> dict[str, Any]:
    """One recording under the keys of imu-report; windows are the same for every model."""
    models: dict[str, Any] = {}
    for name, by_horizon in scored.items():
        models[name] = _numbers({h: by_horizon[h] for h in horizons_s})
        if growth_s:
            models[name]["growth"] = _numbers({h: by_horizon[h] for h in growth_s})
    last = list(scored.values())[-1]
    errors = {_key(h): last[h][0] for h in horizons_s}
    return {
        "windows": {key: len(windows.dt) for key, windows in errors.items()},
        "windows_left_out": {key: windows.left_out for key, windows in errors.items()},
        "models": models,
    }


def _key(horizon_s: float) -> str:
    return str(float(horizon_s))


def _scored(
    measured: ImuMeasurements,
    states: TruthStates,
    horizon_s: float,
    predictor: Predictor,
    name: str,
) -> Scored:
    """Errors over windows and their predicted covariance; the known mean bias is taken off."""
    labels = predictor.labels(name)
    errors = integration_errors(labels.shown(measured), states, horizon_s, STRIDE_S)
    windows = _without_mean_bias(errors, predictor)
    return windows, windows.cov(predictor.bias, labels)


def _without_mean_bias(windows: WindowErrors, predictor: Predictor) -> WindowErrors:
    if predictor.bias is None:
        return windows
    mean = np.concatenate([predictor.bias.mean_gyro, predictor.bias.mean_acc])
    return windows.without_bias(mean)


def _numbers(scored: dict[float, Scored]) -> dict[str, Any]:
    """NEES per degree of freedom, rms error and rms prediction, by horizon and part."""
    out: dict[str, Any] = {"nees": {}, "rms": {}, "predicted": {}}
    for horizon_s, (windows, cov) in scored.items():
        key = _key(horizon_s)
        blocks = {part: (windows.e[:, b], cov[:, b, b]) for part, b in PARTS.items()}
        out["nees"][key] = {p: float(nees(e, c).mean() / 3.0) for p, (e, c) in blocks.items()}
        out["rms"][key] = {p: _rms(e) for p, (e, _) in blocks.items()}
        out["predicted"][key] = {
            p: float(np.sqrt(_trace(c).mean())) for p, (_, c) in blocks.items()
        }
    return out


def _rms(e: Array) -> float:
    return float(np.sqrt((e**2).sum(1).mean()))


def _trace(cov: Array) -> Array:
    return np.asarray(np.trace(cov, axis1=1, axis2=2))


def _average(sequences: dict[str, Any], model: str) -> dict[str, Any]:
    """Means over recordings, each with the same weight."""
    each = [sequence["models"][model] for sequence in sequences.values()]
    return {
        quantity: {
            key: {
                part: float(np.mean([one[quantity][key][part] for one in each])) for part in PARTS
            }
            for key in each[0][quantity]
        }
        for quantity in ("nees", "rms")
    }


def _binned(pooled: dict[str, list[tuple[Array, Array]]], bins: int) -> dict[str, Any]:
    """Equally filled bins of predicted sigma, with rms error and rms prediction in each."""
    out: dict[str, Any] = {}
    for key, parts in pooled.items():
        e = np.concatenate([one for one, _ in parts])
        cov = np.concatenate([one for _, one in parts])
        out[key] = {}
        for part, block in PARTS.items():
            sigma2 = _trace(cov[:, block, block])
            rows = []
            for inside in np.array_split(np.argsort(sigma2, kind="stable"), bins):
                predicted = float(np.sqrt(sigma2[inside].mean()))
                rms = _rms(e[inside, block])
                rows.append(
                    {
                        "predicted": predicted,
                        "rms": rms,
                        "ratio": rms / predicted,
                        "count": len(inside),
                    }
                )
            out[key][part] = rows
    return out
