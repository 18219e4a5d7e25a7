"""The one tracker of recorded and live images: stereo pairs in, relative poses out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from maci2.errors import CalibrationError, ImageError, MeasurementError
from maci2.sensors import Rig
from maci2.sensors.stereo import Image
from maci2.vision.calibration_uncertainty import EXACT_CALIBRATION, CalibrationUncertainty
from maci2.vision.covariance_models import CovarianceModel, covariance_model
from maci2.vision.keyframe import Keyframe, blank, keyframe, match_keyframes
from maci2.vision.rectification_check import calibration_fault
from maci2.vision.rectify import Rectification, rectify
from maci2.vision.relative_pose import RelativePose, measure_relative_pose, unmeasured
from maci2.vision.relative_poses import CameraFrame
from maci2.vision.two_frame import PinholePair

FAULTS_IN_A_ROW = 3
"""Keyframes that must contradict the calibration before it is called wrong."""


class Pair(Protocol):
    """A stereo pair; its images may be read from disk when they are asked for."""

    @property
    def stamp_ns(self) -> int: ...
    @property
    def left(self) -> Image: ...
    @property
    def right(self) -> Image: ...


@dataclass(frozen=True)
class TrackerConfig:
    """Choices that decide the covariance of a relative pose."""

    calibration: CalibrationUncertainty | None = None
    """None: that of a measured calibration, or none at all where the rig's is exact."""

    scale_by_residuals: bool = False
    """Multiply Eq. 6 by chi-square over its degrees of freedom, as a baseline does."""


class StereoTracker:
    """Relative poses of consecutive keyframes, from stereo pairs in the order of time.

    `start` takes the first keyframe, `advance` every further one with the pairs before it.
    """

    frame: CameraFrame = "rectified"
    """Camera frame of the relative poses."""

    def __init__(
        self,
        rig: Rig,
        model: CovarianceModel | None = None,
        config: TrackerConfig | None = None,
        source: str = "",
    ):
        self.rectification: Rectification = rectify(rig)
        self.camera = PinholePair(
            self.rectification.focal, self.rectification.center, self.rectification.baseline
        )
        self.model = covariance_model("learned") if model is None else model
        self.config = TrackerConfig() if config is None else config
        self.calibration = self.config.calibration or (
            EXACT_CALIBRATION if rig.exact else CalibrationUncertainty()
        )
        width, height = rig.cameras[0].resolution
        self._image_shape = (height, width)
        self._source = source or rig.source
        self.clear()

    @property
    def last_ns(self) -> int | None:
        """Timestamp of the latest keyframe; None before the first."""
        return self._last[0] if self._last else None

    def clear(self) -> None:
        """Forget everything: the next pair is a first keyframe."""
        self._last: tuple[int, Keyframe] | None = None
        self._faults_in_a_row = 0

    def start(self, pair: Pair) -> None:
        """Take a keyframe without a relative pose to the one before."""
        self._last = (pair.stamp_ns, self._keyframe(pair))

    def advance(self, between: Sequence[Pair], pair: Pair) -> RelativePose:
        """Take the next keyframe and measure the relative pose of the latest one to it.

        `between` are the pairs from one keyframe to the other: points are followed through their
        left images, which only lead the way.
        """
        assert self._last is not None, "start() comes before advance()"
        first_ns, first = self._last
        if pair.stamp_ns <= first_ns:
            raise MeasurementError(
                f"{self._source}: a keyframe at {pair.stamp_ns} ns follows one at {first_ns} ns; "
                "give stereo pairs in the order of time."
            )
        # Images are asked for in the order of time: a bag is read on, not searched.
        images = [image for image in map(self._leading_image, between) if image is not None]
        second = self._keyframe(pair)
        self._last = (pair.stamp_ns, second)
        return self._measure((first_ns, pair.stamp_ns), first, images, second)

    def _measure(
        self, stamps_ns: tuple[int, int], first: Keyframe, images: list[Image], second: Keyframe
    ) -> RelativePose:
        if first.blank or second.blank:
            return unmeasured(stamps_ns, first.blank or second.blank)
        # A dark image between would lead the way nowhere.
        leading = [image for image in images if not blank(image, "left")]
        matched = match_keyframes(first, leading, second, first.row_offset)
        return measure_relative_pose(
            stamps_ns,
            matched,
            self.model,
            self.camera,
            self.calibration,
            self.config.scale_by_residuals,
        )

    def _leading_image(self, pair: Pair) -> Image | None:
        """The rectified left image; None where it cannot be used."""
        try:
            return self.rectification.left(pair.left)
        except ImageError:
            return None

    def _keyframe(self, pair: Pair) -> Keyframe:
        """Prepare a keyframe; raise when several in a row contradict the calibration.

        An image that cannot be used makes a blank keyframe: it costs its relative poses only.
        """
        try:
            made = keyframe(self.rectification, pair.left, pair.right)
        except ImageError as error:
            black = np.zeros(self._image_shape, np.uint8)
            return replace(keyframe(self.rectification, black, black), blank=str(error))
        fault = calibration_fault(made)
        self._faults_in_a_row = self._faults_in_a_row + 1 if fault else 0
        if self._faults_in_a_row >= FAULTS_IN_A_ROW:
            raise CalibrationError(f"{self._source}: {fault}")
        return made
