"""Samples that should be there and are not: timestamps against the rate that was stated."""

from dataclasses import dataclass

import numpy as np

from maci2.types import NS, Stamps


@dataclass(frozen=True)
class SampleRate:
    """How often the IMU was to sample, and how often it did."""

    stated_hz: float
    found_hz: float
    """Samples over time, gaps included."""

    median_hz: float
    """One over the median interval: what the device does between gaps."""

    @property
    def missing(self) -> float:
        """Share of the stated samples that are not there; 0 where there are more."""
        return max(1.0 - self.found_hz / self.stated_hz, 0.0)


def sample_rate(stamps_ns: Stamps, stated_hz: float) -> SampleRate | None:
    """Compare timestamps with a stated rate; None where either says nothing."""
    if len(stamps_ns) < 2 or not (np.isfinite(stated_hz) and stated_hz > 0.0):
        return None
    intervals_s = np.diff(stamps_ns) / NS
    middle = len(intervals_s) // 2
    return SampleRate(
        stated_hz,
        float(len(intervals_s) / intervals_s.sum()),
        float(1.0 / np.partition(intervals_s, middle)[middle]),
    )
