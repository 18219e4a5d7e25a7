"""IMU samples as a model returns them: corrected, each with its variance, and the vertical.

Over a window of 2.5 s the mean error of an accelerometer in flight tilts gravity by a tenth of a
degree, whatever the camera sees. The tracker of the gyroscope's bias (`maci2.imu.bias_tracker`)
carries an attitude through the whole stream, in which such errors average out; what it knows of the
vertical where a window begins is a measurement of its own.
"""

from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from maci2 import validation
from maci2.calibration_prior import CALIBRATED
from maci2.errors import DatasetError, MeasurementError
from maci2.field_docs import document_fields
from maci2.geometry import so3_exp
from maci2.imu.values import RESOLUTION, changed
from maci2.sensors import ImuNoise, ImuSamples
from maci2.types import NS, Array, Stamps


class VerticalPrior(NamedTuple):
    """The vertical at one instant, with what biases add to its error."""

    down_b: Array
    """(3,) unit vector of gravity in the body frame."""

    white: Array
    """(2, 9) W: with phi the rotation from the true direction of gravity to `down_b`, body frame
    [rad], W [phi, bias - `bias`] has unit covariance."""

    bias: Array
    """(6,) bias left in the samples [gyro, acc] at which `down_b` is unbiased."""


NO_VERTICAL = VerticalPrior(np.zeros(3), np.zeros((2, 9)), np.zeros(6))
"""Nothing is known of the vertical."""


@dataclass(frozen=True)
class TrackedVertical:
    """Attitude along n samples, each from the samples before it, and its tilt's covariance."""

    Rs_w_b: Array
    """(n, 3, 3) attitude in a level world of arbitrary heading."""

    block: Stamps
    """(n,) index of the block of samples that was used last; -1 where none was."""

    bias: Array
    """(m, 6) bias of the raw sensor [gyro, acc] after each block, as the tracker estimates it."""

    tilt_D_bias: Array
    """(m, 2, 6) what an error of that bias adds to the tilt about the world's x and y axes."""

    cov_tilt: Array
    """(m, 2, 2) covariance of the tilt where the bias is known, by the tracker's noise [rad^2]."""

    std_lasting: float
    """Standard deviation of the tilt that the tracker does not know of [rad], one axis: in flight
    an accelerometer's errors last for longer than the white noise of a filter."""

    def part(self, first: int, last: int) -> "TrackedVertical":
        """The samples of this range."""
        return replace(self, Rs_w_b=self.Rs_w_b[first:last], block=self.block[first:last])

    def after(self, sample: int, phi_b: Array, removed: Array) -> VerticalPrior | None:
        """The vertical after a rotation `phi_b` that follows a sample, from which an IMU model has
        removed the bias `removed` (6,); None where nothing is known yet."""
        block = int(self.block[sample])
        if block < 0:
            return None
        R_w_b = self.Rs_w_b[sample] @ so3_exp(np.ascontiguousarray(phi_b))
        cov = self.cov_tilt[block] + self.std_lasting**2 * np.eye(2)
        white_tilt = np.linalg.inv(np.linalg.cholesky(cov))
        white = white_tilt @ np.hstack([R_w_b[:2], -self.tilt_D_bias[block]])
        return VerticalPrior(-R_w_b[2], white, self.bias[block] - removed)


VIBRATION_SHARE = 0.1
"""Share of the excess high-frequency variance that acts like white noise; the rest is vibration
that integrates to nothing. Chosen on MH_01, MH_05, V2_01 and V1_02 of EuRoC, where it brings the
mean NEES of velocities from 2.9 to 1.0; without vibration there is no excess and no effect."""

VIBRATION_WINDOW_S = 1.0
"""Time before each sample over which high-frequency variance is averaged [s]: a stream has no later
ones."""

OPTIONAL = ("std_gyro_bias", "removed_gyro", "removed_acc")
PER_SAMPLE = ("stamps_ns", "gyro", "acc", "var_gyro", "var_acc", *OPTIONAL)
"""Fields of `ImuMeasurements` that have an entry for each sample, some of them only of a model that
corrects the samples."""


