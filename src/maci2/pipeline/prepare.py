"""Input of the estimator from a recording and options: IMU measurements and camera motion."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from maci2.datasets import open_recording
from maci2.datasets.image_files import stereo_frames
from maci2.errors import DatasetError, MeasurementError
from maci2.feature_tracks.image_tracks import image_tracks
from maci2.feature_tracks.simulated_tracks import SimulatedTracker
from maci2.feature_tracks.track_adjustment import adjusted_steps
from maci2.feature_tracks.track_files import RecordedTracks
from maci2.feature_tracks.tracks import FeatureTracks
from maci2.ground_truth.choose import capture_noise, with_audited
from maci2.imu import ImuMeasurements
from maci2.imu.model_choice import calibrated_samples, find_imu_model, needs_datasheet
from maci2.lie import se3_inv
from maci2.pipeline.gyro_rotation import rotation_predictor
from maci2.pipeline.open_vision import Vision, frame_of, open_vision
from maci2.pipeline.options import RunOptions, VisionSource
from maci2.pipeline.recording_premises import recording_premises, with_estimated_noise
from maci2.premises import Premises
from maci2.rigs import require_extrinsics, require_noise
from maci2.sensors import (
    CameraTrajectory,
    GroundTruth,
    Recording,
    Rig,
    bridged,
    require_overlap,
    require_plausible,
    with_velocity,
)
from maci2.types import Array, Stamps
from maci2.vision import (
    MeasuredPoses,
    RelativePoses,
    pose_noise,
    poses_from_measurements,
    poses_from_trajectory,
    poses_from_truth,
    rectified_extrinsics,
)
from maci2.vision.calibration_uncertainty import EXACT_CALIBRATION, CalibrationUncertainty
from maci2.vision.odometry import StereoOdometry
from maci2.vision.pose_sources import MAX_TRUTH_GAP_S
from maci2.vision.predicted_rotation import no_prediction
from maci2.vision.relative_pose import stacked
from maci2.vision.stereo_refinement import refine_right_camera

STRETCH = 50
"""Steps between keyframes whose tracks are held at once."""

STRETCH_INDEX = 1_000_000
"""Added to a window's index for the noise of each further stretch."""


