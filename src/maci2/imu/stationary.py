"""Stretches in which a device does not rotate: there its gyroscope shows its bias.

All three components, the vertical one too, which gravity never tells. But a stationary gyroscope
reads otherwise than the same one in flight: on EuRoC's drone by 1e-3 rad/s about z, in every
recording to the same side (vibration is rectified). So what is read then is the bias in motion
plus a shift, and what is known of the shift is learned like a turn-on bias.
"""

from dataclasses import dataclass, field

import numpy as np

from maci2.gaussian import predictive_variance
from maci2.sensors import ImuSamples
from maci2.types import Array

BLOCK_S = 0.5
"""Length of the blocks that are stationary or not [s]."""

MAX_STD = (0.015, 0.2)
"""Largest spread of a stationary block's samples on any axis [rad/s, m/s^2]: a MEMS sensor's noise
and people walking by, but neither rotors nor a hand."""

STD_INSTABILITY = 1e-4
"""Error that no averaging removes [rad/s]: the bias' own flicker, and the Earth's rotation."""

STD_UNKNOWN = 1e-3
"""Standard deviation of the shift while too few recordings have told it [rad/s]."""

ENOUGH = 3
"""Number of recordings with a stationary part from which the shift is learned."""


@dataclass(frozen=True)
class StationaryShift:
    """What a stationary gyroscope reads beyond its bias in motion [rad/s]."""

    mean: Array = field(default_factory=lambda: np.zeros(3))
    std: Array = field(default_factory=lambda: np.full(3, STD_UNKNOWN))


@dataclass(frozen=True)
class StationaryBlocks:
    """A stream cut into m blocks."""

    still: Array
    """(m,) whether the device was stationary."""

    rate: Array
    """(m, 3) mean of the gyroscope [rad/s]."""

    std_rate: Array
    """(m, 3) standard deviation of that mean, if the device was stationary."""


def stationary_blocks(samples: ImuSamples) -> StationaryBlocks:
    """Half seconds, whether each is stationary, and what the gyroscope read."""
    period = block_length(samples)
    blocks = len(samples) // period
    gyro, acc = (
        values[: blocks * period].reshape(blocks, period, 3)
        for values in (samples.gyro, samples.acc)
    )
    std = gyro.std(axis=1)
    quiet = (std.max(axis=1) < MAX_STD[0]) & (acc.std(axis=1).max(axis=1) < MAX_STD[1])
    std_rate = np.sqrt(std**2 / period + STD_INSTABILITY**2)
    return StationaryBlocks(quiet, gyro.mean(axis=1), std_rate)


def block_length(samples: ImuSamples) -> int:
    """Length of a block in samples."""
    return max(round(BLOCK_S * samples.rate_hz), 1)


def stationary_rate(samples: ImuSamples) -> Array | None:
    """(3,) what the gyroscope reads while stationary [rad/s]; None if the device never is."""
    blocks = stationary_blocks(samples)
    if not blocks.still.any():
        return None
    weight = blocks.std_rate[blocks.still] ** -2
    return np.asarray((weight * blocks.rate[blocks.still]).sum(0) / weight.sum(0))


def shift_of(seen: list[Array]) -> StationaryShift:
    """Shift to expect of an unseen recording, from the shifts of seen ones."""
    if len(seen) < ENOUGH:
        return StationaryShift()
    std = np.sqrt(predictive_variance(np.array(seen)) + STD_INSTABILITY**2)
    return StationaryShift(np.mean(seen, axis=0), np.full(3, std))
