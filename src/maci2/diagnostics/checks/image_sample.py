"""Stereo pairs spread over a recording, for the checks of images."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from maci2.datasets.frames import image_folders, stereo_frames
from maci2.errors import ImageError
from maci2.sensors import Rig
from maci2.sensors.stereo import Frames, HasImages, StereoPair
from maci2.types import NS

PLACES = 16
"""Number of sampled places, so that the time needed does not grow with the recording."""

GOLDEN = 0.6180339887
"""Golden ratio: the fractional parts of its multiples have no period."""

NAMES = ("left", "right")
"""Names of cam0 and cam1."""


@dataclass(frozen=True)
class Place:
    """Two consecutive stereo pairs."""

    index: int
    """Index of the first one among all pairs."""

    first: StereoPair
    second: StereoPair


@dataclass(frozen=True)
class ImageSample:
    """Sampled stereo pairs of a recording."""

    frames: Frames
    rig: Rig
    places: tuple[Place, ...]

    @property
    def period_s(self) -> float:
        """Time between two pairs [s]."""
        return float(np.median(np.diff(self.frames.stamps_ns))) / NS


def has_images(recording: HasImages) -> bool:
    """Whether there are images of two calibrated cameras, not only timestamps."""
    if len(recording.rig.cameras) < 2:
        return False
    if recording.bag is not None:
        return len(recording.bag.topics) > 1
    folders = image_folders(recording)[:2]
    filled = [folder.is_dir() and any(folder.iterdir()) for folder in folders]
    return len(filled) == 2 and all(filled)


def sample_images(recording: HasImages) -> ImageSample:
    """Read the pairs; those with an unusable image are skipped."""
    frames = stereo_frames(recording)
    return ImageSample(frames, recording.rig, tuple(_places(frames)))


def _places(frames: Frames) -> Iterator[Place]:
    # In the order of time: a bag is read on, not searched.
    for index in _spread(len(frames) - 1):
        try:
            yield Place(index, frames.pair(index), frames.pair(index + 1))
        except ImageError:
            continue


def _spread(count: int) -> list[int]:
    """Indices below `count`, one in each of PLACES equal parts, without a period."""
    part = np.arange(PLACES)
    places = (part + (part * GOLDEN) % 1.0) / PLACES * max(count, 0)
    return [int(i) for i in np.unique(places.astype(int))] if count > 0 else []
