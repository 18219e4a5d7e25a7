"""The one tracker of recorded and live images: stereo pairs in, relative poses out."""

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from maci2.errors import CalibrationError, MeasurementError
from maci2.sensors import Rig
from maci2.sensors.stereo import StereoPair
from maci2.types import NS, Array
from maci2.vision import RelativePoses
from maci2.vision.covariance import (
    EXACT_CALIBRATION,
    CalibrationUncertainty,
    CovarianceModel,
    covariance_model,
)
from maci2.vision.hypotheses import MotionEstimator, Span
from maci2.vision.keyframe import Keyframe, Pair, PreparedPair
from maci2.vision.moving_objects import SecondLook
from maci2.vision.predicted_rotation import RotationPredictor, no_prediction
from maci2.vision.rectify import Rectification, rectify
from maci2.vision.relative_pose import RelativePose, stacked
from maci2.vision.relative_poses import CameraFrame
from maci2.vision.two_frame import PinholePair

FAULTS_IN_A_ROW = 3
"""Keyframes that must contradict the calibration, with none before that fits it, before it is
called wrong; afterwards it is the pairs that are not of one instant."""

AHEAD = 4
"""Relative poses that may be measured ahead; of those that nobody takes the oldest is forgotten."""

WORKERS = 2
"""Threads that measure ahead; any number of them gives the same relative poses."""


@dataclass(frozen=True)
class TrackerConfig:
    """Choices that decide the covariance of a relative pose."""

    calibration: CalibrationUncertainty | None = None
    """None: that of a measured calibration, or none at all where the rig's is exact."""

    scale_by_residuals: bool = False
    """Multiply Eq. 6 by chi-square over its degrees of freedom, as a baseline does."""


