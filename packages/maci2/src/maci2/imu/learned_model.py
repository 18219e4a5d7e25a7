"""The learned IMU model at run time: an .onnx file over the whole stream, once, without torch.

One correction and one variance per block of 9 samples. A block's features see 12 samples before
its first sample and 12 after it: that is the look-ahead, 60 ms at 200 Hz. Before the first and
after the last sample of a recording these stand in themselves; nothing else is ever padded.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import resources
from importlib.metadata import entry_points
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from maci2.errors import DatasetError, OptionError
from maci2.field_docs import document_fields
from maci2.files import read_bytes, read_text
from maci2.geometry.gaussian import require_spd
from maci2.imu.bias_tracker import WALK_ACC, WALK_GYRO, StationaryShift, track_gyro_bias
from maci2.imu.measurements import BiasPrior, ImuMeasurements
from maci2.model_card import Card, CardKind
from maci2.sensors import ImuSamples, gaps
from maci2.sensors.validation import require_plausible
from maci2.types import GRAVITY_NORM, NS, Array
from maci2.validation import require_type


@dataclass(frozen=True)
class DeviceConstants:
    """Errors of the samples that one device has in all its recordings."""

    gyro: Array
    """(3, 3) error of the angular rate per angular rate."""

    acc: Array
    """(3, 3) error of the specific force per specific force."""

    acc_early_s: float
    """A sample of the accelerometer shows the force so long after its timestamp [s]."""

    @classmethod
    def of(cls, numbers: Array) -> "DeviceConstants":
        """Constants from (19,) numbers: rows of both matrices, then the time."""
        return cls(numbers[:9].reshape(3, 3), numbers[9:18].reshape(3, 3), float(numbers[18]))

    @property
    def numbers(self) -> Array:
        """(19,) as `of` takes them."""
        return np.concatenate([self.gyro.ravel(), self.acc.ravel(), [self.acc_early_s]])

    def corrected(self, samples: ImuSamples) -> ImuSamples:
        """The samples without these errors, at the same timestamps."""
        times = (samples.stamps_ns - samples.stamps_ns[0]) / NS
        then = times - self.acc_early_s
        acc = np.stack([np.interp(then, times, axis) for axis in samples.acc.T], axis=1)
        return replace(
            samples, gyro=samples.gyro - samples.gyro @ self.gyro.T, acc=acc - acc @ self.acc.T
        )


BLOCK = 9
"""Samples that share one correction and one variance."""

CONTEXT = 12
"""Samples that a block's features see before its first sample and after it: the look-ahead."""

RECEPTIVE_FIELD = 2 * CONTEXT + 1
"""Samples that one block's features are made from, without the GRU's memory."""


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
    """Direction of the mean specific force in training: distinguishes axes and mountings."""

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
    """(19,) numbers of the device's constants (`maci2.imu.learned_model`), which are taken off
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
        ]
        device, shift = self.device_constants(), self.rest_shift()
        if device is not None:
            lines.append(
                f"device          gyro {_percent(device.gyro)}, acc {_percent(device.acc)} of "
                f"itself by axis, acc {1e3 * device.acc_early_s:.2f} ms early"
            )
        if self.turn_on_std:
            tilt = "not used"
            if self.tilt_std is not None:
                tilt = f"to {np.degrees(self.tilt_std):.2f} deg"
            lines += [
                "gyro bias       tracked",
                f"  at rest       {_row(shift.mean)} rad/s beyond, spread {_row(shift.std)}",
                f"  vertical      {tilt}",
            ]
        else:
            lines.append("gyro bias       not tracked")
        lines.append(f"bias left       gyro {_row(gyro)} rad/s, acc {_row(acc)} m/s^2")
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


CHUNK_BLOCKS = 2000
"""Blocks run at a time: 90 s at 200 Hz; memory does not grow with the recording."""

MAX_WEIGHT_BYTES = 1 << 28

_UNUSABLE = "weights that cannot be used; copy the file again, or train the model again"

WEIGHTS = resources.files("maci2.imu") / "weights"
CHECKSUMS = "SHA256SUMS"

FURTHER_WEIGHTS = "maci2.weights"
"""Group of entry points that name packages with further weight files and their checksums."""

BASELINES = ("airimu", "datasheet", "paper", "paramnet", "temperature")
"""Forms of models for comparison, such as `euroc-paper`, which `maci2-lab` brings along."""

FASTEST = 5.0
"""Rates up to this many times the model's own are resampled for it."""


