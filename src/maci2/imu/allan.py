"""Allan deviation of a stretch without motion, and noise near half the sampling rate."""

from dataclasses import dataclass
from math import comb

import numpy as np

from maci2.imu.stationary import block_length, stationary_blocks
from maci2.sensors import ImuSamples
from maci2.types import Array

SHORTEST_S = 5.0
"""Shortest stretch without motion that an Allan deviation is taken of."""

WHITE_UP_TO_S = 1.0
"""Averaging times up to which white noise rules."""

ORDER = 6
"""Order of the differences that motion drops out of."""


@dataclass(frozen=True)
class AllanDeviation:
    """Allan deviation over the longest stationary stretch of a recording."""

    seconds: float
    """Length of the stretch [s]."""

    tau_s: Array
    """(m,) averaging times [s]."""

    deviation: Array
    """(m, 6) of gyroscope [rad/s] and accelerometer [m/s^2], each axis."""

    density: Array
    """(6,) white noise: deviation times sqrt(tau) over short averaging times, per sqrt(Hz)."""

    std_log_density: float
    """Standard deviation of its natural logarithm."""


def stationary_allan(samples: ImuSamples) -> AllanDeviation | None:
    """Allan deviation of the longest stretch without motion; None where none is long enough."""
    still = np.r_[False, stationary_blocks(samples).still, False]
    edges = np.flatnonzero(np.diff(still.astype(int)))
    runs = edges.reshape(-1, 2)
    if not len(runs):
        return None
    first, last = max(runs, key=lambda run: run[1] - run[0]) * block_length(samples)
    seconds = (last - first) / samples.rate_hz
    if seconds < SHORTEST_S:
        return None
    values = np.hstack([samples.gyro[first:last], samples.acc[first:last]])
    sizes = np.unique(np.geomspace(1, (last - first) // 4, 30).astype(int))
    tau_s = sizes / samples.rate_hz
    deviation = np.array([_overlapping(values, size) for size in sizes])
    white = tau_s <= WHITE_UP_TO_S
    density = np.exp(np.mean(np.log(deviation[white] * np.sqrt(tau_s[white])[:, None]), axis=0))
    longest = float(tau_s[white][-1])
    return AllanDeviation(seconds, tau_s, deviation, density, float(np.sqrt(longest / seconds)))


def _overlapping(values: Array, size: int) -> Array:
    """(6,) overlapping Allan deviation over averages of `size` samples."""
    sums = np.cumsum(np.vstack([np.zeros(values.shape[1]), values - values.mean(axis=0)]), axis=0)
    means = (sums[size:] - sums[:-size]) / size
    steps = means[size:] - means[:-size]
    return np.asarray(np.sqrt(0.5 * np.mean(steps**2, axis=0)))


def high_frequency_density(samples: ImuSamples) -> Array:
    """(6,) white noise that samples would need to differ as they do from one to the next, per
    sqrt(Hz): sensor noise, vibration and what aliases, none of which is motion."""
    values = np.hstack([samples.gyro, samples.acc])
    rough = np.diff(values, n=ORDER, axis=0)
    variance = np.mean(rough**2, axis=0) / comb(2 * ORDER, ORDER)
    return np.asarray(np.sqrt(variance / samples.rate_hz))
