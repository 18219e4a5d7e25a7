"""Stereo images of a bag, read one pair at a time, like those of a folder."""

import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maci2.datasets.bag.images import Image, grey_image, require_size
from maci2.datasets.bag.reader import Bag, Message, header_stamp_ns
from maci2.errors import DatasetError
from maci2.sensors.stereo import (
    MAX_PAIR_SKEW_NS,
    HasImages,
    StereoPair,
    pair_at,
    pair_stamps,
)
from maci2.sensors.types import BagImages
from maci2.types import NS, Stamps

AHEAD_NS = NS
"""Distance beyond which an image is looked up instead of reached by reading on [ns]."""


class _Cursor:
    """Cursor over the messages of one topic; it reads on when going forward."""

    def __init__(self, bag: Bag, topic: str) -> None:
        self._bag, self._topic = bag, topic
        self._stream: Iterator[Message] = iter(())
        self._last_ns = -AHEAD_NS

    def find(self, received_ns: int, stamp_ns: int) -> Any:
        """Message with this receive time and header timestamp; None if there is none."""
        if not 0 < received_ns - self._last_ns <= AHEAD_NS:
            self._stream = self._bag.messages([self._topic], received_ns)
        for message in self._stream:
            self._last_ns = message.received_ns
            if message.received_ns > received_ns:
                return None
            if header_stamp_ns(message.content) == stamp_ns:
                return message.content
        return None


class BagFrames:
    """Stereo pairs of a bag; no image is kept in memory."""

    def __init__(
        self,
        images: BagImages,
        stamps_ns: tuple[Stamps, Stamps],
        resolution: tuple[int, int],
        shift_ns: int = 0,
    ) -> None:
        left, right = pair_stamps(*stamps_ns)
        self.source = str(images.paths[0])
        self.resolution = resolution
        """Width and height of the calibrated images [px]."""
        self.stamps_ns: Stamps = stamps_ns[0][left]
        """(n,) timestamps of left images with a right one, strictly increasing [ns]."""
        self.unpaired = len(stamps_ns[0]) + len(stamps_ns[1]) - 2 * len(left)
        """Number of images of either camera without a partner."""
        self._images = images
        self._stamps_ns = tuple(stamps - shift_ns for stamps in stamps_ns)
        """Header timestamps [ns]."""
        self._at: tuple[NDArray[np.intp], NDArray[np.intp]] = (left, right)
        self._bag: Bag | None = None
        self._cursors: list[_Cursor] = []

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
        return self._image(0, int(self._at[0][index]))

    def right(self, index: int) -> Image:
        """Right image."""
        return self._image(1, int(self._at[1][index]))

    def pair(self, index: int) -> StereoPair:
        """Both images."""
        return StereoPair(int(self.stamps_ns[index]), self.left(index), self.right(index))

    def close(self) -> None:
        """Release the bag's files; the next image opens them again."""
        if self._bag is not None:
            self._bag.close()
            self._bag, self._cursors = None, []

    def _image(self, camera: int, number: int) -> Image:
        if self._bag is None:
            self._bag = Bag(self._images.paths)
            self._cursors = [_Cursor(self._bag, topic) for topic in self._images.topics]
            weakref.finalize(self, self._bag.close)
        topic, stamp_ns = self._images.topics[camera], int(self._stamps_ns[camera][number])
        received_ns = int(self._images.received_ns[camera][number])
        place = f"{self.source}, {topic}, timestamp {stamp_ns} ns"
        content = self._cursors[camera].find(received_ns, stamp_ns)
        if content is None:
            raise DatasetError(f"{place}: the image no longer exists; the bag has changed.")
        image = grey_image(content, place)
        require_size(image, self.resolution, place)
        return image


def bag_frames(recording: HasImages) -> BagFrames:
    """Stereo pairs of a recording in a bag; raises if there are none."""
    images, cameras = recording.bag, recording.rig.cameras
    if images is None or len(images.topics) < 2 or len(cameras) < 2:
        topics = 0 if images is None else len(images.topics)
        raise DatasetError(
            f"{recording.path}: has {topics} image topics and {len(cameras)} calibrated cameras; "
            "stereo needs two of each. Choose with --topics left=/topic,right=/topic."
        )
    left_ns, right_ns = recording.camera_stamps_ns[:2]
    frames = BagFrames(
        images, (left_ns, right_ns), cameras[0].resolution, recording.camera_shift_ns
    )
    if len(frames) == 0:
        raise DatasetError(
            f"{recording.path}: no left image has a right one: {images.topics[0]} covers "
            f"{left_ns[0]}..{left_ns[-1]} ns, {images.topics[1]} {right_ns[0]}..{right_ns[-1]} ns, "
            f"and no timestamps agree within {MAX_PAIR_SKEW_NS / 1e6:g} ms. Check that both "
            "cameras are on one clock."
        )
    return frames