@dataclass(frozen=True)
class BiasPrior:
    """Prior of the biases that remain in the samples."""

    mean_gyro: Array = field(default_factory=lambda: np.zeros(3))
    """(3,) mean of the gyroscope's bias, body frame [rad/s]."""

    std_gyro: Array = field(default_factory=lambda: np.full(3, np.inf))
    """(3,) its standard deviation per axis [rad/s]; infinity says that nothing is known."""

    mean_acc: Array = field(default_factory=lambda: np.zeros(3))
    """(3,) mean of the accelerometer's bias, body frame [m/s^2]."""

    std_acc: Array = field(default_factory=lambda: np.full(3, CALIBRATED.acc_bias))
    """(3,) its standard deviation per axis [m/s^2]."""

    def __post_init__(self) -> None:
        for name in ("mean_gyro", "mean_acc"):
            mean = validation.as_array(getattr(self, name), (3,), f"BiasPrior.{name}")
            object.__setattr__(self, name, mean)
        for name in ("std_gyro", "std_acc"):
            std = validation.as_array(getattr(self, name), (3,), f"BiasPrior.{name}", finite=False)
            if not (std > 0.0).all():
                raise MeasurementError(f"BiasPrior.{name} is {std}; needed above 0 on every axis.")
            object.__setattr__(self, name, std)

    @cached_property
    def info_gyro(self) -> Array:
        """(3,) one over the variance of the gyroscope's bias; 0 where nothing is known."""
        return self.std_gyro**-2.0

    @cached_property
    def info_acc(self) -> Array:
        """(3,) one over the variance of the accelerometer's bias."""
        return self.std_acc**-2.0


