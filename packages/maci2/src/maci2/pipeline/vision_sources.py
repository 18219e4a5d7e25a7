"""Sources of camera motion behind one interface, and the one way to open them (`--vision`).

Images, a trajectory, measurements, tracks, ground truth with noise: each is a `VisionSource`.
Images are matched with the rotation that the gyroscope predicts.
"""

import logging
from abc import abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, TypeVar

import numpy as np

from maci2.calibration_prior import UNVERIFIED
from maci2.datasets import read_trajectory
from maci2.datasets.frames import stereo_frames
from maci2.errors import DatasetError, MeasurementError, OptionError
from maci2.estimator.initial_guess import chained_poses
from maci2.feature_tracks.simulated_tracks import SimulatedTracker, simulated_tracker
from maci2.feature_tracks.track_adjustment import adjusted_steps
from maci2.feature_tracks.tracks import FeatureTracks, RecordedTracks, load_tracks
from maci2.geometry import so3_log
from maci2.imu import GAMMA, ImuMeasurements, preintegrate, raw_model
from maci2.imu.model_choice import calibrated_samples
from maci2.imu.rotation_rates import INTERVAL_S
from maci2.pipeline.options import VISION_FORMS, VisionChoice
from maci2.sensors import (
    CameraTrajectory,
    GroundTruth,
    Recording,
    bridged,
    require_overlap,
    with_velocity,
)
from maci2.sensors.types import ImageRecording
from maci2.types import NS, Array, Mask, Stamps
from maci2.vision import (
    CameraFrame,
    MeasuredPoses,
    RelativePoses,
    load_relative_poses,
    pose_noise,
    poses_from_measurements,
    poses_from_trajectory,
    poses_from_truth,
    rectified_extrinsics,
)
from maci2.vision.covariance import EXACT_CALIBRATION, CalibrationUncertainty
from maci2.vision.odometry import StereoOdometry, even_keyframes, odometry_by
from maci2.vision.pose_sources import MAX_TRUTH_GAP_S
from maci2.vision.relative_pose import stacked
from maci2.vision.relative_poses import PredictedRotation, RotationPredictor, no_prediction

_LOG = logging.getLogger(__name__)

STRETCH = 50
"""Steps between keyframes whose tracks are held at once."""

STRETCH_INDEX = 1_000_000
"""Added to a window's index for the noise of each further stretch."""

Source = TypeVar("Source", bound="VisionSource")


WANDER_STD, CROSS_AXIS_STD = 1e-3, 3e-3
"""[rad/s] How far a bias wanders within seconds, and what an axis reads of rates about the others:
errors of a single prediction."""

ENDS = 5
"""Samples whose mean is the rate at a timestamp."""


@dataclass(frozen=True)
class ChosenTruth:
    """Ground truth of a recording, resolved when it is first used."""

    recording: Recording
    """The recording as it was opened."""

    names: tuple[str, ...] = ()
    """Names of `--truth`."""

    imu: str = "raw"
    """IMU model, as `--imu` names it."""

    @cached_property
    def calibrated(self) -> Recording:
        """The recording as audits see it: samples without the device's errors that the IMU model
        knows. An audit that follows a wrong scale would call its correction an error."""
        return replace(self.recording, imu=calibrated_samples(self.imu, self.recording.imu))

    @cached_property
    def states(self) -> GroundTruth | None:
        """Ground truth with velocities; None if the recording has none."""
        recording = self.calibrated
        if self.names:
            from maci2.tools.ground_truth.choose import with_audited

            recording = with_audited(recording, self.names)
        truth = recording.truth(self.names)
        if truth is not None:
            require_overlap(truth, self.recording.imu)
            if np.isnan(truth.v_w).all():
                truth = with_velocity(truth)
        return truth

    @cached_property
    def motion_noise(self) -> tuple[float, float]:
        """Noise that raw motion capture adds to motion made from it [rad, m]; zero for others."""
        from maci2.tools.ground_truth.choose import capture_noise

        return capture_noise(self.calibrated, self.names)

    def require(self, why: str) -> GroundTruth:
        """The states; raises where there are none and `why` needs them."""
        if self.states is None:
            raise DatasetError(f"{self.recording.path}: no ground truth{why}")
        return self.states

    def require_names(self) -> None:
        """Raise unless the recording has every ground truth that is named."""
        if self.names:
            from maci2.tools.ground_truth.choose import require_known_truths

            require_known_truths([self.recording], self.names)


