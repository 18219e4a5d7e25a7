"""A stereo pair and what the tracker makes of it, each thing once and when it is asked for."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from maci2.errors import ImageError
from maci2.sensors.stereo import Image
from maci2.vision.keyframe import Keyframe, blank, keyframe
from maci2.vision.klt import Scaled, scaled
from maci2.vision.rectification_check import calibration_fault
from maci2.vision.rectify import Rectification


class Pair(Protocol):
    """A stereo pair; its images may be read from disk when they are asked for."""

    @property
    def stamp_ns(self) -> int: ...
    @property
    def left(self) -> Image: ...
    @property
    def right(self) -> Image: ...


@dataclass
class PreparedPair:
    """A pair between two keyframes: it may lead points, or become a keyframe itself."""

    pair: Pair
    rectification: Rectification

    @cached_property
    def leading_image(self) -> Scaled | None:
        """The rectified left image without its exposure; None where it cannot be read or shows
        nothing."""
        try:
            image = self.rectification.left(self.pair.left)
        except ImageError:
            return None
        return None if blank(image, "left") else scaled(image)

    @cached_property
    def keyframe(self) -> Keyframe:
        """The rectified pair with points chosen; an image that cannot be used makes a blank
        keyframe, which costs its relative poses only, as stereo matches off their rows do."""
        try:
            made = keyframe(self.rectification, self.pair.left, self.pair.right)
            return replace(made, fault=calibration_fault(made))
        except ImageError as error:
            width, height = self.rectification.resolution
            black = np.zeros((height, width), np.uint8)
            return replace(keyframe(self.rectification, black, black), blank=str(error))