@dataclass(frozen=True)
class ImuMeasurements:
    """IMU measurements for preintegration: samples with a variance for each.

    From `raw_model` (raw samples, data-sheet noise, vibration and rounding), `datasheet_model` (raw
    samples, data-sheet noise alone) or a learned model (corrected samples, a learned variance).
    """

    stamps_ns: Stamps
    """(n,) timestamps [ns], strictly increasing."""

    gyro: Array
    """(n, 3) angular rate [rad/s], body frame."""

    acc: Array
    """(n, 3) specific force [m/s^2], body frame."""

    var_gyro: Array
    """(n, 3) variance of each sample [(rad/s)^2]; not a density."""

    var_acc: Array
    """(n, 3) variance of each sample [(m/s^2)^2]; not a density."""

    cov_0: Array
    """(9, 9) covariance that every preintegration starts from, order [gamma, beta, alpha]."""

    bias_prior: BiasPrior
    """Prior of the biases left in `gyro` and `acc`."""

    source: str = "IMU samples"
    """File or device, for messages."""

    walk_gyro: float = 0.0
    """Random walk of the gyroscope bias [rad/s^2/sqrt(Hz)]; 0 says that it stays."""

    walk_acc: float = 0.0
    """Random walk of the accelerometer bias [m/s^3/sqrt(Hz)]; 0 says that it stays."""

    std_gyro_bias: Array | None = None
    """(n, 3) spread of what is left of the gyroscope's bias [rad/s], where the model tracks that
    bias: it shrinks along the stream, and a window takes its prior from its start. None where the
    model does not."""

    removed_gyro: Array | None = None
    """(n, 3) what the IMU model subtracted from the raw angular rates [rad/s]; None where `gyro` is
    as the sensor gave it."""

    removed_acc: Array | None = None
    """(n, 3) what it subtracted from the raw specific force [m/s^2], likewise."""

    rate_hz: float | None = None
    """Rate at which the IMU is stated to sample; None where nothing was stated."""

    vertical: TrackedVertical | None = None
    """The vertical along the samples, where the model tracks it; None where it does not."""

    def __post_init__(self) -> None:
        place = f"{self.source}:"
        stamps_ns = validation.as_stamps(
            self.stamps_ns, f"{place} stamps_ns", validation.SHORTEST_IMU_PERIOD_NS, least=2
        )
        shape = (len(stamps_ns), 3)
        object.__setattr__(self, "stamps_ns", stamps_ns)
        shapes = dict.fromkeys(PER_SAMPLE[1:], shape) | {"cov_0": (9, 9)}
        for name, needed in shapes.items():
            values, finite = getattr(self, name), name != "std_gyro_bias"
            if values is not None or name not in OPTIONAL:
                values = validation.as_array(values, needed, f"{place} {name}", finite=finite)
                object.__setattr__(self, name, values)
        for name in ("var_gyro", "var_acc"):
            if (getattr(self, name) < 0.0).any():
                raise MeasurementError(f"{place} {name} is negative; a variance must not be.")
        validation.require_type(self.bias_prior, BiasPrior, f"{place} bias_prior", "BiasPrior()")
        if self.rate_hz is not None:
            validation.as_number(self.rate_hz, f"{place} rate_hz", 0.0, exclusive=True)
        for name in ("walk_gyro", "walk_acc"):
            validation.as_number(getattr(self, name), f"{place} {name}", 0.0)
        if self.vertical is not None:
            validation.require_type(self.vertical, TrackedVertical, f"{place} vertical", "None")
            validation.as_array(self.vertical.Rs_w_b, (*shape, 3), f"{place} vertical.Rs_w_b")

    def vertical_at(self, stamp_ns: int) -> VerticalPrior | None:
        """The vertical at a timestamp, from the samples until then; None where nothing is known."""
        sample = int(np.searchsorted(self.stamps_ns, stamp_ns, side="right")) - 1
        if self.vertical is None or sample < 0:
            return None
        phi_b = self.gyro[sample] * ((stamp_ns - self.stamps_ns[sample]) / NS)
        removed = np.zeros(6)
        if self.removed_gyro is not None and self.removed_acc is not None:
            removed = np.hstack([self.removed_gyro[sample], self.removed_acc[sample]])
        return self.vertical.after(sample, phi_b, removed)

    def removed_bias(self, start_ns: int, end_ns: int) -> tuple[Array, Array]:
        """Mean of what the IMU model subtracted inside [start_ns, end_ns], (3,) each: a residual
        bias plus this is the bias of the raw sensor."""
        if self.removed_gyro is None or self.removed_acc is None:
            return np.zeros(3), np.zeros(3)
        inside = (self.stamps_ns >= start_ns) & (self.stamps_ns <= end_ns)
        return self.removed_gyro[inside].mean(axis=0), self.removed_acc[inside].mean(axis=0)

    def between(self, start_ns: int, end_ns: int) -> "ImuMeasurements":
        """The samples inside [start_ns, end_ns] and one beyond each end, for interpolation."""
        first = max(int(np.searchsorted(self.stamps_ns, start_ns, side="right")) - 1, 0)
        last = int(np.searchsorted(self.stamps_ns, end_ns, side="left")) + 1
        if min(last, len(self.stamps_ns)) - first < 2:
            raise DatasetError(
                f"{self.source}: the IMU covers {self.stamps_ns[0]}..{self.stamps_ns[-1]} ns and "
                f"has no two samples for {start_ns}..{end_ns} ns."
            )
        # What was checked as a whole is not checked again: a tracker takes parts at every keyframe.
        part = copy(self)
        for name in PER_SAMPLE:
            values = getattr(self, name)
            object.__setattr__(part, name, None if values is None else values[first:last])
        if self.std_gyro_bias is not None:
            prior = replace(self.bias_prior, std_gyro=self.std_gyro_bias[first])
            object.__setattr__(part, "bias_prior", prior)
        if self.vertical is not None:
            object.__setattr__(part, "vertical", self.vertical.part(first, last))
        return part


