"""Biases of recordings, as audits of their ground truths find them, and what they say of others.

The biases of several recordings say how far a bias spreads: the prior for the estimator.
"""

from dataclasses import dataclass

import numpy as np

from maci2.gaussian import predictive_variance
from maci2.imu import BiasPrior
from maci2.types import NS, Array, Stamps

CHUNK_S = 10.0
"""Stretches whose mean biases show how a bias wanders within a recording; its halves where it is
shorter than two of them."""


@dataclass(frozen=True)
class RecordingBias:
    """Bias left in the samples of one recording, [gyro, acc]."""

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
    """What to expect of an unseen recording: the mean of the seen ones, and Student's predictive
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