@dataclass(frozen=True)
class GyroRotation:
    """Rotation of a camera between two timestamps, as the gyroscope measured it."""

    imu: ImuMeasurements
    """Samples that cover the images."""

    T_b_c: Array
    """Pose of the camera in the body."""

    shift_ns: int = 0
    """Nanoseconds added to timestamps of images to convert them to the IMU's clock."""

    def __call__(self, start_ns: int, end_ns: int) -> PredictedRotation | None:
        """The prediction with its covariance; None where samples are missing."""
        stamps_ns = np.array([start_ns, end_ns], dtype=np.int64) + self.shift_ns
        imu = self.imu.between(int(stamps_ns[0]), int(stamps_ns[1]))
        prior = imu.bias_prior
        try:
            between = preintegrate(imu, stamps_ns, prior.mean_gyro)
        except DatasetError:
            return None
        R_b_c = self.T_b_c[:3, :3]
        R_ck_ck1 = R_b_c.T @ between.gamma[0] @ R_b_c
        # gamma is perturbed on the right, in body k+1; a left perturbation is one in camera k.
        ck_D_gamma = R_ck_ck1 @ R_b_c.T
        dt = float(stamps_ns[1] - stamps_ns[0]) / NS
        angle = float(np.linalg.norm(so3_log(R_ck_ck1)))
        own = ck_D_gamma @ between.cov[0, GAMMA, GAMMA] @ ck_D_gamma.T
        own += ((WANDER_STD * dt) ** 2 + (CROSS_AXIS_STD * angle) ** 2 + 1e-8) * np.eye(3)
        for omega_ck in self._rates_at_ends(imu, R_ck_ck1):
            own += UNVERIFIED.camera_jitter_s**2 * np.outer(omega_ck, omega_ck)
        by_shared = self._by_shared(imu, R_ck_ck1, ck_D_gamma @ between.D_bg[0, GAMMA])
        return PredictedRotation(R_ck_ck1, own + by_shared @ by_shared.T, by_shared)

    def _by_shared(self, imu: ImuMeasurements, R_ck_ck1: Array, ck_D_bg: Array) -> Array:
        """(3, 10) derivatives of a prediction by what all of them share: bias, scales, rotation of
        the extrinsics, offset of the clocks, each in units of its standard deviation."""
        prior = imu.bias_prior
        std_bias = np.where(np.isfinite(prior.std_gyro), prior.std_gyro, UNVERIFIED.gyro_bias)
        rates = imu.gyro - prior.mean_gyro
        at_first, at_second = self._rates_at_ends(imu, R_ck_ck1)
        return np.column_stack(
            [
                ck_D_bg * std_bias,
                ck_D_bg * (rates.mean(axis=0) * UNVERIFIED.gyro_scale),
                # A rotation e of the extrinsics turns R into Exp(e) R Exp(-e).
                UNVERIFIED.rotation * (np.eye(3) - R_ck_ck1),
                # Images that are late by t show Exp(-omega_ck t) R Exp(omega_ck1 t).
                UNVERIFIED.camera_clock_s * (at_second - at_first),
            ]
        )

    def _rates_at_ends(self, imu: ImuMeasurements, R_ck_ck1: Array) -> tuple[Array, Array]:
        """Angular rates at both timestamps, expressed in camera k [rad/s]."""
        rates = (imu.gyro - imu.bias_prior.mean_gyro) @ self.T_b_c[:3, :3]
        return rates[:ENDS].mean(axis=0), R_ck_ck1 @ rates[-ENDS:].mean(axis=0)


def rotation_predictor(
    recording: Recording, imu: ImuMeasurements | None = None
) -> RotationPredictor:
    """The gyroscope's prediction for a recording's images; none where the extrinsics are unknown.

    `imu` are the measurements of an IMU model; the raw samples where it is not given.
    """
    rig = recording.rig
    if not rig.extrinsics_known:
        return no_prediction
    shift_ns = round(rig.time_offset_s * NS) - recording.camera_shift_ns
    imu = raw_model(recording.imu, rig.imu) if imu is None else imu
    return GyroRotation(imu, rectified_extrinsics(rig), shift_ns)


