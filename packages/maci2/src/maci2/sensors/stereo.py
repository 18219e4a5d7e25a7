"""Stereo pairs: matching of images, and the interface of their sources."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from maci2.errors import DatasetError
from maci2.sensors.interpolation import nearest_index
from maci2.sensors.rig_types import Rig
from maci2.sensors.types import BagImages, ImuSamples, Recording
from maci2.types import NS, Stamps

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
    """Calibration; a frame rate that it does not state is taken from the timestamps."""

    camera_stamps_ns: tuple[Stamps, ...]
    """Timestamps of the images [ns], one array per camera."""

    camera_shift_ns: int = 0
    """Offset that was added to the camera's timestamps [ns]."""

    image_names: tuple[dict[int, str], ...] = ()
    """File names of images, as in `Recording`."""

    image_folders: tuple[Path, ...] = ()
    """Folder of the images of each camera, if not camN/data."""

    bag: BagImages | None = None
    """Location of the images in a bag; None for a folder."""

    def __post_init__(self) -> None:
        cameras = list(self.rig.cameras)
        for number, stamps_ns in enumerate(self.camera_stamps_ns[: len(cameras)]):
            if np.isnan(cameras[number].rate_hz) and len(stamps_ns) > 1:
                rate_hz = NS / float(np.median(np.diff(stamps_ns)))
                cameras[number] = replace(cameras[number], rate_hz=rate_hz)
        object.__setattr__(self, "rig", replace(self.rig, cameras=tuple(cameras)))

    def with_imu(self, imu: ImuSamples, **more: Any) -> Recording:
        """Recording of these images and IMU samples; `more` are further fields of a `Recording`."""
        return Recording(imu=imu, **(vars(self) | more))


HasImages: TypeAlias = Recording | ImageRecording


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
        """Index of the pair with exactly this timestamp."""
        return pair_at(self, stamp_ns)

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