def bundled_models() -> dict[str, str]:
    """Names of the models in installed packages and the SHA-256 of each file."""
    return {name: digest for name, (_, digest) in _weight_files().items()}


def _weight_files() -> dict[str, tuple[Traversable, str]]:
    """File and SHA-256 of each bundled model, by name: the package's own, then further ones."""
    further = (resources.files(entry.value) for entry in entry_points(group=FURTHER_WEIGHTS))
    files = {}
    for folder in (WEIGHTS, *further):
        for line in filter(None, (folder / CHECKSUMS).read_text().splitlines()):
            digest, name = line.split()
            files[name.removesuffix(".onnx")] = (folder / name, digest)
    return files


def load_imu_model(name_or_path: str | Path) -> "ImuModel":
    """Load a learned IMU model.

    Args:
        name_or_path: name of a bundled model (`euroc`, `tumvi`) or a file that `maci2 train-imu`
            wrote.

    Returns:
        The model; its `measure(samples)` gives what `initialize` and `calibrate` take.

    Raises:
        OptionError: there is no such model, or the file is damaged.
    """
    require_type(name_or_path, (str, Path), "the IMU model", "a name or the path of a weight file")
    name, known = str(name_or_path), _weight_files()
    if name in known:
        file, digest = known[name]
        return _open(file.read_bytes(), name, digest)
    path = Path(name_or_path)
    if not path.is_file():
        if name.partition("-")[0] in known and name.partition("-")[2] in BASELINES:
            raise OptionError(
                f"{name}: weights of a baseline, which maci2-lab brings along: pip install "
                f"maci2-lab, or give another model ({', '.join(known)})."
            )
        raise OptionError(
            f"{name}: neither a bundled IMU model ({', '.join(known)}) nor a file; "
            "give one of the names, or the .onnx that `maci2 train-imu` wrote."
        )
    beside = path.with_name(path.name + ".sha256")
    words = read_text(beside, "a SHA-256", 4096, OptionError).split() if beside.is_file() else []
    content = read_bytes(path, "weights of an IMU model", MAX_WEIGHT_BYTES, OptionError)
    return _open(content, str(path), words[0] if words else "")


def _open(data: bytes, source: str, digest: str) -> "ImuModel":
    found = hashlib.sha256(data).hexdigest()
    if digest and found != digest:
        raise OptionError(
            f"{source}: SHA-256 of the weights is {found}, needed {digest}; the file was changed "
            "or cut short. Install the package again, or train the model again."
        )
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        metadata = dict(session.get_modelmeta().custom_metadata_map)
    except Exception as error:  # onnxruntime has no common base class for its errors
        raise OptionError(
            f"{source}: not an ONNX file that can be read ({_first_line(error)}); copy it again."
        ) from error
    card = read_card(metadata, source)
    model = ImuModel(card, session)
    _require_working(model, source)
    return model


def _require_working(model: "ImuModel", source: str) -> None:
    """Raise unless the network runs on samples of a stationary IMU and gives finite numbers."""
    stationary = np.tile([0.0, 0.0, 0.0, 0.0, 0.0, GRAVITY_NORM], (2 * RECEPTIVE_FIELD, 1))
    try:
        outputs = model._run(stationary)
    except Exception as error:  # onnxruntime has no common base class for its errors
        raise OptionError(f"{source}: {_UNUSABLE} ({_first_line(error)}).") from error
    if not all(np.isfinite(numbers).all() for numbers in outputs):
        raise OptionError(f"{source}: {_UNUSABLE} (they give NaN or infinity).")


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:200] or type(error).__name__


