"""Angular rates of the gyroscope against those of another source of rotation, at any time offset.

Centred mean rates over a tenth of a second are compared, so a constant bias drops out and nothing
has to be known about gravity, position or extrinsics.
"""

from dataclasses import dataclass
from itertools import permutations, product
from typing import Literal

import numpy as np

from maci2.geometry.se3 import so3_log_stack
from maci2.sensors import ImuSamples
from maci2.types import NS, Array, Mask, Stamps

INTERVAL_S = 0.1
LONGEST_INTERVAL_S = 0.3
"""Longer ones end after a gap of the source."""

MIN_INTERVALS = 20

MIN_RATE = 0.05
"""Variation of the source's rate, rms [rad/s], below which gyroscope and source cannot be
compared: it is that of noise."""

MIN_CORRELATION = 0.8
"""Correlation of centred rates after the best rotation; below it they are no two views of one
motion."""

SEARCH_S = 1.0
"""Offsets are looked for this far to either side, less for recordings below 8 s."""

COARSE_S = 0.01
FINE_S = 0.001

TOO_FAST, MOST_JUMPS = 1.5, 0.05
"""A source's rate over the gyroscope's fastest that is a jump, and the largest share of such."""

BLOCK_S = 4.0
"""The offset's uncertainty is the scatter over blocks of this length: nothing needs to be known of
how errors are correlated in time."""

SIGNED_PERMUTATIONS = sorted(
    (
        np.diag(signs)[list(order)]
        for order in permutations(range(3))
        for signs in product((1.0, -1.0), repeat=3)
    ),
    key=lambda P: (np.linalg.det(P) < 0.0, -np.trace(P)),
)
"""The 24 ways to put one set of axes onto another and the 24 that also mirror; the identity is
first and wins a tie."""


def columns(P: Array) -> str:
    """Order and signs in which to read the columns, such as (-y, x, z)."""
    names = []
    for row in P:
        at = int(np.argmax(np.abs(row)))
        names.append(("-" if row[at] < 0.0 else "") + "xyz"[at])
    return f"({', '.join(names)})"


@dataclass(frozen=True)
class RotationSource:
    """Something besides the gyroscope that says how the device rotated."""

    name: str
    kind: Literal["truth", "vision"]
    stamps_ns: Stamps
    Ts_w_s: Array
    """(n, 4, 4) poses of the source's frame s: the body for a truth, a camera for vision."""

    T_b_s: Array
    """Pose of that frame on the body by the calibration; the identity for a truth."""


@dataclass(frozen=True)
class RateMatch:
    """Agreement of gyroscope and source."""

    offset_s: float
    """Seconds to add to the source's timestamps."""

    std_offset_s: float
    drift_s: float
    """Change of the offset from the first block to the last."""

    std_drift_s: float
    rates_s: Array
    """(k, 3) of the source, in its frame [rad/s], not centred."""

    gyro: Array
    """(k, 3) over the same time, offset applied [rad/s]."""

    @property
    def correlation(self) -> float:
        """0 to 1, whatever rotation or mirroring lies between."""
        return _correlation(self.gyro, self.rates_s)

    @property
    def excitation(self) -> float:
        """Variation of the source's rate, rms [rad/s]."""
        return float(np.linalg.norm(_centred(self.rates_s)) / np.sqrt(len(self.rates_s)))

    @property
    def ratio(self) -> float:
        """Gyroscope over source: 1, or 57.3 for a gyroscope in deg/s."""
        spread_gyro, spread = (np.linalg.norm(_centred(x)) for x in (self.gyro, self.rates_s))
        return float(spread_gyro) / max(float(spread), 1e-12)

    @property
    def comparable(self) -> bool:
        return self.excitation > MIN_RATE and self.correlation > MIN_CORRELATION


@dataclass(frozen=True)
class _Pairs:
    start_s: Array
    end_s: Array
    rates_s: Array
    gyro_s: Array
    turned: Array
    """Integral of the gyroscope's readings at gyro_s."""

    def gyro(self, offset_s: float) -> Array:
        """(k, 3) mean readings over the intervals, moved by the offset."""
        start, end = (
            np.stack([np.interp(at_s + offset_s, self.gyro_s, axis) for axis in self.turned.T], 1)
            for at_s in (self.start_s, self.end_s)
        )
        return np.asarray((end - start) / (self.end_s - self.start_s)[:, None])

    def correlation(self, offset_s: float) -> float:
        return _correlation(self.gyro(offset_s), self.rates_s)


def _correlation(gyro: Array, rates: Array) -> float:
    gyro, rates = _centred(gyro), _centred(rates)
    norms = np.linalg.norm(gyro) * np.linalg.norm(rates)
    # The sum of singular values is the largest trace over all rotations and mirrorings.
    return float(np.linalg.svd(rates.T @ gyro, compute_uv=False).sum() / max(norms, 1e-12))


def match_rates(source: RotationSource, imu: ImuSamples) -> RateMatch | None:
    """Find the offset at which both rotate alike; None where there is too little in common."""
    first_ns = max(int(source.stamps_ns[0]), int(imu.stamps_ns[0]))
    last_ns = min(int(source.stamps_ns[-1]), int(imu.stamps_ns[-1]))
    search_s = min(SEARCH_S, max(last_ns - first_ns, 0) / NS / 8.0)
    pairs = _pairs(source, imu, search_s)
    return None if pairs is None else _matched(pairs, _best_offset(pairs, search_s))


