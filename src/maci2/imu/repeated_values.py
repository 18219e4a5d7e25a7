"""Readings that are not new: an axis that is stuck, a sensor that holds its values.

A live channel shows noise. How often it repeats a value by chance depends on its resolution and on
how still the device is, both of which an axis shares with the sensor's other two: they are the
measure here, and no resolution has to be known.
"""

from typing import NamedTuple

import numpy as np

from maci2.types import Array, Mask

MIN_STUCK_S = 0.5
"""The same value for longer than this, while another axis of the sensor changes at least five times
as often, is a fault."""

MOST_HELD = 0.4
"""Share of held values that a sound driver may give: an accelerometer of 250 Hz that is copied into
samples of 400 Hz has 0.375, one of half the rate 0.5."""

RESOLUTION = 1e-9
"""Differences below it are rounding, in rad/s and m/s^2: no IMU resolves them."""


class StuckAxis(NamedTuple):
    """The longest time for which one axis of a sensor has the same value."""

    axis: int
    start: int
    """Index of the first sample that has it."""

    length: int
    """How many samples have it."""

    others: int
    """Length of the longest such run on the livelier of the sensor's other axes."""


def changed(values: Array) -> Mask:
    """(n - 1, ...) which readings differ from the one before."""
    return np.asarray(np.abs(np.diff(values, axis=0)) > RESOLUTION)


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