@dataclass(frozen=True)
class VisionSource:
    """Source of camera motion: timestamps, a camera frame, and the motion over keyframes."""

    interpolated: ClassVar[bool] = False
    """True if the source is interpolated at the images of the recording; otherwise its keyframes
    are at its own timestamps."""

    choice: VisionChoice
    """Choice of `--vision`, with the frame and noise that the source has."""

    @property
    def sensor(self) -> str:
        """Name of the data that must cover the keyframes, for messages."""
        return "ground truth" if self.choice.from_truth else "vision"

    @property
    def from_images(self) -> bool:
        """True if motion is measured from images, which is costly."""
        return self.choice.kind == "images"

    @property
    def frame(self) -> CameraFrame:
        """Camera frame of the motion."""
        return self.choice.frame

    @property
    @abstractmethod
    def stamps_ns(self) -> Stamps:
        """(n,) timestamps of what the source has, on the recording's clock [ns]."""

    def keyframe_candidates(self, images_ns: Stamps | None) -> Stamps:
        """Timestamps at which a keyframe may be taken; `images_ns` are those of the recording."""
        return images_ns if self.interpolated and images_ns is not None else self.stamps_ns

    def measurable(self, stamps_ns: Stamps) -> Mask:
        """(n,) True for timestamps outside gaps of the source."""
        if self.interpolated:
            return bridged(self.stamps_ns, stamps_ns, MAX_TRUTH_GAP_S)
        return np.ones(len(stamps_ns), dtype=bool)

    def motion(self, stamps_ns: Stamps, index: int = 0) -> RelativePoses:
        """Relative poses over keyframes with covariances; noise that is drawn depends on `index`,
        the number of the window."""
        poses = self._motion(stamps_ns, index)
        return replace(poses, std_scale=0.0) if self.choice.metric else poses

    @abstractmethod
    def _motion(self, stamps_ns: Stamps, index: int) -> RelativePoses: ...

    def tracks(self, stamps_ns: Stamps, index: int = 0) -> FeatureTracks:
        """Points followed over keyframes; noise that is drawn depends on `index`."""
        raise MeasurementError(
            f"--vision {self.choice} gives poses only, and this method needs points; give images, "
            "tracks:PIXEL_SIGMA or tracks:FILE.npz."
        )

    @property
    def odometry(self) -> StereoOdometry | None:
        """Odometry whose images reports show; None without images."""
        return None

    def camera_path(self) -> CameraTrajectory | None:
        """Path of the camera over the whole recording; None if the source has none of its own."""
        return None

    def with_choice(self: Source, choice: VisionChoice) -> Source:
        """Source with other noise."""
        return replace(self, choice=choice)


@dataclass(frozen=True)
class ImageSource(VisionSource):
    """Stereo visual odometry."""

    stereo: StereoOdometry

    @property
    def odometry(self) -> StereoOdometry:
        return self.stereo

    @property
    def stamps_ns(self) -> Stamps:
        return self.stereo.stamps_ns

    def _motion(self, stamps_ns: Stamps, index: int) -> RelativePoses:
        return self.stereo.poses(stamps_ns)

    def camera_path(self) -> CameraTrajectory:
        """Poses from the images of the whole recording, at the rate used for comparison."""
        odometry = self.stereo
        keyframes_ns = even_keyframes(odometry.stamps_ns, INTERVAL_S)
        indices = [odometry.frames.index_of(int(stamp_ns)) for stamp_ns in keyframes_ns]
        poses = [odometry.relative_pose(first, second) for first, second in pairwise(indices)]
        measured = [pose for pose in poses if not pose.reason]
        if not measured:
            raise DatasetError(
                f"{odometry.frames.source}: no camera motion could be measured over "
                f"{(keyframes_ns[-1] - keyframes_ns[0]) / NS:.1f} s of images: {poses[0].reason}."
            )
        stamps_ns = np.array([pose.stamps_ns for pose in measured], dtype=np.int64)
        return chained(stamps_ns, np.array([pose.T_ck_ck1 for pose in measured]), "images")


