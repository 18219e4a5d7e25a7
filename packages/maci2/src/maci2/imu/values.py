"""Readings that are not new, and readings at the end of a sensor's range.

A live channel shows noise. How often it repeats a value by chance depends on its resolution and on
how still the device is, both of which an axis shares with the sensor's other two: they are the
measure here, and no resolution has to be known. Nor has a range: a reading that stays at the
largest or smallest value of all for many samples, while before and after it changes with each, has
met the end of the range; so has one that comes back to exactly that value many times and hardly
ever turns just before it.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import bdtrc, betaln

from maci2.imu.measurements import RESOLUTION, changed
from maci2.types import Array, Mask

MIN_STUCK_S = 0.5
"""One value for longer than this, while another axis of the sensor changes at least five times
as often, is a fault."""

MOST_HELD = 0.4
"""Share of held values that a sound driver may give: an accelerometer of 250 Hz that is copied into
samples of 400 Hz has 0.375, one of half the rate 0.5."""


class StuckAxis(NamedTuple):
    """The longest time for which one axis of a sensor has the same value."""

    axis: int
    start: int
    """Index of the first sample that has it."""

    length: int
    """Number of samples that have it."""

    others: int
    """Length of the longest such run on the livelier of the sensor's other axes."""


def runs_of_equal(is_new: Mask) -> tuple[Array, Array]:
    """First index and length of each run of equal readings, given which differ from the one
    before."""
    starts = np.r_[0, np.flatnonzero(is_new) + 1]
    return starts, np.diff(np.r_[starts, len(is_new) + 1])


def stuck_axis(values: Array, rate_hz: float) -> StuckAxis | None:
    """The axis of a sensor, values (n, 3), that stands still while another moves; None if none
    does."""
    is_new = changed(values)
    runs = [runs_of_equal(is_new[:, axis]) for axis in range(3)]
    longest = np.array([lengths.max() for _, lengths in runs])
    axis = int(np.argmax(longest))
    others = int(np.delete(longest, axis).min())
    if longest[axis] <= max(MIN_STUCK_S * rate_hz, 5 * others):
        return None
    starts, lengths = runs[axis]
    return StuckAxis(axis, int(starts[np.argmax(lengths)]), int(longest[axis]), others)


def held_share(values: Array) -> float:
    """Share of a sensor's samples, values (n, 3), that hold all three values of the one before.

    Zero where axes change one by one: a coarse resolution or a device that stands still repeats
    values without holding them, and its axes do so independently. A sensor that is read faster than
    it measures changes them together. One where nothing changes at all.
    """
    is_new = changed(values)
    some = is_new.any(axis=1)
    if not some.any():
        return 1.0
    if is_new[some].sum(axis=1).mean() < 2.0:
        return 0.0
    return float(1.0 - some.mean())


NEIGHBOURS = 4
"""Runs of equal readings to either side of the one at the end, by which its length is judged."""

LEAST_STEPS = 2.0
"""Readings that usually change by less than this many steps of the resolution repeat by
themselves: nothing can be said of them."""


LEAST_AT_END = 5
"""Samples at an end of the range, of which fewer can be chance at any rate of false alarms that is
worth stating."""


class Saturation(NamedTuple):
    """Readings of one axis that met the end of its range."""

    value: float
    samples: int
    """Number of samples that have it."""

    longest: int
    """Number of them in a row."""


def saturation(values: Array, false_alarm: float) -> Saturation | None:
    """The end of the range that an axis, values (n,), met most often; None where it met none, but
    for one sound axis in 1 / `false_alarm`."""
    at_ends = values >= values.max() - RESOLUTION, values <= values.min() + RESOLUTION
    if max(np.count_nonzero(at_end) for at_end in at_ends) < LEAST_AT_END:
        return None
    starts, lengths = runs_of_equal(changed(values))
    levels = values[starts]
    if len(levels) <= 2 * NEIGHBOURS or not _resolved(levels):
        return None
    inside = (levels < levels.max() - RESOLUTION) & (levels > levels.min() + RESOLUTION)
    found = []
    for sign in (1.0, -1.0):
        at_end = np.flatnonzero(sign * levels >= (sign * levels).max() - RESOLUTION)
        longest = int(at_end[np.argmax(lengths[at_end])])
        beside = lengths[_beside(inside, longest)]
        chance = min(
            len(at_end) * _chance(int(lengths[longest]), beside), _chance_of_peaks(sign * levels)
        )
        # Two ends, two ways to tell.
        if 4.0 * chance < false_alarm:
            count = int(lengths[at_end].sum())
            found.append(Saturation(float(levels[longest]), count, int(lengths[longest])))
    return max(found, key=lambda one: one.samples, default=None)


def _resolved(levels: Array) -> bool:
    """Readings usually change by more than the smallest step there is."""
    steps = np.abs(np.diff(levels))
    return bool(np.median(steps) >= LEAST_STEPS * steps.min())


def _beside(inside: Mask, run: int) -> Array:
    """Indices of the runs nearest to one at an end that are at neither end."""
    indices = np.flatnonzero(inside)
    before, after = indices[indices < run], indices[indices > run]
    return np.r_[before[-NEIGHBOURS:], after[:NEIGHBOURS]]


def _chance(length: int, beside: Array) -> float:
    """Probability of a run as long as that, were readings repeated as often as in those beside."""
    repeated, new = float(np.sum(beside - 1)), float(len(beside))
    # How often a reading repeats is unknown: uniform before, beta distributed given the others.
    log = betaln(repeated + length, 1.0 + new) - betaln(1.0 + repeated, 1.0 + new)
    return float(np.exp(log))


def _chance_of_peaks(levels: Array) -> float:
    """Probability that so many turning points are exactly the largest of all, were those one step
    below it no rarer."""
    turns = levels[1:-1][(levels[1:-1] > levels[:-2]) & (levels[1:-1] > levels[2:])]
    below = levels.max() - turns
    at_end = int(np.sum(below <= RESOLUTION))
    step = float(np.abs(np.diff(levels)).min())
    next_to_it = int(np.sum((below > RESOLUTION) & (below <= step + RESOLUTION)))
    return float(bdtrc(at_end - 1, at_end + next_to_it, 0.5)) if at_end > 0 else 1.0
