"""Recordings to train on, their biases, and training windows: samples around a start, ground truth
at the start and at every horizon.

Biases are estimated by audits of the ground truths; the spread of those of several recordings is
the prior for the estimator.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from maci2.errors import DatasetError
from maci2.geometry.gaussian import predictive_variance
from maci2.imu import BiasPrior
from maci2.imu.bias_tracker import StationaryShift, track_gyro_bias
from maci2.imu.learned_model import BLOCK, CONTEXT, DeviceConstants
from maci2.imu.measurements import TrackedVertical
from maci2.sensors import ImuNoise, ImuSamples, Recording
from maci2.tools.ground_truth.audit_files import cached_audit
from maci2.types import GRAVITY_W, NS, Array, Stamps
from maci2_lab.evaluation.audited_integration import AuditedStates, audited_states
from maci2_lab.evaluation.truth_states import Indices, TruthStates, truth_states

CHUNK_S = 10.0
"""Stretches whose mean biases show how a bias wanders within a recording; its halves where it is
shorter than two of them."""


@dataclass(frozen=True)
class RecordingBias:
    """Remaining bias in the samples of one recording, [gyro, acc]."""

    mean: Array
    """(6,) over the recording [rad/s, m/s^2]."""

    wander: Array
    """(6,) variance about it of the means over stretches of `CHUNK_S`."""


def recording_bias(stamps_ns: Stamps, bias: Array) -> RecordingBias:
    """Mean and wander of biases (n, 6) at n instants."""
    elapsed_ns = stamps_ns - stamps_ns[0]
    chunk = elapsed_ns // min(round(CHUNK_S * NS), elapsed_ns[-1] // 2 + 1)
    numbers, counts = np.unique(chunk, return_counts=True)
    # What is left at the end may be too short to say anything.
    whole = numbers[counts >= 0.5 * counts.max()]
    means = np.array([bias[chunk == number].mean(axis=0) for number in whole])
    return RecordingBias(bias.mean(axis=0), means.var(axis=0))


def bias_prior(seen: list[RecordingBias]) -> BiasPrior:
    """Bias to expect of an unseen recording: the mean of the seen ones, and Student's predictive
    spread, axes of one sensor being alike, with the wander within recordings."""
    means = np.array([one.mean for one in seen])
    within = np.mean([one.wander for one in seen], axis=0)
    if len(seen) > 1:
        between = [predictive_variance(means[:, sensor]) for sensor in (slice(0, 3), slice(3, 6))]
    else:
        # One recording says nothing of others: its bias may be as far from theirs as from none.
        between = [float(np.mean(means[0, sensor] ** 2)) for sensor in (slice(0, 3), slice(3, 6))]
    std = np.sqrt(np.repeat(between, 3) + within)
    mean = means.mean(axis=0)
    return BiasPrior(mean[:3], std[:3], mean[3:], std[3:])


HORIZONS_S = (0.3, 1.0, 2.5)
"""Times over which errors are scored: multiples of that between audited states, from a keyframe's
step (0.28 s with ten in 2.5 s) to a window."""

WARM_UP = 15 * BLOCK
"""Samples before a window's start that the network runs through: real ones, from the recording."""


@dataclass(frozen=True)
class Track:
    """One recording, ready to cut windows from."""

    name: str
    kind: str
    """Kind of its published truth."""

    imu: ImuSamples
    noise: ImuNoise
    published: TruthStates
    audited: AuditedStates
    """The states that training goes by, with their covariance."""

    taken_off: Array
    """(n, 6) of the samples that were audited, [gyro, acc]: what a tracked bias explains."""

    std_gyro_bias: Array | None
    """(n, 3) spread of the gyroscope bias at each sample where it is tracked; None where not."""

    vertical: TrackedVertical | None = None
    """The vertical, tracked with it."""

    def bias(self, removed: Array) -> RecordingBias:
        """Remaining bias in the samples after a correction that takes `removed` (n, 6) off them."""
        chain, samples = self.audited.chain, self.audited.states.samples
        bias = np.hstack([chain.bias_gyro, chain.bias_acc])
        return recording_bias(chain.stamps_ns, bias - (self.taken_off + removed)[samples])

    @property
    def own_bias(self) -> RecordingBias:
        """Bias in the samples as they are."""
        return self.bias(np.zeros((len(self.imu), 6)))


