"""Stereo pairs: matching of images, and the interface of their sources."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from maci2.errors import DatasetError
from maci2.sensors.rig_types import Rig
from maci2.sensors.types import BagImages
from maci2.types import Stamps, nearest_index

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
class ImageRecording:
    """Images of a recording and the calibration of its cameras: the input of visual odometry.

    A `Recording` has the same fields and does in its place.
    """

    name: str
    path: Path
    rig: Rig
    camera_stamps_ns: tuple[Stamps, ...]
    """Timestamps of the images [ns], one array per camera."""

    camera_shift_ns: int = 0
    """Offset that was added to the camera's timestamps [ns]."""

    image_names: tuple[dict[int, str], ...] = ()
    """Names of image files, as in `Recording`."""

    image_folders: tuple[Path, ...] = ()
    """Folder of the images of each camera, if not camN/data."""

    bag: BagImages | None = None
    """Location of the images in a bag; None for a folder."""


class HasImages(Protocol):
    """A `Recording` or an `ImageRecording`."""

    @property
    def name(self) -> str: ...
    @property
    def path(self) -> Path: ...
    @property
    def rig(self) -> Rig: ...
    @property
    def camera_stamps_ns(self) -> tuple[Stamps, ...]: ...
    @property
    def camera_shift_ns(self) -> int: ...
    @property
    def image_names(self) -> tuple[dict[int, str], ...]: ...
    @property
    def image_folders(self) -> tuple[Path, ...]: ...
    @property
    def bag(self) -> BagImages | None: ...


class Frames(Protocol):
    """Stereo pairs of a recording; images are read on demand.

    An image that cannot be used (truncated, missing, of another size) raises ImageError where it is
    asked for: it costs that image, not the recording.
    """

    @property
    def stamps_ns(self) -> Stamps:
        """(n,) timestamps of left images with a right one, strictly increasing [ns]."""

    @property
    def source(self) -> str:
        """Folder or bag, for messages."""

    @property
    def unpaired(self) -> int:
        """Number of images of either camera without a partner."""

    def __len__(self) -> int: ...
    def index_of(self, stamp_ns: int) -> int:
        """Index of the pair with exactly this timestamp."""

    def left(self, index: int) -> Image:
        """Left image."""

    def right(self, index: int) -> Image:
        """Right image."""

    def pair(self, index: int) -> StereoPair:
        """Both images."""


def pair_stamps(left_ns: Stamps, right_ns: Stamps) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Indices of matching left and right images; each image is used once."""
    if len(left_ns) == 0 or len(right_ns) == 0:
        return np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp)
    nearest = nearest_index(right_ns, left_ns)
    left = np.flatnonzero(np.abs(right_ns[nearest] - left_ns) < MAX_PAIR_SKEW_NS)
    right, first = np.unique(nearest[left], return_index=True)
    return left[first], right


def pair_at(frames: Frames, stamp_ns: int) -> int:
    """Index of the pair with exactly this timestamp; the error names the nearest."""
    stamps_ns = frames.stamps_ns
    at = int(np.searchsorted(stamps_ns, stamp_ns))
    if at == len(stamps_ns) or stamps_ns[at] != stamp_ns:
        raise DatasetError(
            f"{frames.source}: no stereo pair at {stamp_ns} ns; the nearest is at "
            f"{stamps_ns[min(at, len(stamps_ns) - 1)]} ns."
        )
    return at