class StereoTracker:
    """Relative poses of consecutive keyframes, from stereo pairs in the order of time.

    `start` takes the first keyframe, `advance` every further one with the pairs before it. What is
    named to `expect` before is worked on meanwhile; the relative poses are the same without.
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
        self.estimator = MotionEstimator(
            self.model,
            self.camera,
            self.calibration,
            self.config.scale_by_residuals,
            predict_rotation,
        )
        self._source = source or rig.source
        self._workers: ThreadPoolExecutor | None = None
        self.clear()

    @property
    def last_ns(self) -> int | None:
        """Timestamp of the latest keyframe; None before the first."""
        return self._last[0] if self._last else None

    def clear(self) -> None:
        """Forget everything: the next pair is a first keyframe."""
        self._last: tuple[int, Keyframe] | None = None
        self._coming: dict[int, Future[Keyframe]] = {}
        self._measuring: dict[tuple[int, int], Future[RelativePose]] = {}
        self._faults_in_a_row = 0
        self._fitted = False  # whether the matches of any keyframe have fitted the calibration

    def expect(self, first: Pair, between: Sequence[Pair], second: Pair) -> None:
        """Begin to measure a relative pose that `advance` will be asked for: both keyframes are
        prepared and matched in threads beside."""
        stamps_ns = (first.stamp_ns, second.stamp_ns)
        if stamps_ns in self._measuring:
            return
        if self._workers is None:
            self._workers = ThreadPoolExecutor(WORKERS, "measure-ahead")
        # Keyframes are handed in before what waits for them, so that some worker always goes on.
        ends = [self._expected_keyframe(self._workers, pair) for pair in (first, second)]
        self._measuring[stamps_ns] = self._workers.submit(
            lambda: self._measure(stamps_ns, ends[0].result(), between, ends[1].result())
        )
        while len(self._measuring) > AHEAD:
            self._measuring.pop(next(iter(self._measuring))).cancel()
        while len(self._coming) > AHEAD + 1:
            self._coming.pop(next(iter(self._coming)))

    def _expected_keyframe(self, workers: ThreadPoolExecutor, pair: Pair) -> "Future[Keyframe]":
        """The keyframe of a pair, now or later."""
        stamp_ns = pair.stamp_ns
        if stamp_ns not in self._coming:
            if self._last and self._last[0] == stamp_ns:
                self._coming[stamp_ns] = Future()
                self._coming[stamp_ns].set_result(self._last[1])
            else:
                self._coming[stamp_ns] = workers.submit(self._prepared, pair)
        return self._coming[stamp_ns]

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
        self._coming.pop(first_ns, None)
        stamps_ns = (first_ns, pair.stamp_ns)
        measuring = self._measuring.pop(stamps_ns, None)
        return measuring.result() if measuring else self._measure(stamps_ns, first, between, second)

    def _measure(
        self, stamps_ns: tuple[int, int], first: Keyframe, between: Sequence[Pair], second: Keyframe
    ) -> RelativePose:
        """The relative pose, by the prediction where there is one, else without."""
        prepared = [PreparedPair(pair, self.rectification) for pair in between]
        return self.estimator.measured(Span(stamps_ns, first, second, prepared))

    def second_look(self) -> SecondLook:
        """What judges consecutive relative poses of this tracker."""
        return SecondLook(self.estimator, self.rectification)

    def _prepared(self, pair: Pair) -> Keyframe:
        return PreparedPair(pair, self.rectification).keyframe

    def _keyframe(self, pair: Pair) -> Keyframe:
        """Prepare a keyframe; raise when the first ones contradict the calibration."""
        coming = self._coming.get(pair.stamp_ns)
        made = self._prepared(pair) if coming is None else coming.result()
        self._faults_in_a_row = self._faults_in_a_row + 1 if made.fault else 0
        self._fitted |= made.confirms_calibration
        if self._faults_in_a_row >= FAULTS_IN_A_ROW and not self._fitted:
            raise CalibrationError(f"{self._source}: {made.fault}")
        return made


class PairTracker(Protocol):
    """Live source of camera motion; `KeyframeTracker` measures it from images."""

    T_b_c: Array
    """Pose in the body of the camera frame of the motion."""

    @property
    def first_ns(self) -> int | None: ...
    @property
    def last_ns(self) -> int | None: ...
    def add(self, pair: StereoPair) -> bool: ...
    def window(self) -> RelativePoses | None: ...
    def so_far(self) -> RelativePoses | None: ...
    def reasons(self) -> list[str]: ...
    def clear(self) -> None: ...


class KeyframeTracker:
    """Takes pairs in order; keeps the relative poses of the latest window and nothing older.

    Keyframes are the pairs nearest to even times, as in `maci2 init`.
    """

    def __init__(
        self,
        rig: Rig,
        window_s: float,
        keyframes: int,
        predict_rotation: RotationPredictor = no_prediction,
    ) -> None:
        self._tracker = StereoTracker(rig, predict_rotation=predict_rotation)
        self.T_b_c: Array = self._tracker.rectification.T_b_cr
        self._spacing_ns = window_s * NS / (keyframes - 1)
        self._count = keyframes
        self.clear()

    def clear(self) -> None:
        """Forget everything: the next pair is a first keyframe."""
        self._tracker.clear()
        self._look = self._tracker.second_look()
        self._start_ns = 0
        self._number = 0
        self._waiting: list[StereoPair] = []
        self._poses: deque[RelativePose] = deque(maxlen=self._count - 1)

    @property
    def first_ns(self) -> int | None:
        """Timestamp of the window's first keyframe."""
        return self._poses[0].stamps_ns[0] if self._poses else self.last_ns

    @property
    def last_ns(self) -> int | None:
        """Timestamp of the latest keyframe."""
        return self._tracker.last_ns

    def add(self, pair: StereoPair) -> bool:
        """Take the next pair; whether a keyframe was made."""
        if self.last_ns is None:
            self._start_ns, self._number = pair.stamp_ns, 0
            self._tracker.start(pair)
            self._latest = pair
            return True
        wanted_ns = self._start_ns + self._spacing_ns * (self._number + 1)
        if pair.stamp_ns < wanted_ns:
            self._waiting.append(pair)
            return False
        before = self._waiting[-1] if self._waiting else None
        if before and wanted_ns - before.stamp_ns <= pair.stamp_ns - wanted_ns:
            self._advance(self._waiting[:-1], before)
            self._waiting = [pair]
        else:
            self._advance(self._waiting, pair)
            self._waiting = []
        self._number += 1
        return True

    def _advance(self, between: list[StereoPair], pair: StereoPair) -> None:
        """Add the relative pose to the next keyframe, judged by those before it."""
        pose = self._tracker.advance(between, pair)
        self._poses.append(self._look.judged(pose, self._latest, between, pair))
        self._look.learn(pose)
        self._latest = pair

    def window(self) -> RelativePoses | None:
        """The camera's motion over a whole window; None where it is not whole yet."""
        if len(self._poses) < self._count - 1:
            return None
        return self.so_far()

    def so_far(self) -> RelativePoses | None:
        """The motion known up to now."""
        if not self._poses:
            return None
        return stacked(self._poses, StereoTracker.frame, self._tracker.calibration)

    def reasons(self) -> list[str]:
        """Why relative poses of the window could not be measured."""
        return [pose.reason for pose in self._poses if pose.reason]
