"""Keyframes out of a stream of stereo pairs, and the camera's motion between them."""

from collections import deque
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from maci2.sensors import Rig
from maci2.sensors.stereo import Image
from maci2.types import NS, Array
from maci2.vision.calibration_uncertainty import EXACT_CALIBRATION, CalibrationUncertainty
from maci2.vision.covariance_models import covariance_model
from maci2.vision.keyframe import Keyframe, keyframe, match_keyframes
from maci2.vision.rectify import rectified_extrinsics, rectify
from maci2.vision.relative_pose import RelativePose, measure_relative_pose, unmeasured
from maci2.vision.relative_poses import RelativePoses
from maci2.vision.two_frame import PinholePair


@dataclass(frozen=True)
class Pair:
    """A stereo pair as it arrived."""

    stamp_ns: int
    left: Image
    right: Image


class Tracker(Protocol):
    """What turns pairs into camera motion; `KeyframeTracker` is the one that looks at images."""

    T_b_c: Array
    """Pose in the body of the camera frame that the motion speaks of."""

    @property
    def first_ns(self) -> int | None: ...
    @property
    def last_ns(self) -> int | None: ...
    def add(self, pair: Pair) -> bool: ...
    def window(self) -> RelativePoses | None: ...
    def so_far(self) -> RelativePoses | None: ...
    def reasons(self) -> list[str]: ...
    def clear(self) -> None: ...


class KeyframeTracker:
    """Takes pairs in order; keeps the steps of the latest window and nothing older.

    Keyframes are the pairs nearest to even times, as in `maci2 init`.
    """

    def __init__(self, rig: Rig, window_s: float, keyframes: int) -> None:
        self._rectification = rectify(rig)
        self._camera = PinholePair(
            self._rectification.focal, self._rectification.center, self._rectification.baseline
        )
        self._model = covariance_model("learned")
        self._shared = EXACT_CALIBRATION if rig.exact else CalibrationUncertainty()
        self.T_b_c: Array = rectified_extrinsics(rig)
        self._spacing_ns = window_s * NS / (keyframes - 1)
        self._count = keyframes
        self.clear()

    def clear(self) -> None:
        """Forget everything: the next pair is a first keyframe."""
        self._start_ns = 0
        self._number = 0
        self._last: tuple[int, Keyframe] | None = None
        self._waiting: list[Pair] = []
        self._steps: deque[RelativePose] = deque(maxlen=self._count - 1)

    @property
    def first_ns(self) -> int | None:
        """Stamp of the window's first keyframe."""
        if self._steps:
            return self._steps[0].stamps_ns[0]
        return self._last[0] if self._last else None

    @property
    def last_ns(self) -> int | None:
        """Stamp of the latest keyframe."""
        return self._last[0] if self._last else None

    def add(self, pair: Pair) -> bool:
        """Take the next pair; whether a keyframe was made."""
        if self._last is None:
            self._start_ns, self._number = pair.stamp_ns, 0
            self._last = (pair.stamp_ns, self._keyframe(pair))
            return True
        wanted_ns = self._start_ns + self._spacing_ns * (self._number + 1)
        if pair.stamp_ns < wanted_ns:
            self._waiting.append(pair)
            return False
        before = self._waiting[-1] if self._waiting else None
        if before and wanted_ns - before.stamp_ns <= pair.stamp_ns - wanted_ns:
            self._make(before, self._waiting[:-1])
            self._waiting = [pair]
        else:
            self._make(pair, self._waiting)
            self._waiting = []
        return True

    def _make(self, pair: Pair, between: list[Pair]) -> None:
        assert self._last is not None
        first_ns, first = self._last
        second = self._keyframe(pair)
        stamps = (first_ns, pair.stamp_ns)
        if first.blank or second.blank:
            step = unmeasured(stamps, first.blank or second.blank)
        else:
            images = [self._rectification.left(one.left) for one in between]
            found = match_keyframes(first, images, second, first.row_offset)
            step = measure_relative_pose(stamps, found, self._model, self._camera, self._shared)
        self._steps.append(step)
        self._last = (pair.stamp_ns, second)
        self._number += 1

    def _keyframe(self, pair: Pair) -> Keyframe:
        return keyframe(self._rectification, pair.left, pair.right)

    def window(self) -> RelativePoses | None:
        """The camera's motion over a whole window; None where it is not whole yet."""
        if len(self._steps) < self._count - 1:
            return None
        return self.so_far()

    def so_far(self) -> RelativePoses | None:
        """The motion known up to now."""
        if not self._steps:
            return None
        stamps = [self._steps[0].stamps_ns[0], *(step.stamps_ns[1] for step in self._steps)]
        return RelativePoses(
            np.array(stamps, dtype=np.int64),
            np.array([step.T_ck_ck1 for step in self._steps]),
            np.array([step.cov_T_ck_ck1 for step in self._steps]),
            "rectified",
            reasons=tuple(step.reason for step in self._steps),
        )

    def reasons(self) -> list[str]:
        """Why steps of the window could not be measured."""
        return [step.reason for step in self._steps if step.reason]
