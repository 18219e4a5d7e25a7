"""The one tracker of recorded and live images: stereo pairs in, relative poses out."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from maci2.errors import CalibrationError, ImageError, MeasurementError
from maci2.sensors import Rig
from maci2.sensors.stereo import Image
from maci2.vision.calibration_uncertainty import EXACT_CALIBRATION, CalibrationUncertainty
from maci2.vision.covariance_models import CovarianceModel, covariance_model
from maci2.vision.keyframe import Guide, Keyframe, blank, keyframe, match_keyframes
from maci2.vision.klt import scaled
from maci2.vision.predicted_rotation import (
    PredictedRotation,
    RotationPredictor,
    homography,
    no_prediction,
)
from maci2.vision.rectification_check import calibration_fault
from maci2.vision.rectify import Rectification, rectify
from maci2.vision.relative_pose import (
    RelativePose,
    chained,
    measure_relative_pose,
    unmeasured,
)
from maci2.vision.relative_poses import CameraFrame
from maci2.vision.two_frame import PinholePair

FAULTS_IN_A_ROW = 3
"""Keyframes that must contradict the calibration before it is called wrong."""

CERTAIN_INLIERS, CERTAIN_SHARE = 60, 0.7
"""Matches that agree on one motion, and their share, with which no image between is looked at."""


AHEAD = 2
"""Keyframes that may be in preparation; of those that nobody takes the oldest is forgotten."""


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

    `start` takes the first keyframe, `advance` every further one with the pairs before it. Those
    named to `expect` before are prepared while others are measured.
    """

    frame: CameraFrame = "rectified"
    """Camera frame of the relative poses."""

    def __init__(
        self,
        rig: Rig,
        model: CovarianceModel | None = None,
        config: TrackerConfig | None = None,
        source: str = "",
        predict_rotation: RotationPredictor = no_prediction,
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
        self._predict = predict_rotation
        self._preparing: ThreadPoolExecutor | None = None
        self.clear()

    @property
    def last_ns(self) -> int | None:
        """Timestamp of the latest keyframe; None before the first."""
        return self._last[0] if self._last else None

    def clear(self) -> None:
        """Forget everything: the next pair is a first keyframe."""
        self._last: tuple[int, Keyframe] | None = None
        self._coming: dict[int, Future[Keyframe]] = {}
        self._faults_in_a_row = 0

    def expect(self, pair: Pair) -> None:
        """Begin to prepare a keyframe that will come, in a thread of its own."""
        if self._preparing is None:
            self._preparing = ThreadPoolExecutor(1, "prepare-keyframes")
        if pair.stamp_ns not in self._coming:
            self._coming[pair.stamp_ns] = self._preparing.submit(self._prepared, pair)
        while len(self._coming) > AHEAD:
            self._coming.pop(next(iter(self._coming))).cancel()

    def start(self, pair: Pair) -> None:
        """Take a keyframe without a relative pose to the one before."""
        self._last = (pair.stamp_ns, self._keyframe(pair))

    def advance(self, between: Sequence[Pair], pair: Pair) -> RelativePose:
        """Take the next keyframe and measure the relative pose of the latest one to it.

        `between` are the pairs from one keyframe to the other. With a predicted rotation they are
        looked at only where the keyframes alone do not settle the motion.
        """
        assert self._last is not None, "start() comes before advance()"
        first_ns, first = self._last
        if pair.stamp_ns <= first_ns:
            raise MeasurementError(
                f"{self._source}: a keyframe at {pair.stamp_ns} ns follows one at {first_ns} ns; "
                "give stereo pairs in the order of time."
            )
        second = self._keyframe(pair)
        self._last = (pair.stamp_ns, second)
        return self._measure((first_ns, pair.stamp_ns), first, between, second)

    def _measure(
        self, stamps_ns: tuple[int, int], first: Keyframe, between: Sequence[Pair], second: Keyframe
    ) -> RelativePose:
        """Directly where there is a prediction, else led by the images between, else as a chain
        through the pairs between."""
        if first.blank or second.blank:
            return unmeasured(stamps_ns, first.blank or second.blank)
        predicted = self._predict(*stamps_ns)
        # Without a prediction a repeating wall is matched a period off unless points are led.
        guides = [] if predicted else self._guides(stamps_ns[0], between, False)
        best = self._match(stamps_ns, first, guides, second, predicted)
        if predicted and between and not _beyond_doubt(best):
            guides = self._guides(stamps_ns[0], between, True)
            best = _better(best, self._match(stamps_ns, first, guides, second, predicted))
        if best.reason and predicted:
            # What predicts may be wrong: another rig's extrinsics, a broken gyroscope.
            guides = self._guides(stamps_ns[0], between, False)
            best = _better(best, self._match(stamps_ns, first, guides, second, None))
        if best.reason and between:
            best = self._bridged(stamps_ns, first, between, second) or best
        return best

    def _match(
        self,
        stamps_ns: tuple[int, int],
        first: Keyframe,
        guides: list[Guide],
        second: Keyframe,
        predicted: PredictedRotation | None,
    ) -> RelativePose:
        H = homography(predicted, self.camera)
        return measure_relative_pose(
            stamps_ns,
            match_keyframes(first, guides, second, first.row_offset, H),
            self.model,
            self.camera,
            self.calibration,
            self.config.scale_by_residuals,
            predicted,
        )

    def _leading_image(self, pair: Pair) -> Image | None:
        """The rectified left image; None where it cannot be read or shows nothing."""
        try:
            image = self.rectification.left(pair.left)
        except ImageError:
            return None
        return None if blank(image, "left") else image

    def _guides(self, first_ns: int, between: Sequence[Pair], predicted: bool) -> list[Guide]:
        """Images that lead the way; a dark one would lead nowhere."""
        guides = []
        for pair in between:
            image = self._leading_image(pair)
            if image is not None:
                rotation = self._predict(first_ns, pair.stamp_ns) if predicted else None
                guides.append(Guide(scaled(image), homography(rotation, self.camera)))
        return guides

    def _bridged(
        self, stamps_ns: tuple[int, int], first: Keyframe, between: Sequence[Pair], second: Keyframe
    ) -> RelativePose | None:
        """Chain through the pair half way; None where a part of it cannot be measured."""
        half = len(between) // 2
        middle_ns = between[half].stamp_ns
        middle = self._prepared(between[half])
        before = self._measure((stamps_ns[0], middle_ns), first, between[:half], middle)
        if before.reason:
            return None
        after = self._measure((middle_ns, stamps_ns[1]), middle, between[half + 1 :], second)
        return None if after.reason else chained([before, after])

    def _prepared(self, pair: Pair) -> Keyframe:
        """Rectify a pair and choose points; an image that cannot be used makes a blank keyframe,
        which costs its relative poses only."""
        try:
            return keyframe(self.rectification, pair.left, pair.right)
        except ImageError as error:
            black = np.zeros(self._image_shape, np.uint8)
            return replace(keyframe(self.rectification, black, black), blank=str(error))

    def _keyframe(self, pair: Pair) -> Keyframe:
        """Prepare a keyframe; raise when several in a row contradict the calibration."""
        coming = self._coming.pop(pair.stamp_ns, None)
        made = self._prepared(pair) if coming is None else coming.result()
        fault = calibration_fault(made)
        self._faults_in_a_row = self._faults_in_a_row + 1 if fault else 0
        if self._faults_in_a_row >= FAULTS_IN_A_ROW:
            raise CalibrationError(f"{self._source}: {fault}")
        return made


def _better(one: RelativePose, other: RelativePose) -> RelativePose:
    return max(one, other, key=lambda pose: (not pose.reason, pose.inliers))


def _beyond_doubt(pose: RelativePose) -> bool:
    return (
        not pose.reason
        and pose.inliers >= CERTAIN_INLIERS
        and pose.inliers >= CERTAIN_SHARE * pose.matches
    )