@dataclass(frozen=True)
class Batch:
    """B windows."""

    samples: Tensor
    """(B, WARM_UP + N + 16, 6) float32: what the network reads, context included."""

    times: Tensor
    """(B, N) [s] since the start."""

    R_bi_bj: Tensor
    """(B, K, 3, 3) truth at the horizons."""

    beta: Tensor
    """(B, K, 3) velocity change without gravity, in b_i, as the truth has it."""

    alpha: Tensor
    """(B, K, 3) position change likewise."""

    seen: Tensor
    """(B, K, 9, 9) how errors of the samples show in the difference from the truth, which was made
    with them."""

    cov_truth: Tensor
    """(B, K, 9, 9) of what the truth adds to the difference."""

    log_variance: Tensor
    """(B,) mean logarithm of the variance of the accelerometer's samples over the window, as the
    audit took it."""

    std_gyro_bias: Tensor
    """(B, 3) spread of the gyroscope bias at the start where it is tracked, else (B, 0)."""

    valid: Tensor
    """(B, K) whether the truth is unbroken from the start to the horizon."""

    horizons: Tensor
    """(B, K) samples from the start to each horizon, the same for all windows."""

    def to(self, device: torch.device) -> "Batch":
        """The batch on another device."""
        return Batch(**{name: value.to(device) for name, value in vars(self).items()})


def load_track(recording: Recording, kind: str, device: DeviceConstants | None = None) -> Track:
    """The recording with its ground truth, as published and audited, its samples without the
    device's errors."""
    if device is not None:
        recording = replace(recording, imu=device.corrected(recording.imu))
    imu, noise, truth = recording.imu, recording.rig.imu, recording.truth()
    published = truth_states(imu, truth, recording.name)
    if truth is None or truth.covariance is None:
        truth = cached_audit(recording).truth
    audited = audited_states(imu, noise, truth, recording.name)
    nothing = np.zeros((len(imu), 6))
    return Track(recording.name, kind, imu, noise, published, audited, nothing, None)


def with_bias_tracked(track: Track, turn_on: BiasPrior, rest_shift: StationaryShift) -> Track:
    """The track as a model that tracks the gyroscope's bias sees it."""
    tracked = track_gyro_bias(track.imu, turn_on, rest_shift)
    taken_off = np.hstack([tracked.gyro, np.zeros_like(tracked.gyro)])
    imu = replace(track.imu, gyro=track.imu.gyro - tracked.gyro)
    return replace(
        track,
        imu=imu,
        taken_off=taken_off,
        std_gyro_bias=tracked.std_gyro,
        vertical=tracked.vertical,
    )


def audited_variances(track: Track) -> Array:
    """(n, 6) variance of one sample, [gyro, acc], after each audited state as the audit took it."""
    cov = track.audited.chain.covariance
    assert cov is not None
    assert cov.imu_noise is not None
    # White noise of variance s^2 per sample adds up to s^2 t / rate.
    per_s = np.einsum("kii->ki", cov.imu_noise)[:, :6] / (np.diff(cov.stamps_ns)[:, None] / NS)
    steps = np.minimum(track.audited.places, len(per_s) - 1)
    return np.asarray(track.imu.rate_hz * per_s[steps])


class Windows:
    """All windows of some tracks within a share of each track's time."""

    def __init__(self, tracks: list[Track], stride: int, part: tuple[float, float]) -> None:
        """Windows start at every `stride`-th audited state within `part`, from 0 (start) to 1."""
        self._sources = [_Source(track) for track in tracks]
        starts = [source.starts(stride, part) for source in self._sources]
        self._where = np.array(
            [(number, at) for number, found in enumerate(starts) for at in found], dtype=np.int64
        ).reshape(-1, 2)
        if len(self._where) == 0:
            names = ", ".join(track.name for track in tracks)
            raise DatasetError(
                f"{names}: no window of {HORIZONS_S[0]} s with unbroken truth in "
                f"{part[0]:.0%}..{part[1]:.0%} of the recording; nothing to train on."
            )

    def __len__(self) -> int:
        return len(self._where)

    def batch(self, chosen: Indices) -> Batch:
        """The windows of these numbers."""
        cut = [self._sources[number].cut(at) for number, at in self._where[chosen]]
        return Batch(**{name: torch.stack([one[name] for one in cut]) for name in cut[0]})

    def draw(self, size: int, generator: np.random.Generator) -> Batch:
        """A random batch in which every recording has the same share."""
        edges = np.searchsorted(self._where[:, 0], np.arange(len(self._sources) + 1))
        tracks = generator.choice(np.flatnonzero(np.diff(edges)), size=size)
        return self.batch(generator.integers(edges[tracks], edges[tracks + 1]))


