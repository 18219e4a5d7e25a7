"""The one way from the name of an IMU model (`--imu`) to the function that applies it."""

from collections.abc import Callable
from pathlib import Path

from maci2.imu.learned_model import load_imu_model
from maci2.imu.measured_noise import PREFIX, read_measured_noise
from maci2.imu.measurements import ImuMeasurements, datasheet_model, raw_model
from maci2.sensors import ImuNoise, ImuSamples

MeasureFunction = Callable[[ImuSamples, ImuNoise], ImuMeasurements]
"""Takes the samples of a device and its data sheet, gives samples with variances and a prior."""

UNLEARNED: dict[str, MeasureFunction] = {"raw": raw_model, "datasheet": datasheet_model}
"""Models that leave the samples as they are; both biases stay to be estimated."""


def is_learned(name: str) -> bool:
    """Whether a model of this name corrects samples with a network."""
    return name not in UNLEARNED and not name.startswith(PREFIX)


def needs_datasheet(name: str) -> bool:
    """Whether a model of this name takes its noise from the rig's calibration."""
    return name in UNLEARNED


def measured_walks(name: str) -> tuple[float, float] | None:
    """Random walks of gyroscope and accelerometer bias that a model of this name has from a
    measurement in motion; None where the data sheet's are what is known."""
    if not name.startswith(PREFIX):
        return None
    noise = read_measured_noise(Path(name.removeprefix(PREFIX)))
    return noise.walk_gyro, noise.walk_acc


def calibrated_samples(name: str, samples: ImuSamples) -> ImuSamples:
    """The samples without the device's errors that the model of this name knows, as audits of
    ground truth for its scores use them."""
    return load_imu_model(name).calibrated(samples) if is_learned(name) else samples


def find_imu_model(name: str) -> MeasureFunction:
    """The IMU model called `name`: raw, datasheet, noise:FILE, a bundled model, or a weight file.

    A file is read now, so that a wrong name is told before any data are looked at.
    """
    if name.startswith(PREFIX):
        return read_measured_noise(Path(name.removeprefix(PREFIX))).measure
    if not is_learned(name):
        return UNLEARNED[name]
    model = load_imu_model(name)
    return lambda samples, noise: model.measure(samples)
