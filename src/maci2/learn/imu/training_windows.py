"""Training windows: samples around a start, truth at the start and at every horizon."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from maci2.errors import DatasetError
from maci2.ground_truth.states import Indices, TruthStates, truth_states
from maci2.imu import BiasPrior, datasheet_model
from maci2.imu.bias_tracking import track_gyro_bias
from maci2.imu.network_shape import BLOCK, CONTEXT
from maci2.imu.stationary import StationaryShift
from maci2.learn.imu.recording_constants import Alignment, align
from maci2.learn.imu.truth_frame import imu_in_truth_body, turned
from maci2.sensors import ImuNoise, ImuSamples, Recording
from maci2.types import NS, Array

HORIZONS = (20, 50, 56, 100, 200, 500)
"""Samples at which errors are scored: 0.1, 0.25, 0.278 (ten keyframes in 2.5 s), 0.5, 1, 2.5 s."""

WARM_UP = 15 * BLOCK
"""Samples before a window's start that the network runs through: real ones, from the recording."""

LENGTH = -(-(HORIZONS[-1] + 1) // BLOCK) * BLOCK
"""Samples from the start on that the network covers."""


@dataclass(frozen=True)
class Track:
    """One recording, ready to cut windows from."""

    name: str
    kind: str
    """Kind of its truth."""

    imu: ImuSamples
    noise: ImuNoise
    states: TruthStates
    """States of the IMU: rotated by `turn` from what the truth says of its own body."""

    turn: Array
    """(3,) rotation vector from IMU coordinates to those of the truth's body [rad]."""

    alignment: Alignment

    std_gyro_bias: Array | None
    """(n, 3) spread of the gyroscope bias at each sample where it is tracked; None where not."""


@dataclass(frozen=True)
class Batch:
    """B windows."""

    samples: Tensor
    """(B, WARM_UP + LENGTH + 16, 6) float32: what the network reads, context included."""

    times: Tensor
    """(B, LENGTH) [s] since the start."""

    recording: Tensor
    """(B,) number of the recording a window is from."""

    R_bi_bj: Tensor
    """(B, K, 3, 3) truth at the horizons."""

    beta: Tensor
    """(B, K, 3) velocity change without gravity, in b_i, as the truth has it."""

    alpha: Tensor
    """(B, K, 3) position change likewise."""

    rates: Tensor
    """(B, K + 1, 9) rate of change of the truth state at the start and at each horizon."""

    std_gyro_bias: Tensor
    """(B, 3) spread of the gyroscope bias at the start where it is tracked, else (B, 0)."""

    valid: Tensor
    """(B, K) whether the truth is unbroken from the start to the horizon."""

    def to(self, device: torch.device) -> "Batch":
        """The batch on another device."""
        return Batch(**{name: value.to(device) for name, value in vars(self).items()})


def load_track(recording: Recording, kind: str, truth_names: tuple[str, ...] = ()) -> Track:
    """Truth at the samples, and the recording's constants."""
    imu, noise = recording.imu, recording.rig.imu
    states = truth_states(imu, recording.truth(truth_names), recording.name)
    turn = imu_in_truth_body(datasheet_model(imu, noise), states)
    states = turned(states, turn)
    alignment = align(datasheet_model(imu, noise), states)
    return Track(recording.name, kind, imu, noise, states, turn, alignment, None)


def with_bias_tracked(track: Track, turn_on: BiasPrior, rest_shift: StationaryShift) -> Track:
    """The track as a model that tracks the gyroscope's bias sees it."""
    tracked, std = track_gyro_bias(track.imu, turn_on, rest_shift)
    imu = replace(track.imu, gyro=track.imu.gyro - tracked)
    alignment = align(datasheet_model(imu, track.noise), track.states)
    return replace(track, imu=imu, alignment=alignment, std_gyro_bias=std)


class Windows:
    """All windows of some tracks within a share of each track's time."""

    def __init__(
        self, tracks: list[Track], names: list[str], stride: int, part: tuple[float, float]
    ) -> None:
        """Windows start every `stride` samples within `part`, from 0 (start) to 1 (end).

        `names` numbers the recordings of all stages.
        """
        self._sources = [_Source(track, names.index(track.name)) for track in tracks]
        starts = [source.starts(stride, part) for source in self._sources]
        self._where = np.array(
            [(number, at) for number, found in enumerate(starts) for at in found], dtype=np.int64
        ).reshape(-1, 2)
        if len(self._where) == 0:
            raise DatasetError(
                f"{', '.join(track.name for track in tracks)}: no stretch of {HORIZONS[0]} "
                "samples with unbroken truth in "
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
    """A track with its truth spread over the samples."""

    def __init__(self, track: Track, number: int) -> None:
        n = len(track.imu)
        self.samples = np.concatenate([track.imu.gyro, track.imu.acc], axis=1)
        self.times = (track.imu.stamps_ns - track.imu.stamps_ns[0]) / NS
        self.period = float(np.median(np.diff(self.times)))
        self.number = number
        self.gravity_w = track.alignment.gravity_w
        self.run = np.full(n, -1, dtype=np.int64)
        self.R, self.v, self.p = np.zeros((n, 3, 3)), np.zeros((n, 3)), np.zeros((n, 3))
        states = track.states
        self.run[states.samples] = states.run
        self.R[states.samples], self.v[states.samples] = states.Rs_w_b, states.v_w
        self.p[states.samples] = states.p_w
        self.unbiased = self.samples - track.alignment.bias
        self.std_gyro_bias = track.std_gyro_bias

    def starts(self, stride: int, part: tuple[float, float]) -> Indices:
        first, last = (int(share * len(self.run)) for share in part)
        starts = np.arange(first, last - HORIZONS[0], stride)
        starts = starts[self.run[starts] >= 0]
        return starts[self.run[starts + HORIZONS[0]] == self.run[starts]]

    def cut(self, start: int) -> dict[str, Tensor]:
        # Beyond the ends of the recording its first and last sample stand in, as at run time.
        around = np.arange(start - WARM_UP - CONTEXT, start + LENGTH - BLOCK + CONTEXT + 1)
        inside = np.clip(around, 0, len(self.run) - 1)
        after = np.arange(start, start + LENGTH)
        held = np.minimum(after, len(self.run) - 1)
        ends = np.clip(start + np.array(HORIZONS), 0, len(self.run) - 1)
        valid = (self.run[ends] == self.run[start]) & (ends == start + np.array(HORIZONS))
        R_bi_w = self.R[start].T
        dt = (self.times[ends] - self.times[start])[:, None]
        # Steps beyond the end are never scored, but they must be steps.
        times = self.times[held] + (after - held) * self.period - self.times[start]
        fallen = self.v[start] * dt + 0.5 * self.gravity_w * dt**2
        return {
            "samples": torch.tensor(self.samples[inside], dtype=torch.float32),
            "times": torch.tensor(times),
            "recording": torch.tensor(self.number),
            "R_bi_bj": torch.tensor(R_bi_w @ self.R[ends]),
            "beta": torch.tensor((self.v[ends] - self.v[start] - self.gravity_w * dt) @ R_bi_w.T),
            "alpha": torch.tensor((self.p[ends] - self.p[start] - fallen) @ R_bi_w.T),
            "rates": torch.tensor(self._rates(np.concatenate([[start], ends]), R_bi_w)),
            "std_gyro_bias": torch.tensor(self._std_gyro_bias(start)),
            "valid": torch.tensor(valid),
        }

    def _std_gyro_bias(self, start: int) -> Array:
        return np.zeros(0) if self.std_gyro_bias is None else self.std_gyro_bias[start]

    def _rates(self, at: Indices, R_bi_w: Array) -> Array:
        acc_w = np.einsum("nij,nj->ni", self.R[at], self.unbiased[at, 3:]) + self.gravity_w
        return np.concatenate(
            [self.unbiased[at, :3], acc_w @ R_bi_w.T, self.v[at] @ R_bi_w.T], axis=1
        )
