"""States over time with bands, for long recordings: tracks and ground truth."""

import numpy as np

from maci2.reports.html import figure
from maci2.reports.svg import Series, chart
from maci2.types import Array

POINTS = 700
"""Largest number of points of a line."""

AXES = "xyz"


def every_nth(count: int) -> int:
    """Stride that leaves at most `POINTS` of this many."""
    return max(-(-count // POINTS), 1)


def bands(time_s: Array, values: Array, std: Array, label: str, caption: str) -> str:
    """Three components over time, each with three standard deviations."""
    series = [Series(a, time_s, values[:, i], 3.0 * std[:, i]) for i, a in enumerate(AXES)]
    return figure(chart(series, "time [s]", label), f"{caption} Bands: three standard deviations.")


def spreads(time_s: Array, std: Array, label: str, caption: str) -> str:
    """Standard deviations of three components over time."""
    series = [Series(a, time_s, std[:, i]) for i, a in enumerate(AXES)]
    return figure(chart(series, "time [s]", label, from_zero=True), caption)


def components(time_s: Array, values: Array, label: str, caption: str) -> str:
    """Three components over time."""
    series = [Series(a, time_s, np.asarray(values[:, i])) for i, a in enumerate(AXES)]
    return figure(chart(series, "time [s]", label), caption)
