"""Stereo visual odometry of recorded and live images: relative poses of keyframes with covariances.

Keyframes lie at even times. Relative poses of a recording are measured ahead in threads, and saved
as they come.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Protocol

import numpy as np

from maci2 import __version__
from maci2.errors import (
    CalibrationError,
    DatasetError,
    Maci2Error,
    MeasurementError,
    require_in_range,
)
from maci2.files import NpzField, read_npz, require_writable
from maci2.sensors import Rig
from maci2.sensors.interpolation import nearest_index
from maci2.sensors.stereo import Frames, Image, StereoPair
from maci2.types import NS, Array, Stamps
from maci2.validation import as_stamps, require_type
from maci2.vision.covariance import (
    EXACT_CALIBRATION,
    CalibrationUncertainty,
    CovarianceModel,
    covariance_model,
)
from maci2.vision.hypotheses import MotionEstimator, Span
from maci2.vision.keyframe import Pair, PreparedPair
from maci2.vision.moving_objects import SecondLook
from maci2.vision.rectify import Rectification, rectify
from maci2.vision.relative_pose import RelativePose, stacked
from maci2.vision.relative_poses import (
    POSE_FIELDS,
    CameraFrame,
    RelativePoses,
    RotationPredictor,
    motions_from_arrays,
    no_prediction,
    save_relative_poses,
)

FAULTS_IN_A_ROW = 3
"""Keyframes that must contradict the calibration, with none before that fits it, before it is
called wrong; afterwards it is the pairs that are not of one instant."""

AHEAD = 4
"""Relative poses that may be measured ahead; of those that nobody takes the oldest is forgotten."""

WORKERS = 3
"""Threads that read images and measure ahead; any number of them gives the same relative poses."""


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
        source: str = "",
        predict_rotation: RotationPredictor = no_prediction,
    ):
        self.rectification: Rectification = rectify(rig)
        self.model = covariance_model("learned") if model is None else model
        is_exact = rig.exact or self.model.is_baseline
        self.calibration = EXACT_CALIBRATION if is_exact else CalibrationUncertainty()
        self.estimator = MotionEstimator(
            self.model, self.rectification, self.calibration, predict_rotation
        )
        self._source = source or rig.source
        self._workers = ThreadPoolExecutor(WORKERS, "measure-ahead")
        self.clear()

    @property
    def last_ns(self) -> int | None:
        """Timestamp of the latest keyframe; None before the first."""
        return self._last.pair.stamp_ns if self._last else None

    def clear(self) -> None:
        """Forget everything: the next pair is a first keyframe."""
        self._last: PreparedPair | None = None
        self._coming: dict[int, PreparedPair] = {}
        self._measuring: dict[tuple[int, int], Future[RelativePose]] = {}
        self._faults_in_a_row = 0
        self._fitted = False  # whether the matches of any keyframe have fitted the calibration

    def expect(self, pairs: Sequence[Pair]) -> None:
        """Begin to measure, in a thread beside, a relative pose that `advance` will be called for:
        from the first of some pairs to the last."""
        stamps_ns = (pairs[0].stamp_ns, pairs[-1].stamp_ns)
        if stamps_ns not in self._measuring:
            self._measuring[stamps_ns] = self._workers.submit(
                self._measure, self._prepared(pairs[0]), pairs[1:-1], self._prepared(pairs[-1])
            )
        while len(self._measuring) > AHEAD:
            self._measuring.pop(next(iter(self._measuring))).cancel()
        while len(self._coming) > AHEAD + 1:
            self._coming.pop(next(iter(self._coming)))

    def start(self, pair: Pair) -> None:
        """Take a keyframe without a relative pose to the one before."""
        self._last = self._checked(pair)

    def advance(self, between: Sequence[Pair], pair: Pair) -> RelativePose:
        """Take the next keyframe and measure the relative pose of the latest one to it.

        `between` are the pairs from one keyframe to the other. With a predicted rotation they are
        read only where the keyframes alone do not settle the motion.
        """
        assert self._last is not None, "start() comes before advance()"
        first, first_ns = self._last, self._last.pair.stamp_ns
        if pair.stamp_ns <= first_ns:
            raise MeasurementError(
                f"{self._source}: a keyframe at {pair.stamp_ns} ns follows one at {first_ns} ns; "
                "give stereo pairs in the order of time."
            )
        self._last = second = self._checked(pair)
        self._coming.pop(first_ns, None)
        measuring = self._measuring.pop((first_ns, pair.stamp_ns), None)
        return measuring.result() if measuring else self._measure(first, between, second)

    def _measure(
        self, first: PreparedPair, between: Sequence[Pair], second: PreparedPair
    ) -> RelativePose:
        """The relative pose, by the prediction where there is one, else without."""
        inner = [PreparedPair(pair, self.rectification) for pair in between]
        return self.estimator.measured(Span.over([first, *inner, second]))

    def _prepared(self, pair: Pair) -> PreparedPair:
        """The pair, prepared once for both relative poses that it ends."""
        return self._coming.setdefault(pair.stamp_ns, PreparedPair(pair, self.rectification))

    def _checked(self, pair: Pair) -> PreparedPair:
        """A keyframe's pair; raises when the first ones contradict the calibration."""
        prepared = self._prepared(pair)
        made = prepared.keyframe
        self._faults_in_a_row = self._faults_in_a_row + 1 if made.fault else 0
        self._fitted |= made.confirms_calibration
        if self._faults_in_a_row >= FAULTS_IN_A_ROW and not self._fitted:
            raise CalibrationError(f"{self._source}: {made.fault}")
        return prepared


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
        self._look = SecondLook(self._tracker.estimator, self._tracker.rectification)
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
        self._poses.append(self._look.judged(pose, [self._latest, *between, pair]))
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
        """Reasons why relative poses of the window could not be measured."""
        return [pose.reason for pose in self._poses if pose.reason]


