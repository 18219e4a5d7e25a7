"""Stereo pairs: matching of images, and the interface of their sources."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maci2.errors import DatasetError
from maci2.sensors.interpolation import nearest_index
from maci2.types import Stamps

MAX_PAIR_SKEW_NS = 1_000_000
"""Largest difference of timestamps within a stereo pair."""


Image = NDArray[np.uint8]


@dataclass(frozen=True)
class StereoPair:
    """Images of both cameras at one timestamp."""

    stamp_ns: int
    left: Image
    right: Image


@dataclass(frozen=True)
class Frames:
    """Stereo pairs of a recording; images are read on demand.

    An image that cannot be used (truncated, missing, of another size) raises ImageError where it is
    requested: it costs that image, not the recording.
    """

    stamps_ns: Stamps
    """(n,) timestamps of left images with a right one, strictly increasing [ns]."""

    source: str
    """Folder or bag, for messages."""

    resolution: tuple[int, int]
    """Width and height of the calibrated images [px]."""

    unpaired: int
    """Number of images of either camera without a partner."""

    read: Callable[[int, int], Image]
    """Image of a camera (0 left, 1 right), by the index of its pair."""

    close: Callable[[], None] = lambda: None
    """Release the files of a bag; the next image opens them again."""

    def __len__(self) -> int:
        return len(self.stamps_ns)

    def __iter__(self) -> Iterator[StereoPair]:
        """All pairs in the order of their timestamps."""
        return (self.pair(index) for index in range(len(self)))

    def index_of(self, stamp_ns: int) -> int:
        """Index of the pair with exactly this timestamp; the error names the nearest."""
        index = int(np.searchsorted(self.stamps_ns, stamp_ns))
        if index == len(self.stamps_ns) or self.stamps_ns[index] != stamp_ns:
            raise DatasetError(
                f"{self.source}: no stereo pair at {stamp_ns} ns; the nearest is at "
                f"{self.stamps_ns[min(index, len(self.stamps_ns) - 1)]} ns."
            )
        return index

    def left(self, index: int) -> Image:
        """Left image."""
        return self.read(0, index)

    def right(self, index: int) -> Image:
        """Right image."""
        return self.read(1, index)

    def pair(self, index: int) -> StereoPair:
        """Both images."""
        return StereoPair(int(self.stamps_ns[index]), self.left(index), self.right(index))


def pair_stamps(left_ns: Stamps, right_ns: Stamps) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Indices of matching left and right images; each image is used once."""
    if len(left_ns) == 0 or len(right_ns) == 0:
        return np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp)
    nearest = nearest_index(right_ns, left_ns)
    left = np.flatnonzero(np.abs(right_ns[nearest] - left_ns) < MAX_PAIR_SKEW_NS)
    right, first = np.unique(nearest[left], return_index=True)
    return left[first], right
