"""IMU models under test: how each corrects samples and what it states of its errors."""

from collections.abc import Callable
from dataclasses import dataclass

from maci2.evaluation.integration_errors import NO_LABEL_NOISE, LabelNoise
from maci2.imu import BiasPrior, ImuMeasurements
from maci2.imu.learned_model import ImuModel, bundled_models, load_imu_model
from maci2.imu.model_choice import find_imu_model, is_learned
from maci2.sensors import ImuSamples, Recording


@dataclass(frozen=True)
class Predictor:
    """A model under test."""

    measure: Callable[[Recording], ImuMeasurements]
    """Applies the model to a recording's samples."""

    calibrated: Callable[[ImuSamples], ImuSamples]
    """Takes off the device's errors that the model knows; audits use the samples so."""

    bias: BiasPrior | None
    """Spread of the bias left in the samples, where the model states one."""

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
