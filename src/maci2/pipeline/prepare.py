"""From a recording and options to what the estimator takes: IMU measurements and camera motion."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from maci2.datasets import open_recording, read_trajectory
from maci2.datasets.image_files import stereo_frames
from maci2.errors import DatasetError
from maci2.estimation.premises import Premises
from maci2.imu import ImuMeasurements, datasheet_model, raw_model
from maci2.imu.learned_model import load_imu_model
from maci2.lie import se3_inv
from maci2.pipeline.gyro_rotation import rotation_predictor
from maci2.pipeline.options import RunOptions, VisionSource
from maci2.pipeline.recording_premises import recording_premises
from maci2.rigs import require_extrinsics, require_noise
from maci2.sensors import (
    CameraTrajectory,
    GroundTruth,
    Recording,
    Rig,
    require_overlap,
    require_plausible,
    with_velocity,
)
from maci2.types import Array, Stamps
from maci2.vision import (
    MeasuredPoses,
    RelativePoses,
    load_relative_poses,
    pose_noise,
    poses_from_measurements,
    poses_from_trajectory,
    poses_from_truth,
    rectified_extrinsics,
)
from maci2.vision.odometry import StereoOdometry, odometry_by
from maci2.vision.predicted_rotation import RotationPredictor, no_prediction


@dataclass(frozen=True)
class Inputs:
    """A recording made ready: one IMU model applied, one source of camera motion opened."""

    recording: Recording
    imu: ImuMeasurements
    T_b_c: Array
    """Of the camera frame that the motion speaks of."""

    source: VisionSource
    truth: GroundTruth | None
    visual: CameraTrajectory | MeasuredPoses | StereoOdometry | None
    """What was opened for the source; nothing for `truth`."""

    seed: int

    def span_ns(self, with_truth: bool) -> tuple[int, int]:
        """First and last stamp at which everything needed is there."""
        covers = [self.imu.stamps_ns]
        if self.truth is not None and (with_truth or self.source.kind == "truth"):
            covers.append(self.truth.stamps_ns)
        if self.visual is not None:
            covers.append(self.visual.stamps_ns.ravel())
        first, last = max(int(c[0]) for c in covers), min(int(c[-1]) for c in covers)
        if first >= last:
            spans = "; ".join(f"{int(c[0])}..{int(c[-1])}" for c in covers)
            raise DatasetError(
                f"{self.recording.path}: IMU, truth and vision do not overlap: {spans} ns. Check "
                "that all stamps are on one clock."
            )
        return first, last

    def candidates_ns(self, with_truth: bool = False) -> Stamps:
        """Stamps at which a keyframe may be taken: images inside the span."""
        first, last = self.span_ns(with_truth)
        stamps = self.recording.camera_stamps_ns[0] if self.recording.camera_stamps_ns else None
        if isinstance(self.visual, MeasuredPoses | StereoOdometry):
            stamps = np.unique(self.visual.stamps_ns)
        elif stamps is None and self.visual is not None:
            stamps = self.visual.stamps_ns
        elif stamps is None and self.truth is not None:
            stamps = self.truth.stamps_ns
        if stamps is None:
            raise DatasetError(f"{self.recording.path}: no camera stamps to take keyframes from.")
        return stamps[(stamps >= first) & (stamps <= last)]

    def camera_motion(self, stamps_ns: Stamps, index: int) -> RelativePoses:
        """Relative poses over the keyframes; noise is drawn from seed, recording and `index`."""
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
            )
        if self.truth is None:
            raise DatasetError(
                f"{self.recording.path}: no ground truth, so --vision truth:... has nothing to "
                "start from; give images, trajectory:FILE or measurements:FILE."
            )
        name = [ord(letter) for letter in self.recording.name]
        seed = (self.seed, index, *name)
        return poses_from_truth(self.truth, stamps_ns, self.T_b_c, cov_pose, seed)

    @cached_property
    def premises(self) -> Premises | None:
        """What the whole recording says of its own constants."""
        return recording_premises(self)

    def removed_bias(self, start_ns: int, end_ns: int) -> tuple[Array, Array]:
        """Mean gyro and acc correction that the IMU model made inside the window, as biases."""
        window = (self.imu.stamps_ns >= start_ns) & (self.imu.stamps_ns <= end_ns)
        raw = self.recording.imu
        inside = (raw.stamps_ns >= start_ns) & (raw.stamps_ns <= end_ns)
        gyro = raw.gyro[inside].mean(axis=0) - self.imu.gyro[window].mean(axis=0)
        acc = raw.acc[inside].mean(axis=0) - self.imu.acc[window].mean(axis=0)
        return gyro, acc


def open_inputs(path: Path, options: RunOptions, calibrating: bool = False) -> Inputs:
    """Open a recording and everything that the options name in it; only who is `calibrating` can do
    with a rig whose extrinsics are not known."""
    recording = open_recording(path, options.rig, options.topics, options.given)
    if options.vision.kind == "truth" or not calibrating:
        what = "drawing camera motion from the truth" if calibrating else "initialization"
        require_extrinsics(recording.rig, what)
    require_plausible(recording.imu)
    imu = apply_imu_model(recording, options)
    truth = recording.truth(options.truth)
    # A calibration asks what the extrinsics are, so they predict nothing in it.
    predictor = no_prediction if calibrating else rotation_predictor(recording, imu)
    visual = _open_visual(recording, options.vision, predictor)
    if truth is not None:
        require_overlap(truth, recording.imu)
        if np.isnan(truth.v_w).all():
            truth = with_velocity(truth)
    measured = isinstance(visual, MeasuredPoses | StereoOdometry)
    frame = visual.frame if measured else options.vision.frame  # type: ignore[union-attr]
    source = replace(options.vision, frame=frame)
    if options.paper:
        source = replace(source, std_share=0.0, std_scale=0.0)
    T_b_c = (
        rectified_extrinsics(recording.rig)
        if frame == "rectified"
        else recording.rig.cameras[0].T_b_c
    )
    return Inputs(recording, imu, T_b_c, source, truth, visual, options.seed)


def apply_imu_model(recording: Recording, options: RunOptions) -> ImuMeasurements:
    """Run `--imu` over the whole recording, once."""
    models = {"raw": datasheet_model if options.paper else raw_model, "datasheet": datasheet_model}
    if options.imu in models:
        require_noise(recording.rig, f"the IMU model '{options.imu}'")
        imu = models[options.imu](recording.imu, recording.rig.imu)
    else:
        imu = load_imu_model(options.imu).measure(recording.imu)
    return replace(imu, bias_prior=options.with_known_bias(imu.bias_prior))


def recalibrated_rig(inputs: Inputs, T_b_c: Array, further_offset_s: float = 0.0) -> Rig:
    """The recording's rig with its left camera where calibration found it, and its time offset;
    the stereo baseline, which motion against the IMU does not measure, stays.

    `further_offset_s` is what is left of the time offset when the stated one is applied.
    """
    rig = inputs.recording.rig
    # Whatever turned the recording's camera frame into the one that was calibrated is undone.
    T_new_old = T_b_c @ se3_inv(inputs.T_b_c)
    cameras = tuple(replace(camera, T_b_c=T_new_old @ camera.T_b_c) for camera in rig.cameras)
    return replace(
        rig,
        cameras=cameras,
        extrinsics_known=True,
        time_offset_s=rig.time_offset_s + further_offset_s,
    )


def _open_visual(
    recording: Recording, source: VisionSource, predictor: RotationPredictor
) -> CameraTrajectory | MeasuredPoses | StereoOdometry | None:
    if source.kind == "truth":
        return None
    if source.kind == "images":
        return odometry_by(
            source.covariance,
            stereo_frames(recording),
            recording.rig,
            predict_rotation=predictor,
        )
    path = Path(source.file)
    if not path.is_absolute():
        folder = recording.path if recording.path.is_dir() else recording.path.parent
        inside = folder / path
        path = inside if inside.exists() else path
    if not path.is_file():
        raise DatasetError(
            f"{source.file}: not found in {recording.path} nor in the working directory; --vision "
            f"{source.kind}:FILE needs a file."
        )
    # Whoever made the file knew the camera's clock only.
    if source.kind == "trajectory":
        trajectory = read_trajectory(path)
        return replace(trajectory, stamps_ns=trajectory.stamps_ns + recording.camera_shift_ns)
    steps = load_relative_poses(path)
    return replace(steps, stamps_ns=steps.stamps_ns + recording.camera_shift_ns)
