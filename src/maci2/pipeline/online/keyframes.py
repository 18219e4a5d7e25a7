"""Keyframes out of a stream of stereo pairs, and the camera's motion between them."""

from collections import deque
from typing import Protocol

from maci2.sensors import Rig
from maci2.sensors.stereo import StereoPair
from maci2.types import NS, Array
from maci2.vision.predicted_rotation import RotationPredictor, no_prediction
from maci2.vision.relative_pose import RelativePose, stacked
from maci2.vision.relative_poses import RelativePoses
from maci2.vision.tracker import StereoTracker


class Tracker(Protocol):
    """Source of camera motion; `KeyframeTracker` is the one that looks at images."""

    T_b_c: Array
    """Pose in the body of the camera frame that the motion speaks of."""

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