class _Source:
    """A track with the truth of every window that starts at one of its n audited states."""

    def __init__(self, track: Track) -> None:
        self.track = track
        self.samples = np.concatenate([track.imu.gyro, track.imu.acc], axis=1)
        self.times = (track.imu.stamps_ns - track.imu.stamps_ns[0]) / NS
        self.period = float(np.median(np.diff(self.times)))
        states = track.audited.states
        period = round(float(np.median(np.diff(states.samples))))
        steps = np.unique([max(round(h / self.period / period), 1) for h in HORIZONS_S])
        self.horizons = period * steps
        self.length = -(-(int(self.horizons[-1]) + 1) // BLOCK) * BLOCK
        first = np.arange(len(states))[:, None]
        self.ends = np.minimum(first + steps, len(states) - 1)
        self.valid = (states.run[self.ends] == states.run[first]) & (first + steps < len(states))
        self.valid &= states.samples[self.ends] - states.samples[first] == self.horizons
        places = track.audited.places
        self.valid &= places[self.ends] - places[first] == steps
        self.log_variance = np.log(audited_variances(track)[:, 3:]).mean(axis=1)
        self.seen = np.tile(np.eye(9), (*self.ends.shape, 1, 1))
        self.cov_truth = self.seen.copy()
        start, horizon = np.nonzero(self.valid)
        found = track.audited.seen_and_own(start, self.ends[start, horizon])
        self.seen[start, horizon], self.cov_truth[start, horizon] = found

    def starts(self, stride: int, part: tuple[float, float]) -> Indices:
        first, last = (int(share * len(self.samples)) for share in part)
        at = self.track.audited.states.samples
        inside = (at >= first) & (at < last - self.horizons[0]) & self.valid[:, 0]
        return np.flatnonzero(inside)[::stride]

    def cut(self, state: int) -> dict[str, Tensor]:
        states, ends = self.track.audited.states, self.ends[state]
        start, n = int(states.samples[state]), len(self.samples)
        # Beyond the ends of the recording its first and last sample stand in, as at run time.
        around = np.arange(start - WARM_UP - CONTEXT, start + self.length - BLOCK + CONTEXT + 1)
        after = np.arange(start, start + self.length)
        held = np.minimum(after, n - 1)
        # Steps beyond the end are never scored, but they must be steps.
        times = self.times[held] + (after - held) * self.period - self.times[start]
        R_bi_w, v, p = states.Rs_w_b[state].T, states.v_w, states.p_w
        dt = (self.times[states.samples[ends]] - self.times[start])[:, None]
        fallen = v[state] * dt + 0.5 * GRAVITY_W * dt**2
        return {
            "samples": torch.tensor(self.samples[np.clip(around, 0, n - 1)], dtype=torch.float32),
            "times": torch.tensor(times),
            "R_bi_bj": torch.tensor(R_bi_w @ states.Rs_w_b[ends]),
            "beta": torch.tensor((v[ends] - v[state] - GRAVITY_W * dt) @ R_bi_w.T),
            "alpha": torch.tensor((p[ends] - p[state] - fallen) @ R_bi_w.T),
            "seen": torch.tensor(self.seen[state]),
            "cov_truth": torch.tensor(self.cov_truth[state]),
            "log_variance": torch.tensor(self.log_variance[state : ends[-1] + 1].mean()),
            "std_gyro_bias": torch.tensor(self._std_gyro_bias(start)),
            "valid": torch.tensor(self.valid[state]),
            "horizons": torch.tensor(self.horizons),
        }

    def _std_gyro_bias(self, start: int) -> Array:
        std = self.track.std_gyro_bias
        return np.zeros(0) if std is None else std[start]
