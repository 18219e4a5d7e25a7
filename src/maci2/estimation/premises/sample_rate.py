"""Samples that should be there and are not: timestamps against the rate that was stated."""

import math
from dataclasses import dataclass

from maci2.types import NS, Stamps


@dataclass(frozen=True)
class SampleRate:
    """How often the IMU was to sample, and how often it did."""

    stated_hz: float
    found_hz: float
    """Samples over time, gaps included."""

    @property
    def missing(self) -> float:
        """Share of the stated samples that are not there; 0 where there are more."""
        return max(1.0 - self.found_hz / self.stated_hz, 0.0)


def sample_rate(stamps_ns: Stamps, stated_hz: float) -> SampleRate | None:
    """Compare timestamps with a stated rate; None where either says nothing."""
    if len(stamps_ns) < 2 or not 0.0 < stated_hz < math.inf:
        return None
    found_hz = (len(stamps_ns) - 1) * NS / int(stamps_ns[-1] - stamps_ns[0])
    return SampleRate(stated_hz, found_hz)