@dataclass(frozen=True)
class RecordedPair:
    """A stereo pair of a recording, read when its images are requested."""

    frames: Frames
    index: int
    """Position of the pair in the recording."""

    reading: Lock
    """Held while an image is read: no file is read by two threads at once."""

    @property
    def stamp_ns(self) -> int:
        return int(self.frames.stamps_ns[self.index])

    @property
    def left(self) -> Image:
        with self.reading:
            return self.frames.left(self.index)

    @property
    def right(self) -> Image:
        with self.reading:
            return self.frames.right(self.index)


class StereoOdometry:
    """Relative poses between any two frames of a recording, each measured once.

    Args:
        frames: stereo pairs, as `stereo_frames(recording)` gives them.
        rig: calibration of at least two cameras.
        model: covariance of single matches; the learned one by default.
        predict_rotation: rotation of the camera between two images, by another sensor.

    Raises:
        CalibrationError: the rig cannot be rectified.
        MeasurementError: an argument is of another type.
    """

    frame: CameraFrame = StereoTracker.frame
    """Camera frame of the relative poses."""

    def __init__(
        self,
        frames: Frames,
        rig: Rig,
        model: CovarianceModel | None = None,
        predict_rotation: RotationPredictor = no_prediction,
    ):
        require_type(rig, Rig, "rig", "as in `open_recording(path).rig`")
        for name in ("stamps_ns", "source", "index_of", "left", "right", "pair"):
            if not hasattr(frames, name):
                raise MeasurementError(
                    f"frames is of the type {type(frames).__name__} without '{name}', needed "
                    "stereo pairs, as stereo_frames(recording) gives them."
                )
        self.frames = frames
        self._reading = Lock()
        self._tracker = StereoTracker(rig, model, frames.source, predict_rotation)
        self._measured: dict[tuple[int, int], RelativePose] = {}
        self.stamps_ns: Stamps = frames.stamps_ns
        """(n,) timestamps of all stereo pairs."""

        self.rectification: Rectification = self._tracker.rectification
        """Geometry of the rectified pair."""

        self.model: CovarianceModel = self._tracker.model
        """Covariance of single matches."""

        self.calibration: CalibrationUncertainty = self._tracker.calibration
        """What is added to Eq. 6 for errors of the calibration."""

    @property
    def settings(self) -> str:
        """All choices that decide a relative pose, as text: runs of different ones do not mix."""
        return f"{self.model!r}, {self.calibration!r}"

    def poses(self, stamps_ns: Stamps) -> RelativePoses:
        """Measure the motion between consecutive keyframes, in the rectified left camera.

        Args:
            stamps_ns: (n,) timestamps of stereo pairs [ns], strictly increasing, at least two.

        Returns:
            n - 1 relative poses with covariances; `reasons` says why one could not be measured.

        Raises:
            DatasetError: there is no stereo pair at one of the timestamps.
            CalibrationError: several keyframes in a row contradict the calibration.
        """
        stamps_ns = as_stamps(stamps_ns, "stamps_ns of the keyframes", least=2)
        indices = [self.frames.index_of(int(stamp)) for stamp in stamps_ns]
        poses = self.judged(list(self.relative_poses(indices)))
        return stacked(poses, self.frame, self.calibration)

    def relative_poses(self, indices: list[int]) -> Iterator[RelativePose]:
        """Motions between consecutive frames; while one is taken, further ones are measured."""
        spans = list(pairwise(indices))
        for span in spans[:AHEAD]:
            self._expect(*span)
        for k, span in enumerate(spans):
            yield self.relative_pose(*span)
            for later in spans[k + AHEAD : k + AHEAD + 1]:
                self._expect(*later)

    def judged(self, poses: Sequence[RelativePose]) -> list[RelativePose]:
        """Consecutive relative poses, each with a second look that knows of those before it."""
        look = SecondLook(self._tracker.estimator, self.rectification)
        judged = []
        for pose in poses:
            ends = (self.frames.index_of(stamp_ns) for stamp_ns in pose.stamps_ns)
            judged.append(look.judged(pose, self._pairs(*ends)))
            look.learn(pose)
        return judged

    def _expect(self, index: int, index1: int) -> None:
        """Begin to measure a motion that will be requested, unless it is known."""
        if (index, index1) not in self._measured:
            self._tracker.expect(self._pairs(index, index1))

    def relative_pose(self, index: int, index1: int) -> RelativePose:
        """Motion between two frames, measured once."""
        if (index, index1) not in self._measured:
            first, *between, second = self._pairs(index, index1)
            if self._tracker.last_ns != first.stamp_ns:
                self._tracker.start(first)
            self._measured[index, index1] = self._tracker.advance(between, second)
        return self._measured[index, index1]

    def _pairs(self, index: int, index1: int) -> list[RecordedPair]:
        """Two keyframes and what lies between them."""
        return [RecordedPair(self.frames, k, self._reading) for k in range(index, index1 + 1)]