@dataclass(frozen=True)
class ImuModel:
    """Corrections and variances learned for one kind of IMU."""

    about: ModelCard
    """Card of the model: training data and performance."""

    session: Any
    """onnxruntime: samples and two GRU states in; corrections, log variances, states out."""

    def card(self) -> str:
        """Text of the card: training data, performance, limits of use."""
        return self.about.text()

    @property
    def bias_prior(self) -> BiasPrior:
        """Prior of the bias that remains after correction."""
        return self.about.bias_prior()

    def calibrated(self, samples: ImuSamples) -> ImuSamples:
        """The samples without what the device does wrong in every recording."""
        device = self.about.device_constants()
        return samples if device is None else device.corrected(samples)

    def measure(self, samples: ImuSamples, check_mounting: bool = True) -> ImuMeasurements:
        """Correct every sample and say how far to trust it.

        `check_mounting` compares the direction of the mean specific force with the training
        recordings': another order of axes or another mounting shows there.
        """
        require_type(samples, ImuSamples, "samples", "ImuSamples(stamps_ns, gyro, acc)")
        self._require_fitting(samples, check_mounting)
        # Biases that are returned are those of samples without the device's other errors.
        samples = calibrated = self.calibrated(samples)
        turn_on, tracked, vertical = self.about.turn_on(), None, None
        if turn_on is not None:
            tracked = track_gyro_bias(samples, turn_on, self.about.rest_shift())
            if tracked.vertical is not None and self.about.tilt_std is not None:
                vertical = replace(tracked.vertical, std_lasting=self.about.tilt_std)
            samples = replace(samples, gyro=samples.gyro - tracked.gyro)
        ratio = samples.rate_hz / self.about.rate_hz
        native = abs(ratio - 1.0) <= self.about.rate_tolerance
        stream = samples if native else _resampled(samples, self.about.rate_hz)
        correction, log_variance = self._run(np.concatenate([stream.gyro, stream.acc], axis=1))
        if native:
            block = np.arange(len(samples)) // BLOCK
        else:
            elapsed_s = (samples.stamps_ns - samples.stamps_ns[0]) / NS
            block = (elapsed_s * self.about.rate_hz / BLOCK).astype(np.int64)
        block = np.minimum(block, len(correction) - 1)
        # A faster IMU spreads the same noise density over more samples.
        variance = np.exp(log_variance[block]) * (1.0 if native else ratio)
        gyro = samples.gyro + correction[block, :3]
        acc = samples.acc + correction[block, 3:]
        return ImuMeasurements(
            stamps_ns=samples.stamps_ns,
            gyro=gyro,
            acc=acc,
            var_gyro=variance[:, :3],
            var_acc=variance[:, 3:],
            cov_0=self.about.cov_0_array(),
            bias_prior=self.bias_prior,
            source=samples.source,
            walk_gyro=WALK_GYRO,
            walk_acc=WALK_ACC,
            std_gyro_bias=None if tracked is None else tracked.std_gyro,
            removed_gyro=calibrated.gyro - gyro,
            removed_acc=calibrated.acc - acc,
            vertical=vertical,
        )

    def _run(self, stream: Array) -> tuple[Array, Array]:
        """(m, 6) corrections and log variances of all blocks, in pieces that carry the state."""
        blocks = -(-len(stream) // BLOCK)
        correction, log_variance = np.empty((blocks, 6)), np.empty((blocks, 6))
        states = [
            np.zeros([1, 1, entry.shape[-1]], dtype=np.float32)
            for entry in self.session.get_inputs()[1:]
        ]
        for first in range(0, blocks, CHUNK_BLOCKS):
            last = min(first + CHUNK_BLOCKS, blocks)
            seen = np.arange(first * BLOCK - CONTEXT, (last - 1) * BLOCK + CONTEXT + 1)
            piece = stream[np.clip(seen, 0, len(stream) - 1)][None].astype(np.float32)
            feed = {"samples": piece, "state_1": states[0], "state_2": states[1]}
            found, log_found, *states = self.session.run(None, feed)
            correction[first:last], log_variance[first:last] = found[0], log_found[0]
        return correction, log_variance

    def _require_fitting(self, samples: ImuSamples, check_mounting: bool) -> None:
        if len(samples) < RECEPTIVE_FIELD:
            raise DatasetError(
                f"{samples.source}: {len(samples)} samples, needed at least {RECEPTIVE_FIELD}: "
                "the model looks at that many at once. Use a longer recording."
            )
        slowest, fastest = self.about.accepted_rates(FASTEST)
        if not slowest <= samples.rate_hz <= fastest:
            raise DatasetError(
                f"{samples.source}: {samples.rate_hz:.1f} Hz; the model '{self.about.name}' takes "
                f"{slowest:.0f} to {fastest:.0f} Hz (trained at {self.about.rate_hz:.0f} Hz, "
                "faster rates are resampled). Use another model, or `--imu raw`."
            )
        require_no_gaps(samples)
        require_plausible(samples)
        if not check_mounting:
            return
        mean = samples.acc.mean(0)
        cosine = mean @ np.array(self.about.mean_force) / np.linalg.norm(mean)
        angle_deg = float(np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))))
        if angle_deg > self.about.max_force_angle_deg:
            raise DatasetError(
                f"{samples.source}: the mean specific force {np.round(mean, 2).tolist()} m/s^2 is "
                f"{angle_deg:.0f} deg from that of the recordings '{self.about.name}' was trained "
                f"on, needed at most {self.about.max_force_angle_deg:.0f} deg for the same "
                "mounting. Check the order and signs of the axes; if the IMU is the same one, "
                "mounted differently, pass check_mounting=False."
            )


