"""Stereo visual odometry of a recording: relative poses of keyframes with covariances.

Keyframes lie at even times; results are saved as they come. Images are read in a thread of their
own before they are needed.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Literal

import numpy as np

from maci2 import __version__
from maci2.errors import DatasetError, Maci2Error, MeasurementError, require_in_range
from maci2.files import NpzField, read_npz, require_writable, write_npz
from maci2.sensors import Rig
from maci2.sensors.interpolation import nearest_index
from maci2.sensors.stereo import Frames, Image
from maci2.types import NS, Stamps
from maci2.validation import as_stamps, require_type
from maci2.vision.covariance import (
    EXACT_CALIBRATION,
    CalibrationUncertainty,
    CovarianceModel,
    covariance_model,
)
from maci2.vision.pose_sources import MOTION_FIELDS, motions_as_arrays, motions_from_arrays
from maci2.vision.predicted_rotation import RotationPredictor, no_prediction
from maci2.vision.rectify import Rectification
from maci2.vision.relative_pose import RelativePose, chained, stacked
from maci2.vision.relative_poses import CameraFrame, RelativePoses
from maci2.vision.tracker import AHEAD, StereoTracker, TrackerConfig

Side = Literal["left", "right"]

HELD = 12
"""Images that may wait to be taken; the oldest is forgotten."""


@dataclass
class ReadAhead:
    """Images of some stereo pairs, for any thread. One thread reads them all, so that a file is
    never read by two at once."""

    frames: Frames
    _coming: dict[tuple[Side, int], Future[Image]] = field(default_factory=dict)
    _reader: ThreadPoolExecutor | None = None
    _lock: Lock = field(default_factory=Lock)

    @property
    def stamps_ns(self) -> Stamps:
        """(n,) timestamps of all stereo pairs."""
        return self.frames.stamps_ns

    def expect(self, index: int) -> None:
        """Begin to read a pair that will be asked for."""
        with self._lock:
            for side in ("left", "right"):
                self._submit(side, index)
            while len(self._coming) > HELD:
                self._coming.pop(next(iter(self._coming))).cancel()

    def left(self, index: int) -> Image:
        """The left image; an ImageError of reading it is raised here."""
        return self._take("left", index)

    def right(self, index: int) -> Image:
        """The right image."""
        return self._take("right", index)

    def _submit(self, side: Side, index: int) -> None:
        if (side, index) not in self._coming:
            if self._reader is None:
                self._reader = ThreadPoolExecutor(1, "read-ahead")
            read = self.frames.left if side == "left" else self.frames.right
            self._coming[side, index] = self._reader.submit(read, index)

    def _take(self, side: Side, index: int) -> Image:
        with self._lock:
            self._submit(side, index)
            coming = self._coming.pop((side, index))
        return coming.result()


@dataclass(frozen=True)
class OdometryConfig(TrackerConfig):
    """Choices of the odometry."""

    chained: bool = False
    """Measure from frame to frame and chain, instead of from keyframe to keyframe."""


@dataclass(frozen=True)
class RecordedPair:
    """A stereo pair of a recording, read when its images are asked for."""

    frames: ReadAhead
    index: int
    """Position of the pair in the recording."""

    @property
    def stamp_ns(self) -> int:
        return int(self.frames.stamps_ns[self.index])

    @property
    def left(self) -> Image:
        return self.frames.left(self.index)

    @property
    def right(self) -> Image:
        return self.frames.right(self.index)


def odometry_by(
    covariance: str,
    frames: Frames,
    rig: Rig,
    weights: Path | None = None,
    predict_rotation: RotationPredictor = no_prediction,
) -> "StereoOdometry":
    """Odometry with match covariances by name; all but `learned` are baselines: Eq. 6 alone."""
    config = OdometryConfig()
    if covariance != "learned":
        config = OdometryConfig(EXACT_CALIBRATION, scale_by_residuals=covariance == "chi2")
    return StereoOdometry(
        frames, rig, covariance_model(covariance, weights), config, predict_rotation
    )


class StereoOdometry:
    """Relative poses between any two frames of a recording, each measured once.

    Args:
        frames: stereo pairs, as `stereo_frames(recording)` gives them.
        rig: calibration of at least two cameras.
        model: covariance of single matches; the learned one by default.
        config: choices of the odometry.

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
        config: OdometryConfig | None = None,
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
        self._images = ReadAhead(frames)
        self.config = OdometryConfig() if config is None else config
        self._tracker = StereoTracker(rig, model, self.config, frames.source, predict_rotation)
        self._measured: dict[tuple[int, int], RelativePose] = {}

    @property
    def stamps_ns(self) -> Stamps:
        """(n,) timestamps of all stereo pairs."""
        return self.frames.stamps_ns

    @property
    def settings(self) -> str:
        """All choices that decide a relative pose, as text: runs of different ones do not mix."""
        return f"{self.model!r}, {self.config!r}, {self.calibration!r}"

    @property
    def rectification(self) -> Rectification:
        """Geometry of the rectified pair."""
        return self._tracker.rectification

    @property
    def model(self) -> CovarianceModel:
        """Covariance of single matches."""
        return self._tracker.model

    @property
    def calibration(self) -> CalibrationUncertainty:
        """What is added to Eq. 6 for errors of the calibration."""
        return self._tracker.calibration

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
        asked = 0
        for k, span in enumerate(spans):
            while asked < min(k + AHEAD, len(spans)):
                self._expect(*spans[asked])
                asked += 1
            yield self.relative_pose(*span)

    def judged(self, poses: Sequence[RelativePose]) -> list[RelativePose]:
        """Consecutive relative poses, each with a second look that knows of those before it."""
        look = self._tracker.second_look()
        judged = []
        for pose in poses:
            ends = (self.frames.index_of(stamp_ns) for stamp_ns in pose.stamps_ns)
            judged.append(look.judged(pose, *self._pairs(*ends)))
            look.learn(pose)
        return judged

    def _expect(self, index: int, index1: int) -> None:
        """Begin to measure a motion that will be asked for, unless it is known."""
        if (index, index1) not in self._measured and not self.config.chained:
            self._images.expect(index1)
            self._tracker.expect(*self._pairs(index, index1))

    def relative_pose(self, index: int, index1: int) -> RelativePose:
        """Motion between two frames, direct or chained, measured once."""
        if (index, index1) not in self._measured:
            if self.config.chained and index1 > index + 1:
                parts = [self.relative_pose(k, k + 1) for k in range(index, index1)]
                self._measured[index, index1] = chained(parts)
            else:
                self._measured[index, index1] = self._measure(index, index1)
        return self._measured[index, index1]

    def _measure(self, index: int, index1: int) -> RelativePose:
        first, between, second = self._pairs(index, index1)
        if self._tracker.last_ns != first.stamp_ns:
            self._tracker.start(first)
        return self._tracker.advance(between, second)

    def _pairs(
        self, index: int, index1: int
    ) -> tuple[RecordedPair, list[RecordedPair], RecordedPair]:
        """Two keyframes and what lies between them."""
        first, *between, second = (RecordedPair(self._images, k) for k in range(index, index1 + 1))
        return first, between, second


