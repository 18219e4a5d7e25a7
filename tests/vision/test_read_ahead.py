"""Images read before they are asked for."""

import threading
from dataclasses import dataclass, field

import numpy as np
import pytest

from maci2.errors import ImageError
from maci2.vision.odometry import HELD, ReadAhead


@dataclass
class CountedFrames:
    """Frames that note who reads what; image 7 cannot be read."""

    read: list = field(default_factory=list)
    threads: set = field(default_factory=set)
    stamps_ns: np.ndarray = field(default_factory=lambda: np.arange(20))

    def image(self, side, index):
        self.read.append((side, index))
        self.threads.add(threading.current_thread().name)
        if index == 7:
            raise ImageError("image 7 is truncated")
        return np.full((2, 2), index, np.uint8)

    def left(self, index):
        return self.image("left", index)

    def right(self, index):
        return self.image("right", index)


def test_every_image_is_read_once_by_one_thread():
    frames = CountedFrames()
    images = ReadAhead(frames)
    images.expect(3)
    images.expect(3)
    images.expect(4)
    for index in (3, 4, 5):
        assert images.image("left", index)[0, 0] == images.image("right", index)[0, 0] == index
    assert sorted(frames.read) == [(side, k) for side in ("left", "right") for k in (3, 4, 5)]
    assert len(frames.threads) == 1
    assert threading.current_thread().name not in frames.threads


def test_an_image_that_cannot_be_read_says_so_where_it_is_asked_for():
    images = ReadAhead(CountedFrames())
    images.expect(7)
    with pytest.raises(ImageError, match="truncated"):
        images.image("left", 7)
    assert images.image("left", 8)[0, 0] == 8


def test_images_that_nobody_takes_are_forgotten():
    images = ReadAhead(CountedFrames())
    for index in range(10, 10 + HELD):
        images.expect(index)
    assert len(images._coming) == HELD
    assert images.image("left", 10)[0, 0] == 10
