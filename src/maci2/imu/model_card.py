"""What the weights of an IMU model say of themselves."""

from collections.abc import Mapping

import numpy as np
from pydantic import BaseModel, ConfigDict

from maci2.errors import OptionError
from maci2.gaussian import require_spd
from maci2.imu.device_constants import DeviceConstants
from maci2.imu.measurements import BiasPrior
from maci2.imu.stationary import StationaryShift
from maci2.model_card import Card, CardKind
from maci2.types import Array

METADATA_KEY = "maci2_imu_model"
FORMAT = 4
"""Version of the weight files; raised when inputs, outputs or the card change."""

UNITS = "rad/s, m/s^2"


class LabelNoiseCard(BaseModel):
    """Noise of one kind of ground truth: for reports, never for fusion."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    std_rotation: float
    std_velocity: float
    std_position: float
    std_time: float
    std_drift: float
    std_tilt: float
    gyro_shown: float
    acc_shown: float = 1.0


class ModelCard(Card):
    """Card of an IMU model: what it was trained on and what it is good for."""

    format: int
    name: str
    form: str
    package_version: str
    trained_on: list[str]
    tuned_on: list[str]
    seed: int
    rate_hz: float
    rate_tolerance: float
    units: str
    lookahead_samples: int

    mean_force: tuple[float, float, float]
    """Direction of the mean specific force in training: tells axes and mounting apart."""

    max_force_angle_deg: float

    turn_on_mean: list[float]
    """(6,) bias of the raw samples [gyro, acc] in training; the gyroscope's is tracked from there.
    Empty where the model tracks no bias."""

    turn_on_std: list[float]
    """(6,) its spread."""

    rest_shift_mean: list[float]
    """(3,) what the stationary gyroscope reads beyond its bias in motion. Empty where the model
    tracks no bias."""

    rest_shift_std: list[float]
    """(3,) its spread."""

    tilt_std: float | None = None
    """Standard deviation of the tracked vertical that its tracker does not know of [rad], one axis;
    None where it is not known, and the vertical not used."""

    correction_kept: list[float]
    """(2,) share of the network's correction beyond a constant that held on the tuning recordings,
    gyroscope and accelerometer; empty where nothing was shrunk."""

    bias_mean: list[float]
    """(6,) bias left after correction [gyro, acc]."""

    bias_std: list[float]
    """(6,) its spread over recordings; empty where the form does not know it."""

    device: tuple[float, ...] = ()
    """(19,) numbers of the device's constants (`maci2.imu.device_constants`), which are taken off
    the samples first; empty where none held on the tuning recordings."""

    cov_0: list[list[float]]
    """(9, 9) that every preintegration starts from; empty for none."""

    label_noise: dict[str, LabelNoiseCard]
    """Label noise by kind of truth."""

    truth_kinds: dict[str, str]
    """Kind of truth by the beginning of a recording's name."""

    figures: dict[str, float]
    """Measured on the tuning recordings when the file was made."""

    limits: list[str]

    def accepted_rates(self, fastest: float) -> tuple[float, float]:
        """Slowest and fastest rate [Hz]; `fastest` in multiples of the model's own."""
        return self.rate_hz * (1.0 - self.rate_tolerance), self.rate_hz * fastest

    def bias_prior(self) -> BiasPrior:
        """Bias prior for the estimator; a form that knows no spread leaves the default."""
        if not self.bias_std:
            return BiasPrior()
        return _prior(self.bias_mean, self.bias_std)

    def turn_on(self) -> BiasPrior | None:
        """Turn-on bias of the raw samples, where the model tracks the gyroscope's bias."""
        return _prior(self.turn_on_mean, self.turn_on_std) if self.turn_on_std else None

    def rest_shift(self) -> StationaryShift:
        """Shift of the gyroscope's readings between standstill and motion."""
        if not self.rest_shift_std:
            return StationaryShift()
        return StationaryShift(np.array(self.rest_shift_mean), np.array(self.rest_shift_std))

    def device_constants(self) -> DeviceConstants | None:
        """Errors that the device has in all recordings, where they are known."""
        return DeviceConstants.of(np.array(self.device)) if self.device else None

    def cov_0_array(self) -> Array:
        """(9, 9), zero for none."""
        return np.array(self.cov_0) if self.cov_0 else np.zeros((9, 9))

    def text(self) -> str:
        """The card in plain words."""
        gyro, acc = np.array(self.bias_mean[:3]), np.array(self.bias_mean[3:])
        lines = [
            f"IMU model '{self.name}' ({self.form}), written by maci2 {self.package_version}",
            f"trained on      {', '.join(self.trained_on)}",
            f"tuned on        {', '.join(self.tuned_on) or 'nothing'}",
            f"seed            {self.seed}",
            f"rate            {self.rate_hz:.0f} Hz, units {self.units}, "
            f"look-ahead {self.lookahead_samples} samples",
            *self._device(),
            *self._tracking(),
            f"bias left       gyro {_row(gyro)} rad/s, acc {_row(acc)} m/s^2",
        ]
        if self.correction_kept:
            gyro_kept, acc_kept = self.correction_kept
            lines.append(f"correction      kept: {gyro_kept:.0%} of gyro, {acc_kept:.0%} of acc")
        if self.bias_std:
            std = np.array(self.bias_std)
            lines.append(f"  spread        gyro {_row(std[:3])} rad/s, acc {_row(std[3:])} m/s^2")
        for kind, noise in self.label_noise.items():
            lines.append(
                f"truth '{kind}'   {np.degrees(noise.std_rotation):.3f} deg, "
                f"{1e3 * noise.std_velocity:.1f} mm/s, {1e3 * noise.std_position:.2f} mm, "
                f"{1e3 * noise.std_time:.2f} ms, drift {np.degrees(noise.std_drift):.3f} deg/s, "
                f"tilted {np.degrees(noise.std_tilt):.2f} deg, "
                f"shows {noise.gyro_shown:.0%} of gyro and {noise.acc_shown:.0%} of acc noise "
                "(not part of fusion)"
            )
        if self.figures:
            used = "tuned" if self.tuned_on else "trained"
            lines.append(f"figures         on the recordings it was {used} on [rad, m/s, m]")
        lines += [f"  {name:<27} {value:.3g}" for name, value in self.figures.items()]
        lines += [f"limit           {limit}" for limit in self.limits]
        return "\n".join(lines)

    def _device(self) -> list[str]:
        device = self.device_constants()
        if device is None:
            return []
        return [
            f"device          gyro {_percent(device.gyro)}, acc {_percent(device.acc)} of itself "
            f"by axis, acc {1e3 * device.acc_early_s:.2f} ms early"
        ]

    def _tracking(self) -> list[str]:
        if not self.turn_on_std:
            return ["gyro bias       not tracked"]
        shift = self.rest_shift()
        tilt = "not used" if self.tilt_std is None else f"to {np.degrees(self.tilt_std):.2f} deg"
        return [
            "gyro bias       tracked",
            f"  at rest       {_row(shift.mean)} rad/s beyond, spread {_row(shift.std)}",
            f"  vertical      {tilt}",
        ]