@dataclass(frozen=True)
class TrajectorySource(VisionSource):
    """Poses of another odometry or SLAM, with specified or estimated noise."""

    interpolated = True
    trajectory: CameraTrajectory

    @property
    def stamps_ns(self) -> Stamps:
        return self.trajectory.stamps_ns

    def _motion(self, stamps_ns: Stamps, index: int) -> RelativePoses:
        noise = self.choice
        return poses_from_trajectory(
            self.trajectory,
            stamps_ns,
            pose_noise(*noise.std),
            noise.frame,
            noise.std_share,
            noise.std_scale,
            noise.std_frame,
        )

    def camera_path(self) -> CameraTrajectory:
        return self.trajectory


@dataclass(frozen=True)
class MeasurementSource(VisionSource):
    """Relative poses of a file, between keyframes of its own."""

    measured: MeasuredPoses

    @property
    def stamps_ns(self) -> Stamps:
        return np.unique(self.measured.stamps_ns)

    def _motion(self, stamps_ns: Stamps, index: int) -> RelativePoses:
        return poses_from_measurements(self.measured, int(stamps_ns[0]), int(stamps_ns[-1]))

    def camera_path(self) -> CameraTrajectory:
        measured = self.measured
        order = np.argsort(measured.stamps_ns[:, 0])
        return chained(measured.stamps_ns[order], measured.Ts_ck_ck1[order], measured.source)


