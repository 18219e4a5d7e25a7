"""The one way from the name of an IMU model (`--imu`) to the function that applies it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from maci2.errors import CalibrationError
from maci2.files import read_json
from maci2.imu.learned_model import load_imu_model
from maci2.imu.measurements import BiasPrior, ImuMeasurements, datasheet_model, raw_model
from maci2.sensors import ImuNoise, ImuSamples
from maci2.types import Vec3
from maci2.validation import as_array, as_number

PREFIX = "noise:"
"""Beginning of an IMU model's name that means a file of `maci2 noise`."""

KEYS = ("density_gyro", "density_acc", "walk_gyro", "walk_acc")


@dataclass(frozen=True)
class MeasuredNoise:
    """White noise of each axis and random walks of the biases."""

    density_gyro: Vec3
    """(3,) [rad/s/sqrt(Hz)]"""

    density_acc: Vec3
    """(3,) [m/s^2/sqrt(Hz)]"""

    walk_gyro: float
    """[rad/s^2/sqrt(Hz)]"""

    walk_acc: float
    """[m/s^3/sqrt(Hz)]"""

    def measure(self, samples: ImuSamples, noise: ImuNoise) -> ImuMeasurements:
        """The samples as they are, with variances for their rate; the data sheet is not needed."""
        shape, rate_hz = samples.gyro.shape, samples.rate_hz
        return ImuMeasurements(
            stamps_ns=samples.stamps_ns,
            gyro=samples.gyro,
            acc=samples.acc,
            var_gyro=np.broadcast_to(self.density_gyro**2 * rate_hz, shape).copy(),
            var_acc=np.broadcast_to(self.density_acc**2 * rate_hz, shape).copy(),
            cov_0=np.zeros((9, 9)),
            bias_prior=BiasPrior(),
            source=samples.source,
            walk_gyro=self.walk_gyro,
            walk_acc=self.walk_acc,
        )


def read_measured_noise(path: Path) -> MeasuredNoise:
    """The file that `maci2 noise --json` writes."""
    record = read_json(path, "IMU noise", error=CalibrationError)
    missing = [key for key in KEYS if not isinstance(record, dict) or key not in record]
    if missing:
        raise CalibrationError(
            f"{path}: has no {', '.join(missing)}; needed the JSON of `maci2 noise --json`. For a "
            "Kalibr imu.yaml use --imu raw --imu-noise FILE."
        )
    try:
        gyro, acc = (
            as_array(record[key]["axes"], (3,), f"{path}: {key}.axes", CalibrationError)
            for key in KEYS[:2]
        )
        walks = [
            as_number(record[key]["value"], f"{path}: {key}.value", 0.0, error=CalibrationError)
            for key in KEYS[2:]
        ]
    except (KeyError, TypeError) as error:
        raise CalibrationError(
            f"{path}: {type(error).__name__} {error}; needed `axes` of both densities and `value` "
            "of both walks, as `maci2 noise --json` writes them."
        ) from error
    if not ((gyro > 0.0).all() and (acc > 0.0).all()):
        raise CalibrationError(f"{path}: densities are {gyro} and {acc}, needed above 0.")
    return MeasuredNoise(gyro, acc, float(walks[0]), float(walks[1]))


MeasureFunction = Callable[[ImuSamples, ImuNoise], ImuMeasurements]
"""Takes the samples of a device and its data sheet, gives samples with variances and a prior."""

UNLEARNED: dict[str, MeasureFunction] = {"raw": raw_model, "datasheet": datasheet_model}
"""Models that leave the samples as they are; both biases stay to be estimated."""


def is_learned(name: str) -> bool:
    """A model of this name corrects samples with a network."""
    return name not in UNLEARNED and not name.startswith(PREFIX)


def needs_datasheet(name: str) -> bool:
    """A model of this name takes its noise from the rig's calibration."""
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

    A file is read now, so that a wrong name is reported before any data are read.
    """
    if name.startswith(PREFIX):
        return read_measured_noise(Path(name.removeprefix(PREFIX))).measure
    if not is_learned(name):
        return UNLEARNED[name]
    model = load_imu_model(name)
    return lambda samples, noise: model.measure(samples)