def _pairs(source: RotationSource, imu: ImuSamples, margin_s: float) -> _Pairs | None:
    origin_ns = int(imu.stamps_ns[0])
    at_s = (source.stamps_ns - origin_ns) / NS
    gyro_s = (imu.stamps_ns - origin_ns) / NS
    # Timestamps repeat the period exactly or nearly so: a hair less than the wanted length.
    ticks = np.searchsorted(at_s, np.arange(at_s[0], at_s[-1], 0.999 * INTERVAL_S))
    ticks = np.unique(ticks[ticks < len(at_s)])
    first, last = ticks[:-1], ticks[1:]
    length_s = at_s[last] - at_s[first]
    good = (length_s < LONGEST_INTERVAL_S) & (at_s[first] >= margin_s)
    good &= at_s[last] <= gyro_s[-1] - margin_s
    first, last, length_s = first[good], last[good], length_s[good]
    if len(first) < MIN_INTERVALS:
        return None
    R_w_s = source.Ts_w_s[:, :3, :3]
    turns = so3_log_stack(np.swapaxes(R_w_s[first], 1, 2) @ R_w_s[last])
    middles = 0.5 * (imu.gyro[1:] + imu.gyro[:-1]) * np.diff(gyro_s)[:, None]
    turned = np.vstack([np.zeros(3), np.cumsum(middles, axis=0)])
    rates_s = turns / length_s[:, None]
    kept = ~impossible_rates(np.linalg.norm(rates_s, axis=1), imu)
    return _Pairs(at_s[first[kept]], at_s[last[kept]], rates_s[kept], gyro_s, turned)


def impossible_rates(rates: Array, imu: ImuSamples) -> Mask:
    """Rates of a source that no motion explains, given the fastest of the gyroscope: jumps to a
    pose that a tracker wrote when it was lost. None where they are many: then it is no jump."""
    fastest = float(np.linalg.norm(imu.gyro, axis=1).max())
    far = rates > TOO_FAST * fastest + 1.0
    return far if far.mean() < MOST_JUMPS else np.zeros_like(far)


def _best_offset(pairs: _Pairs, search_s: float) -> float:
    """Coarse over the whole range, then fine around the best."""
    coarse_s = np.arange(-search_s, search_s + COARSE_S / 2, COARSE_S)
    best_s = max(coarse_s, key=pairs.correlation)
    fine_s = best_s + np.arange(-COARSE_S, COARSE_S + FINE_S / 2, FINE_S)
    return float(max(np.clip(fine_s, -search_s, search_s), key=pairs.correlation))


def _matched(pairs: _Pairs, offset_s: float) -> RateMatch:
    """The refined offset with its standard error, and its drift with its own."""
    count = int(np.clip((pairs.end_s[-1] - pairs.start_s[0]) / BLOCK_S, 3, 24))
    blocks = np.array_split(np.arange(len(pairs.start_s)), count)
    for _ in range(3):
        steps, weights = _block_steps(pairs, offset_s, blocks)
        step = float(np.sum(weights * steps) / np.sum(weights))
        offset_s += float(np.clip(step, -FINE_S, FINE_S))
    scatter = np.sum(weights**2 * (steps - step) ** 2)
    std_s = float(np.sqrt(scatter * count / (count - 1.0)) / np.sum(weights))
    middles = np.array([pairs.start_s[block].mean() for block in blocks])
    x = middles - np.sum(weights * middles) / np.sum(weights)
    spread = np.sum(weights * x**2)
    slope = float(np.sum(weights * x * steps) / spread)
    misfit = np.sum((weights * x * (steps - step - slope * x)) ** 2) * count / (count - 2.0)
    length_s = float(middles[-1] - middles[0])
    std_drift_s = float(np.sqrt(misfit) / spread) * length_s
    gyro = pairs.gyro(offset_s)
    return RateMatch(offset_s, std_s, slope * length_s, std_drift_s, pairs.rates_s, gyro)


def _block_steps(pairs: _Pairs, offset_s: float, blocks: list[np.ndarray]) -> tuple[Array, Array]:
    """Change of offset that each block asks for, to first order, and its weight."""
    gyro = pairs.gyro(offset_s)
    slope = (pairs.gyro(offset_s + FINE_S) - pairs.gyro(offset_s - FINE_S)) / (2.0 * FINE_S)
    M = _linear_map(pairs.rates_s, gyro)
    steps, weights = [], []
    for block in blocks:
        left = _centred(pairs.rates_s[block]) - _centred(gyro[block]) @ M.T
        change = _centred(slope[block]) @ M.T
        weights.append(float(np.sum(change**2)) + 1e-12)
        steps.append(float(np.sum(left * change)) / weights[-1])
    return np.array(steps), np.array(weights)


def _linear_map(rates: Array, gyro: Array) -> Array:
    """Orthogonal map with one scale that carries gyroscope rates to the source's."""
    U, singular, Vt = np.linalg.svd(_centred(rates).T @ _centred(gyro))
    return float(singular.sum() / max(np.sum(_centred(gyro) ** 2), 1e-12)) * (U @ Vt)


def _centred(values: Array) -> Array:
    return values - values.mean(axis=0)


def misfit(expected: Array, found: Array, M: Array) -> float:
    """Sum of squares left when M carries `found` to `expected`, both centred."""
    return float(np.sum((_centred(expected) - _centred(found) @ M.T) ** 2))