def datasheet_model(
    samples: ImuSamples, noise: ImuNoise, bias_prior: BiasPrior | None = None
) -> ImuMeasurements:
    """Raw samples with the variance of the data sheet's densities at this rate.

    Args:
        samples: what the IMU reported.
        noise: its data sheet.
        bias_prior: knowledge of its biases; without it the gyroscope's is unknown and the
            accelerometer's has a spread of 0.1 m/s^2.

    Returns:
        The samples as they are, each with a variance.

    Raises:
        MeasurementError: an argument is of another type.
    """
    validation.require_type(samples, ImuSamples, "samples", "ImuSamples(stamps_ns, gyro, acc)")
    validation.require_type(noise, ImuNoise, "noise", "the IMU's data sheet, as in `rig.imu`")
    shape = samples.gyro.shape
    return ImuMeasurements(
        stamps_ns=samples.stamps_ns,
        gyro=samples.gyro,
        acc=samples.acc,
        var_gyro=np.full(shape, noise.density_gyro**2 * samples.rate_hz),
        var_acc=np.full(shape, noise.density_acc**2 * samples.rate_hz),
        cov_0=np.zeros((9, 9)),
        bias_prior=bias_prior or BiasPrior(),
        source=samples.source,
        rate_hz=noise.rate_hz or None,
        walk_gyro=noise.walk_gyro,
        walk_acc=noise.walk_acc,
    )


def raw_model(
    samples: ImuSamples, noise: ImuNoise, bias_prior: BiasPrior | None = None
) -> ImuMeasurements:
    """Raw samples with data-sheet noise and the vibration and rounding noise that they show.

    A data sheet describes an IMU on a bench. Rotors and footsteps alias into the samples; second
    differences show how much, since motion is smooth over two periods. Readings in coarse steps
    are off by up to half a step for as long as they stay the same.

    Args:
        samples: what the IMU reported.
        noise: its data sheet.
        bias_prior: knowledge of its biases, as for `datasheet_model`.

    Returns:
        The samples as they are, each with a variance that grows with vibration and rounding.

    Raises:
        MeasurementError: an argument is of another type.
    """
    sheet = datasheet_model(samples, noise, bias_prior)
    return replace(
        sheet,
        var_gyro=with_vibration(samples.gyro, sheet.var_gyro, samples.rate_hz)
        + rounding_variance(samples.gyro),
        var_acc=with_vibration(samples.acc, sheet.var_acc, samples.rate_hz)
        + rounding_variance(samples.acc),
    )


def rounding_variance(values: Array) -> Array:
    """(n, 3) what rounding adds to the variance of each reading.

    A step of q is an error of variance q^2 / 12 that stays for as long as readings are equal, so
    the integral of k equal readings has the variance k^2 q^2 / 12: the last of them adds (2 k - 1)
    q^2 / 12. The step is the smallest difference between readings of an axis; where none repeats,
    none is to be seen.
    """
    variance, row = np.zeros(values.shape), np.arange(len(values))
    is_new = np.vstack([np.ones((1, values.shape[1]), dtype=bool), changed(values)])
    for axis in range(values.shape[1]):
        steps = np.diff(np.unique(values[:, axis]))
        steps = steps[steps > RESOLUTION]
        if 0 < len(steps) < len(values) - 1:
            equal_before = row - np.maximum.accumulate(np.where(is_new[:, axis], row, 0))
            variance[:, axis] = (2 * equal_before + 1) * steps.min() ** 2 / 12.0
    return variance


def with_vibration(values: Array, variance: Array, rate_hz: float) -> Array:
    """(n, 3) variance with a share of what second differences show above it."""
    if len(values) < 3:
        return variance
    # White noise of variance s^2 has second differences of variance 6 s^2.
    rough = np.diff(values, n=2, axis=0) ** 2 / 6.0
    rough = np.concatenate([rough[:1], rough[:1], rough])
    smooth = _mean_so_far(rough, max(round(VIBRATION_WINDOW_S * rate_hz), 1))
    return variance + VIBRATION_SHARE * np.maximum(smooth - variance, 0.0)


def _mean_so_far(values: Array, size: int) -> Array:
    """Mean over the last `size` rows up to each; before the first row there are more like it."""
    sums = np.cumsum(np.pad(values, ((size, 0), (0, 0)), mode="edge"), axis=0)
    return np.asarray((sums[size:] - sums[:-size]) / size)


document_fields(__name__)