def _prior(mean: list[float], std: list[float]) -> BiasPrior:
    return BiasPrior(*(np.array(part) for part in (mean[:3], std[:3], mean[3:], std[3:])))


def _row(values: Array) -> str:
    return "(" + ", ".join(f"{value:.5f}" for value in values) + ")"


def _percent(matrix: Array) -> str:
    rows = (", ".join(f"{100.0 * value:.2f}" for value in row) for row in matrix)
    return f"({'; '.join(rows)}) %"


KIND = CardKind(ModelCard, "not an IMU model", METADATA_KEY, FORMAT, "maci2 train-imu")


def read_card(metadata: Mapping[str, str], source: str) -> ModelCard:
    """The card of a weight file, or an error that says what is wrong with it."""
    card = KIND.read(metadata, source)
    if card.units != UNITS:
        raise OptionError(f"{source}: weights for units '{card.units}', needed '{UNITS}'.")
    _require_lengths(card, source)
    if card.cov_0:
        require_spd(card.cov_0_array(), f"{source}: cov_0")
    return card


def _require_lengths(card: ModelCard, source: str) -> None:
    """Raise where a list of the card has not as many numbers as it must have."""
    needed = {
        "turn_on_mean": (0, 6), "turn_on_std": (0, 6), "rest_shift_mean": (0, 3),
        "rest_shift_std": (0, 3), "correction_kept": (0, 2), "bias_mean": (6,), "bias_std": (0, 6),
        "device": (0, 19), "cov_0": (0, 9),
    }  # fmt: skip
    found = {name: len(getattr(card, name)) for name in needed}
    found |= {f"cov_0[{k}]": len(row) for k, row in enumerate(card.cov_0)}
    for name, length in found.items():
        if length not in needed.get(name, (9,)):
            raise OptionError(
                f"{source}: the model card is damaged at '{name}' ({length} numbers, needed "
                f"{' or '.join(map(str, needed.get(name, (9,))))}); copy the file again."
            )
    if card.tilt_std is not None and not 0.0 <= card.tilt_std < 1.0:
        raise OptionError(
            f"{source}: the model card is damaged at 'tilt_std' ({card.tilt_std:g} rad, needed 0 "
            "to 1); copy the file again."
        )
    if not (card.rate_hz > 0.0 and 0.0 <= card.rate_tolerance < 1.0):
        raise OptionError(
            f"{source}: the model card is damaged: rate {card.rate_hz:g} Hz within "
            f"{card.rate_tolerance:g}, needed above 0 and from 0 to 1; copy the file again."
        )