def require_no_gaps(samples: ImuSamples) -> None:
    """The network and its memory run over an unbroken stream."""
    before = gaps(samples.stamps_ns)
    if len(before):
        at = int(before[0])
        length_s = (samples.stamps_ns[at + 1] - samples.stamps_ns[at]) / NS
        raise DatasetError(
            f"{samples.source}: no IMU sample for {length_s:.3f} s after timestamp "
            f"{samples.stamps_ns[at]} ns ({len(before)} gaps); the model needs an unbroken stream. "
            "Cut the recording at the gap and use the parts one by one."
        )


def _resampled(samples: ImuSamples, rate_hz: float) -> ImuSamples:
    """The samples averaged to a slower rate: for the network to read, not to integrate."""
    t = (samples.stamps_ns - samples.stamps_ns[0]) / NS
    grid = np.arange(0.0, t[-1], 1.0 / rate_hz)
    half = 0.5 / rate_hz

    def mean(values: Array) -> Array:
        # Integral of the linear interpolant over each grid cell.
        steps = 0.5 * (values[1:] + values[:-1]) * np.diff(t)[:, None]
        integral = np.concatenate([np.zeros((1, 3)), np.cumsum(steps, axis=0)])
        left, right = np.clip(grid - half, 0.0, t[-1]), np.clip(grid + half, 0.0, t[-1])
        sums = [
            np.interp(right, t, integral[:, axis]) - np.interp(left, t, integral[:, axis])
            for axis in range(3)
        ]
        return np.stack(sums, axis=1) / (right - left)[:, None]

    stamps_ns = samples.stamps_ns[0] + np.round(grid * NS).astype(np.int64)
    return ImuSamples(stamps_ns, mean(samples.gyro), mean(samples.acc), samples.source)


document_fields(__name__)