_LOG = logging.getLogger(__name__)

SAVE_EVERY = 25
"""Relative poses between two saves of the unfinished file."""


MEASURED_FIELDS = POSE_FIELDS | {
    "matches": NpzField("iu", ("m",)),
    "inliers": NpzField("iu", ("m",)),
    "row_error_px": NpzField("f", ("m",)),
    "reasons": NpzField("U", ("m",)),
    "settings": NpzField("U", ()),
}


def even_keyframes(stamps_ns: Stamps, interval_s: float) -> Stamps:
    """The images nearest to even times, each once."""
    require_in_range("--interval", interval_s, 0.001, 1e6)
    if len(stamps_ns) < 2:
        raise DatasetError(
            f"{len(stamps_ns)} images or poses that can be used, needed two or more for a relative "
            "pose. Check the file, and that it overlaps the other sensors in time."
        )
    if (np.diff(stamps_ns) <= 0).any():
        index = int(np.argmax(np.diff(stamps_ns) <= 0))
        raise DatasetError(
            f"image timestamps go backwards: {stamps_ns[index + 1]} ns follows "
            f"{stamps_ns[index]} ns."
        )
    wanted_ns = np.arange(int(stamps_ns[0]), int(stamps_ns[-1]) + 1, round(interval_s * NS))
    chosen = np.unique(stamps_ns[nearest_index(stamps_ns, wanted_ns)])
    return chosen if len(chosen) > 1 else stamps_ns[[0, -1]]


