"""Which left and right images belong together."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maci2.sensors.types import Stamps

MAX_PAIR_SKEW_NS = 1_000_000
"""Left and right belong together when their stamps differ by less than this."""


@dataclass(frozen=True)
class StereoPair:
    """What both cameras saw at one stamp."""

    stamp_ns: int
    left: NDArray[np.uint8]
    right: NDArray[np.uint8]


def pair_stamps(left_ns: Stamps, right_ns: Stamps) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Indices of left and right images that belong together; each image is used once."""
    if len(left_ns) == 0 or len(right_ns) == 0:
        return np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp)
    after = np.clip(np.searchsorted(right_ns, left_ns), 0, len(right_ns) - 1)
    before = np.maximum(after - 1, 0)
    earlier = np.abs(right_ns[before] - left_ns) <= np.abs(right_ns[after] - left_ns)
    nearest = np.where(earlier, before, after)
    left = np.flatnonzero(np.abs(right_ns[nearest] - left_ns) < MAX_PAIR_SKEW_NS)
    right, first = np.unique(nearest[left], return_index=True)
    return left[first], right
