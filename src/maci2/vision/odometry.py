"""Stereo visual odometry of a recording: relative poses of keyframes with covariances."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from maci2.boundary import as_stamps, require_type
from maci2.errors import MeasurementError
from maci2.sensors import Rig
from maci2.sensors.stereo import Frames, Image
from maci2.types import Stamps
from maci2.vision.calibration_uncertainty import EXACT_CALIBRATION, CalibrationUncertainty
from maci2.vision.covariance_models import CovarianceModel, covariance_model
from maci2.vision.predicted_rotation import RotationPredictor, no_prediction
from maci2.vision.read_ahead import ReadAhead
from maci2.vision.rectify import Rectification
from maci2.vision.relative_pose import RelativePose, chained, stacked
from maci2.vision.relative_poses import CameraFrame, RelativePoses
from maci2.vision.second_look import START
from maci2.vision.tracker import AHEAD, StereoTracker, TrackerConfig


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
        """Consecutive relative poses, each with a second look by what those before it tell; the
        first ones by what all of the first tell as soon as that is enough."""
        look = self._tracker.second_look()
        first = 0
        while first < min(START, len(poses)) and not look.knows:
            look.learn(poses[first])
            first += 1
        judged = []
        for k, pose in enumerate(poses):
            ends = (self.frames.index_of(stamp_ns) for stamp_ns in pose.stamps_ns)
            judged.append(look.judged(pose, *self._pairs(*ends)))
            if k >= first:
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