_LOG = logging.getLogger(__name__)

SAVE_EVERY = 25
"""Relative poses between two saves of the unfinished file."""


MEASURED_FIELDS = {
    "stamps_ns": NpzField("iu", ("m", 2)),
    "T_ck_ck1": NpzField("f", ("m", 4, 4)),
    "cov": NpzField("f", ("m", 6, 6)),
    "matches": NpzField("iu", ("m",)),
    "inliers": NpzField("iu", ("m",)),
    "row_error_px": NpzField("f", ("m",)),
    "reasons": NpzField("U", ("m",)),
    "settings": NpzField("U", ()),
    **MOTION_FIELDS,
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
            save_measured(partial, poses, settings, odometry.calibration.scale)
    poses = odometry.judged(poses)
    if output is not None and partial is not None:
        save_measured(output, poses, settings, odometry.calibration.scale)
        partial.unlink(missing_ok=True)
    return poses


def save_measured(
    path: Path, poses: list[RelativePose], settings: str, std_scale: float = 0.0
) -> None:
    """Write the `.npz` of relative poses, with counts and reasons beside them; `std_scale` is that
    of the scale that they share."""
    arrays = {
        "stamps_ns": np.array([pose.stamps_ns for pose in poses], dtype=np.int64),
        "T_ck_ck1": np.array([pose.T_ck_ck1 for pose in poses]),
        "cov": np.array([pose.cov_T_ck_ck1 for pose in poses]),
        "frame": "rectified",
        "std_scale": std_scale,
        "version": __version__,
        "matches": np.array([pose.matches for pose in poses]),
        "inliers": np.array([pose.inliers for pose in poses]),
        "row_error_px": np.array([pose.row_error_px for pose in poses]),
        "settings": settings,
        "measured": np.array([not pose.reason for pose in poses]),
        "reasons": np.array([pose.reason for pose in poses], dtype=np.str_),
        **motions_as_arrays([pose.motions for pose in poses]),
    }
    write_npz(path, arrays)


def load_measured(path: Path, settings: str = "") -> list[RelativePose]:
    """Read what `save_measured` wrote; nothing where it was written with other `settings`."""
    content = read_npz(path, MEASURED_FIELDS, "relative poses that `maci2 vo` wrote")
    if settings and str(content["settings"]) != settings:
        return []
    columns = [content[name] for name in ("stamps_ns", "T_ck_ck1", "cov", "matches", "inliers",
                                          "row_error_px", "reasons")]  # fmt: skip
    motions = motions_from_arrays(content, len(content["reasons"]), str(path))
    return [
        RelativePose((int(s[0]), int(s[1])), T, cov, int(m), int(i), float(row), str(reason), some)
        for s, T, cov, m, i, row, reason, some in zip(*columns, motions, strict=True)
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