@dataclass(frozen=True)
class Inputs:
    """A recording ready to be estimated on: one IMU model applied, one vision source opened."""

    recording: Recording
    """The recording as it was opened; all its timestamps are on the IMU's clock."""

    imu: ImuMeasurements
    """All samples as the IMU model hands them on."""

    T_b_c: Array
    """(4, 4) pose in the body of the camera frame that the motion speaks of."""

    source: VisionSource
    """Source of camera motion, with the frame that it turned out to have."""

    truth: GroundTruth | None
    """Ground truth with velocities; None where the recording has none."""

    visual: Vision | None
    """What was opened for the source; None where motion is made from ground truth."""

    seed: int
    """Seed of noise that is added to ground truth."""

    def span_ns(self, with_truth: bool) -> tuple[int, int]:
        """First and last timestamp at which everything needed is there."""
        covers = {"the IMU": self.imu.stamps_ns}
        if self.truth is not None and (with_truth or self.source.from_truth):
            covers["ground truth"] = self.truth.stamps_ns
        if self.visual is not None and not isinstance(self.visual, SimulatedTracker):
            covers["vision"] = self.visual.stamps_ns.ravel()
        parts = covers.values()
        first, last = max(int(c[0]) for c in parts), min(int(c[-1]) for c in parts)
        if first >= last:
            spans = "; ".join(
                f"{name} has {len(c)} timestamps, {int(c[0])}..{int(c[-1])} ns"
                for name, c in covers.items()
            )
            raise DatasetError(
                f"{self.recording.path}: {' and '.join(covers)} do not overlap: {spans}. Check "
                "that all timestamps are on one clock, and that nothing is missing."
            )
        return first, last

    def candidates_ns(self, with_truth: bool = False) -> Stamps:
        """Timestamps at which a keyframe may be taken: images inside the span."""
        first, last = self.span_ns(with_truth)
        stamps = self.recording.camera_stamps_ns[0] if self.recording.camera_stamps_ns else None
        if isinstance(self.visual, MeasuredPoses | StereoOdometry | RecordedTracks):
            stamps = np.unique(self.visual.stamps_ns)
        elif stamps is None and isinstance(self.visual, CameraTrajectory):
            stamps = self.visual.stamps_ns
        elif stamps is None and self.truth is not None:
            stamps = self.truth.stamps_ns
        if stamps is None:
            raise DatasetError(
                f"{self.recording.path}: no camera timestamps to take keyframes from."
            )
        return stamps[(stamps >= first) & (stamps <= last)]

    def measurable_ns(self) -> Stamps:
        """Those of them that do not lie inside a gap of the poses that motion is taken from."""
        stamps = self.candidates_ns()
        poses = self.truth if self.source.from_truth else self.visual
        if isinstance(poses, GroundTruth | CameraTrajectory):
            stamps = stamps[bridged(poses.stamps_ns, stamps, MAX_TRUTH_GAP_S)]
        return stamps

    def camera_motion(self, stamps_ns: Stamps, index: int) -> RelativePoses:
        """Relative poses over the keyframes; noise depends on seed, recording and `index`."""
        poses = self._relative_poses(stamps_ns, index)
        return replace(poses, std_scale=0.0) if self.source.metric else poses

    def _relative_poses(self, stamps_ns: Stamps, index: int) -> RelativePoses:
        if isinstance(self.visual, RecordedTracks | SimulatedTracker):
            key = index, stamps_ns.tobytes()
            if key not in self._track_motions:
                self._track_motions[key] = self._motion_of_tracks(stamps_ns, index)
            return self._track_motions[key]
        cov_pose = pose_noise(*self.source.std)
        if isinstance(self.visual, StereoOdometry):
            return self.visual.poses(stamps_ns)
        if isinstance(self.visual, MeasuredPoses):
            return poses_from_measurements(self.visual, int(stamps_ns[0]), int(stamps_ns[-1]))
        if isinstance(self.visual, CameraTrajectory):
            return poses_from_trajectory(
                self.visual,
                stamps_ns,
                cov_pose,
                self.source.frame,
                self.source.std_share,
                self.source.std_scale,
                self.source.std_frame,
            )
        truth, seed = self._require_truth(), self._window_seed(index)
        own = self.source.std_truth
        return poses_from_truth(truth, stamps_ns, self.T_b_c, cov_pose, seed, own)

    def feature_tracks(self, stamps_ns: Stamps, index: int) -> FeatureTracks:
        """Points followed over the keyframes; noise depends on seed, recording and `index`."""
        if isinstance(self.visual, RecordedTracks):
            return self.visual.tracks(stamps_ns)
        if isinstance(self.visual, StereoOdometry):
            key = stamps_ns.tobytes()
            if key not in self._image_tracks:
                self._image_tracks[key] = image_tracks(self.visual, stamps_ns)
            return self._image_tracks[key]
        if isinstance(self.visual, SimulatedTracker):
            truth = self._require_truth()
            return self.visual.tracks(truth, stamps_ns, self._window_seed(index))
        raise MeasurementError(
            f"--vision {self.source} gives poses only, and this method needs points; give images, "
            "tracks:PIXEL_SIGMA or tracks:FILE.npz."
        )

    @cached_property
    def _image_tracks(self) -> dict[bytes, FeatureTracks]:
        """Tracks that were made from images, by their keyframes: methods share them."""
        return {}

    @cached_property
    def _track_motions(self) -> dict[tuple[int, bytes], RelativePoses]:
        """Motions that were made from tracks, by window: methods share them."""
        return {}

    def _motion_of_tracks(self, stamps_ns: Stamps, index: int) -> RelativePoses:
        """All keyframes of a stretch together: tracks of a whole recording would not fit into
        memory."""
        exact = self.recording.rig.exact or isinstance(self.visual, SimulatedTracker)
        calibration = EXACT_CALIBRATION if exact else CalibrationUncertainty()
        steps = []
        for first in range(0, len(stamps_ns) - 1, STRETCH):
            stretch_ns = stamps_ns[first : first + STRETCH + 1]
            tracks = self.feature_tracks(stretch_ns, index + STRETCH_INDEX * (first // STRETCH))
            steps += adjusted_steps(tracks, calibration)
        return stacked(steps, "rectified", calibration)

    def _require_truth(self) -> GroundTruth:
        if self.truth is None:
            raise DatasetError(
                f"{self.recording.path}: no ground truth, so --vision {self.source.kind}:... has "
                "nothing to start from; give images, trajectory:FILE or measurements:FILE."
            )
        return self.truth

    def _window_seed(self, index: int) -> tuple[int, ...]:
        return (self.seed, index, *(ord(letter) for letter in self.recording.name))

    @cached_property
    def premises(self) -> Premises | None:
        """What the whole recording says of its own constants."""
        return recording_premises(self)


def as_calibrated(recording: Recording, options: RunOptions) -> Recording:
    """The recording as audits of its ground truth see it: the samples without the device's errors
    that the chosen IMU model knows. An audit that follows a wrong scale would call its correction
    an error."""
    return replace(recording, imu=calibrated_samples(options.imu, recording.imu))


def open_inputs(path: Path, options: RunOptions, calibrating: bool = False) -> Inputs:
    """Open a recording and everything that the options name in it.

    Only `calibrating` works with a rig whose extrinsics are not known.
    """
    recording = open_recording(
        path, options.rig, options.topics, options.given, columns=options.columns
    )
    if options.all_cameras:
        refined = refine_right_camera(recording.rig, stereo_frames(recording))
        recording = replace(recording, rig=refined.rig, notes=(*recording.notes, refined.text()))
    audited_with = as_calibrated(recording, options)
    recording = replace(recording, truths=with_audited(audited_with, options.truth).truths)
    if options.vision.from_truth or not calibrating:
        what = "camera motion from ground truth" if calibrating else "initialization"
        require_extrinsics(recording.rig, what)
    require_plausible(recording.imu)
    imu = apply_imu_model(recording, options)
    truth = recording.truth(options.truth)
    # A calibration asks what the extrinsics are, so they predict nothing in it.
    predictor = no_prediction if calibrating else rotation_predictor(recording, imu)
    visual = open_vision(recording, options.vision, predictor)
    if truth is not None:
        require_overlap(truth, recording.imu)
        if np.isnan(truth.v_w).all():
            truth = with_velocity(truth)
    frame = frame_of(visual, options.vision)
    source = replace(options.vision, frame=frame)
    if options.paper:
        source = replace(source, std_share=0.0, std_windows=None, metric=True)
    elif source.kind == "truth":
        source = replace(source, std_truth=capture_noise(audited_with, options.truth))
    T_b_c = (
        rectified_extrinsics(recording.rig)
        if frame == "rectified"
        else recording.rig.cameras[0].T_b_c
    )
    inputs = Inputs(recording, imu, T_b_c, source, truth, visual, options.seed)
    return replace(inputs, source=with_estimated_noise(inputs, tell=True))


def apply_imu_model(recording: Recording, options: RunOptions) -> ImuMeasurements:
    """The samples of the whole recording as the model of `--imu` hands them on."""
    # The paper knows data-sheet noise only.
    name = "datasheet" if options.paper and options.imu == "raw" else options.imu
    if needs_datasheet(name):
        require_noise(recording.rig, f"the IMU model '{options.imu}'")
    imu = find_imu_model(name)(recording.imu, recording.rig.imu)
    _, removed_acc = imu.removed_bias(int(imu.stamps_ns[0]), int(imu.stamps_ns[-1]))
    return replace(imu, bias_prior=options.with_known_bias(imu.bias_prior, removed_acc))


def recalibrated_rig(inputs: Inputs, T_b_c: Array, further_offset_s: float = 0.0) -> Rig:
    """The recording's rig with the calibrated pose of its left camera and its time offset.

    The stereo baseline, which motion against the IMU does not measure, stays. `further_offset_s`
    is what is left of the time offset when the stated one is applied.
    """
    rig = inputs.recording.rig
    # The calibrated frame may be the rectified one: carry the change over to the camera itself.
    T_new_old = T_b_c @ se3_inv(inputs.T_b_c)
    cameras = tuple(replace(camera, T_b_c=T_new_old @ camera.T_b_c) for camera in rig.cameras)
    return replace(
        rig,
        cameras=cameras,
        extrinsics_known=True,
        time_offset_s=rig.time_offset_s + further_offset_s,
    )
