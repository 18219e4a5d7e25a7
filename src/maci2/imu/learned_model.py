"""The learned IMU model at run time: an .onnx file over the whole stream, once, without torch.

One correction and one variance per block of 9 samples. A block's features see 12 samples before
its first sample and 12 after it: that is the look-ahead, 60 ms at 200 Hz. Before the first and
after the last sample of a recording these stand in themselves; nothing else is ever padded.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from maci2.boundary import require_type
from maci2.errors import DatasetError, OptionError
from maci2.field_docs import document_fields
from maci2.files import read_bytes, read_text
from maci2.imu.bias_tracking import WALK_ACC, WALK_GYRO, track_gyro_bias
from maci2.imu.measurements import BiasPrior, ImuMeasurements
from maci2.imu.model_card import ModelCard, read_card
from maci2.imu.network_shape import BLOCK, CONTEXT, RECEPTIVE_FIELD
from maci2.imu.tracked_vertical import TrackedVertical
from maci2.sensors import ImuSamples, gaps
from maci2.sensors.validation import require_plausible
from maci2.types import GRAVITY_NORM, NS, Array

CHUNK_BLOCKS = 2000
"""Blocks run at a time: 90 s at 200 Hz; memory does not grow with the recording."""

MAX_WEIGHT_BYTES = 1 << 28

_UNUSABLE = "weights that cannot be used; copy the file again, or train the model again"

WEIGHTS = resources.files("maci2.imu") / "weights"
CHECKSUMS = "SHA256SUMS"

FASTEST = 5.0
"""Rates up to this many times the model's own are resampled for it."""


def bundled_models() -> dict[str, str]:
    """Names of the models in the package and the SHA-256 of each file."""
    lines = (WEIGHTS / CHECKSUMS).read_text().splitlines()
    listed = [line.split() for line in lines if line]
    return {name.removesuffix(".onnx"): digest for digest, name in listed}


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
    known = bundled_models()
    if str(name_or_path) in known:
        name = str(name_or_path)
        return _open((WEIGHTS / f"{name}.onnx").read_bytes(), name, known[name])
    path = Path(name_or_path)
    if not path.is_file():
        raise OptionError(
            f"{name_or_path}: neither a bundled IMU model ({', '.join(known)}) nor a file; "
            "give one of the names, or the .onnx that `maci2 train-imu` wrote."
        )
    digest = path.with_name(path.name + ".sha256")
    words = read_text(digest, "a SHA-256", 4096, OptionError).split() if digest.is_file() else []
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
    """What it was trained on and how well it does."""

    session: Any
    """onnxruntime: samples and two GRU states in; corrections, log variances, states out."""

    def card(self) -> str:
        """What it was trained on, how well it does, where it must not be used."""
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
        # Biases that are handed on are those of samples without the device's other errors.
        samples = calibrated = self.calibrated(samples)
        turn_on, tracked, vertical = self.about.turn_on(), None, None
        if turn_on is not None:
            tracked = track_gyro_bias(samples, turn_on, self.about.rest_shift())
            vertical = self._known_vertical(tracked.vertical)
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

    def _known_vertical(self, tracked: TrackedVertical | None) -> TrackedVertical | None:
        """The tracked vertical where training has shown how far it is off; else None."""
        if tracked is None or self.about.tilt_std is None:
            return None
        return replace(tracked, std_lasting=self.about.tilt_std)

    def _run(self, stream: Array) -> tuple[Array, Array]:
        """(m, 6) corrections and log variances of all blocks, in pieces that carry the state."""
        blocks = -(-len(stream) // BLOCK)
        correction, log_variance = np.empty((blocks, 6)), np.empty((blocks, 6))
        states = [
            np.zeros([1, 1, entry.shape[-1]], dtype=np.float32)
            for entry in self.session.get_inputs()[1:]
        ]
        for first, last, piece in _pieces(stream, blocks):
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
        self._require_rate(samples)
        require_no_gaps(samples)
        require_plausible(samples)
        if check_mounting:
            self._require_mounting(samples)

    def _require_rate(self, samples: ImuSamples) -> None:
        slowest, fastest = self.about.accepted_rates(FASTEST)
        if not slowest <= samples.rate_hz <= fastest:
            raise DatasetError(
                f"{samples.source}: {samples.rate_hz:.1f} Hz; the model '{self.about.name}' takes "
                f"{slowest:.0f} to {fastest:.0f} Hz (trained at {self.about.rate_hz:.0f} Hz, "
                "faster rates are resampled). Use another model, or `--imu raw`."
            )

    def _require_mounting(self, samples: ImuSamples) -> None:
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


def _pieces(stream: Array, blocks: int) -> Iterator[tuple[int, int, Array]]:
    """First and last block of each piece and the samples its features see."""
    for first in range(0, blocks, CHUNK_BLOCKS):
        last = min(first + CHUNK_BLOCKS, blocks)
        seen = np.arange(first * BLOCK - CONTEXT, (last - 1) * BLOCK + CONTEXT + 1)
        piece = stream[np.clip(seen, 0, len(stream) - 1)]
        yield first, last, piece[None].astype(np.float32)


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