def measure_all(
    odometry: StereoOdometry,
    keyframes_ns: Stamps,
    output: Path | None = None,
    on_pose: Callable[[int, int], None] = lambda done, total: None,
    settings: str = "",
) -> list[RelativePose]:
    """Relative poses of all keyframes; with `output`, unfinished work is saved beside it and
    resumed by a run of the same version, odometry and `settings`: a text that names what else
    decides the poses. The second look comes last."""
    if output is not None:
        require_writable(output)
    settings = f"{__version__}; {odometry.settings}; {settings}"
    partial = None if output is None else output.with_name(output.name + ".unfinished")
    poses = [] if partial is None else _resumed(partial, keyframes_ns, settings)
    indices = [odometry.frames.index_of(int(stamp)) for stamp in keyframes_ns]
    for pose in odometry.relative_poses(indices[len(poses) :]):
        poses.append(pose)
        on_pose(len(poses), len(indices) - 1)
        if partial is not None and len(poses) % SAVE_EVERY == 0:
            save_measured(partial, poses, settings, odometry.calibration)
    poses = odometry.judged(poses)
    if output is not None and partial is not None:
        save_measured(output, poses, settings, odometry.calibration)
        partial.unlink(missing_ok=True)
    return poses


def save_measured(
    path: Path,
    poses: Sequence[RelativePose],
    settings: str,
    calibration: CalibrationUncertainty = EXACT_CALIBRATION,
) -> None:
    """Write the `.npz` of consecutive relative poses, with counts of matches beside them."""
    counts = {
        name: np.array([getattr(pose, name) for pose in poses])
        for name in ("matches", "inliers", "row_error_px")
    }
    relative = stacked(poses, StereoTracker.frame, calibration)
    save_relative_poses(path, relative, settings=settings, **counts)


def load_measured(path: Path, settings: str = "") -> list[RelativePose]:
    """Read what `save_measured` wrote; nothing where it was written with other `settings`."""
    content = read_npz(path, MEASURED_FIELDS, "relative poses that `maci2 vo` wrote")
    if settings and str(content["settings"]) != settings:
        return []
    motions = motions_from_arrays(content, len(content["reasons"]), str(path))
    names = "stamps_ns", "T_ck_ck1", "cov", "matches", "inliers", "row_error_px", "reasons"
    return [
        RelativePose((int(s[0]), int(s[1])), T, cov, int(m), int(i), float(row), str(reason), some)
        for s, T, cov, m, i, row, reason, some in zip(
            *(content[name] for name in names), motions, strict=True
        )
    ]


def _resumed(partial: Path, keyframes_ns: Stamps, settings: str) -> list[RelativePose]:
    """Relative poses of an earlier run over the same keyframes with the same settings."""
    if not partial.is_file():
        return []
    try:
        poses = load_measured(partial, settings)
    except Maci2Error:
        return []
    if not poses:
        _LOG.warning(
            "note: %s is of a run with other options, rig, weights or version; starting anew",
            partial,
        )
        return []
    wanted = pairwise(keyframes_ns)
    same = [p.stamps_ns == (int(a), int(b)) for p, (a, b) in zip(poses, wanted, strict=False)]
    poses = poses[: same.index(False)] if False in same else poses[: len(same)]
    # A run that begins with pairs that do not fit the calibration would end there.
    while poses and poses[-1].reason:
        poses.pop()
    return poses