@dataclass(frozen=True)
class AdjustedTracks(VisionSource):
    """Motion from an adjustment of feature tracks over their keyframes."""

    calibration: CalibrationUncertainty = field(default=EXACT_CALIBRATION, kw_only=True)
    """Errors of the rig that all tracks share."""

    _motions: dict[Hashable, RelativePoses] = field(default_factory=dict, init=False, repr=False)
    """Motions by window: methods share them."""

    def _motion(self, stamps_ns: Stamps, index: int) -> RelativePoses:
        key = index, stamps_ns.tobytes()
        if key not in self._motions:
            steps = []
            # All keyframes of a stretch together: tracks of a whole recording would not fit into
            # memory.
            for first in range(0, len(stamps_ns) - 1, STRETCH):
                stretch_ns = stamps_ns[first : first + STRETCH + 1]
                tracks = self.tracks(stretch_ns, index + STRETCH_INDEX * (first // STRETCH))
                steps += adjusted_steps(tracks, self.calibration)
            self._motions[key] = stacked(steps, "rectified", self.calibration)
        return self._motions[key]


@dataclass(frozen=True)
class TrackSource(AdjustedTracks):
    """Feature tracks of a file."""

    recorded: RecordedTracks

    @property
    def stamps_ns(self) -> Stamps:
        return self.recorded.stamps_ns

    def tracks(self, stamps_ns: Stamps, index: int = 0) -> FeatureTracks:
        return self.recorded.tracks(stamps_ns)


@dataclass(frozen=True)
class TruthSource(VisionSource):
    """Ground truth with noise."""

    interpolated = True
    ground_truth: ChosenTruth
    T_b_c: Array
    """(4, 4) pose of the camera in the body."""

    seed: int
    """Seed of the noise; it also depends on the recording's name and the window."""

    @property
    def stamps_ns(self) -> Stamps:
        return self.ground_truth.require(self._why).stamps_ns

    def _motion(self, stamps_ns: Stamps, index: int) -> RelativePoses:
        return poses_from_truth(
            self.ground_truth.require(self._why),
            stamps_ns,
            self.T_b_c,
            pose_noise(*self.choice.std),
            self._window_seed(index),
            # The paper knows no noise of ground truth.
            (0.0, 0.0) if self.choice.metric else self.ground_truth.motion_noise,
        )

    @property
    def _why(self) -> str:
        return (
            f", so --vision {self.choice.kind}:... has nothing to start from; give images, "
            "trajectory:FILE or measurements:FILE."
        )

    def _window_seed(self, index: int) -> tuple[int, ...]:
        return (self.seed, index, *(ord(letter) for letter in self.ground_truth.recording.name))


@dataclass(frozen=True)
class SimulatedTrackSource(AdjustedTracks, TruthSource):
    """Feature tracks of an ideal tracker along the ground truth."""

    tracker: SimulatedTracker

    def tracks(self, stamps_ns: Stamps, index: int = 0) -> FeatureTracks:
        truth = self.ground_truth.require(self._why)
        return self.tracker.tracks(truth, stamps_ns, self._window_seed(index))


def chained(stamps_ns: Stamps, Ts_ck_ck1: Array, source: str) -> CameraTrajectory:
    """Poses along the longest run of consecutive relative poses; `stamps_ns` is (m, 2), from and
    to, in order of time."""
    breaks = np.flatnonzero(stamps_ns[1:, 0] != stamps_ns[:-1, 1]) + 1
    run = max(np.split(np.arange(len(Ts_ck_ck1)), breaks), key=len)
    keyframes_ns = np.concatenate([stamps_ns[run, 0], stamps_ns[run[-1:], 1]])
    return CameraTrajectory(keyframes_ns, chained_poses(Ts_ck_ck1[run]), source)


def open_vision(
    recording: Recording,
    choice: VisionChoice,
    predict_rotation: RotationPredictor = no_prediction,
    ground_truth: ChosenTruth | None = None,
    seed: int = 0,
) -> VisionSource:
    """Open the images of a recording, the file that `choice` names, or its ground truth with noise.

    A relative path is looked up in the recording, then in the working directory. Files are written
    on the camera's clock and put onto the clock of the recording here. `predict_rotation` is used
    by the odometry of images; `seed` is that of noise that is drawn.
    """
    rig, shift_ns = recording.rig, recording.camera_shift_ns
    if choice.kind == "images":
        odometry = open_odometry(recording, choice, predict_rotation)
        return ImageSource(replace(choice, frame=odometry.frame), odometry)
    if choice.from_truth:
        truth = ground_truth or ChosenTruth(recording)
        made_from = choice, truth, rig.cameras[0].T_b_c, seed
        if choice.kind == "truth":
            return TruthSource(*made_from)
        tracker = simulated_tracker(rig, choice.pixel_std, choice.depths)
        return SimulatedTrackSource(*made_from, tracker)
    path = _find_file(recording, choice)
    if choice.kind == "tracks":
        tracks = load_tracks(path)
        tracks = replace(tracks, stamp_ns=tracks.stamp_ns + shift_ns)
        calibration = EXACT_CALIBRATION if rig.exact else CalibrationUncertainty()
        return TrackSource(choice, tracks, calibration=calibration)
    if choice.kind == "trajectory":
        trajectory = read_trajectory(path)
        if trajectory.dropped:
            _LOG.warning(
                "note: %s: %d poses hold NaN and are left out: the odometry was lost there",
                choice.file,
                trajectory.dropped,
            )
        trajectory = replace(trajectory, stamps_ns=trajectory.stamps_ns + shift_ns)
        return TrajectorySource(choice, trajectory)
    measured = load_relative_poses(path)
    measured = replace(measured, stamps_ns=measured.stamps_ns + shift_ns)
    return MeasurementSource(replace(choice, frame=measured.frame), measured)


def open_odometry(
    recording: ImageRecording,
    choice: VisionChoice,
    predict_rotation: RotationPredictor = no_prediction,
    weights: Path | None = None,
) -> StereoOdometry:
    """Open the odometry of a recording's images; `weights` replace the bundled network."""
    try:
        frames = stereo_frames(recording)
    except DatasetError as error:
        if not choice.by_default:
            raise
        raise OptionError(
            "--vision is needed: where camera motion comes from. Without it the recording's images "
            f"are used, and there are none to use ({error}). Choose one of {VISION_FORMS}."
        ) from error
    if choice.by_default:
        _LOG.warning(
            "note: --vision is not given; camera motion comes from the images of %s",
            recording.name,
        )
    return odometry_by(choice.covariance, frames, recording.rig, weights, predict_rotation)


def _find_file(recording: Recording, choice: VisionChoice) -> Path:
    path = Path(choice.file)
    if not path.is_absolute():
        folder = recording.path if recording.path.is_dir() else recording.path.parent
        inside = folder / path
        path = inside if inside.exists() else path
    if not path.is_file():
        found = f"no such file in {recording.path} or in the working directory"
        if path.exists():
            found = "a folder, not a file" if path.is_dir() else "no regular file"
        raise DatasetError(
            f"{choice.file}: {found}; camera motion ({choice.kind}) is read from it. Check the "
            "path."
        )
    return path
