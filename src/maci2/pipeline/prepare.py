"""Input of the estimator from a recording and options: IMU measurements and camera motion."""

from dataclasses import (dataclass, replace)
from functools import (cached_property)
from maci2.consistency import (MeasuredConstants)
from maci2.datasets.frames import (stereo_frames)
from maci2.errors import (DatasetError)
from maci2.imu import (ImuMeasurements)
from maci2.imu.model_choice import (find_imu_model, needs_datasheet)
from maci2.lie import (se3_inv)
from maci2.pipeline.chosen_truth import (ChosenTruth)
from maci2.pipeline.gyro_rotation import (rotation_predictor)
from maci2.pipeline.open_vision import (open_vision)
from maci2.pipeline.options import (RunOptions, VisionChoice)
from maci2.pipeline.recording_premises import (recording_premises, with_estimated_noise)
from maci2.pipeline.vision_sources import (VisionSource)
from maci2.rigs import (require_extrinsics, require_noise)
from maci2.sensors import (GroundTruth, Recording, Rig, require_plausible)
from maci2.types import (Array, Stamps)
from maci2.vision import (rectified_extrinsics)
from maci2.vision.predicted_rotation import (no_prediction)
from maci2.vision.stereo_refinement import (refine_right_camera)
from pathlib import (Path)



@dataclass(frozen=True)
class Inputs:
    """A recording ready to be estimated on: one IMU model applied, one vision source opened."""

    recording: Recording
    """The recording as it was opened; all its timestamps are on the IMU's clock."""

    imu: ImuMeasurements
    """All samples as the IMU model returns them."""

    T_b_c: Array
    """(4, 4) pose in the body of the camera frame of the motion."""

    vision: VisionSource
    """Source of camera motion."""

    ground_truth: ChosenTruth
    """Ground truth, resolved when it is first used."""

    options: RunOptions
    """Options that it was opened with."""

    @property
    def truth(self) -> GroundTruth | None:
        """Ground truth with velocities; None where the recording has none."""
        return self.ground_truth.states

    @property
    def source(self) -> VisionChoice:
        """Choice of the source of camera motion, with the frame and noise that it has."""
        return self.vision.choice

    def span_ns(self, with_truth: bool) -> tuple[int, int]:
        """First and last timestamp at which everything needed is there."""
        covers = {"the IMU": self.imu.stamps_ns}
        if with_truth and self.truth is not None:
            covers["ground truth"] = self.truth.stamps_ns
        covers[self.vision.sensor] = self.vision.stamps_ns
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
        images_ns = self.recording.camera_stamps_ns[0] if self.recording.camera_stamps_ns else None
        stamps = self.vision.keyframe_candidates(images_ns)
        return stamps[(stamps >= first) & (stamps <= last)]

    def measurable_ns(self) -> Stamps:
        """Those of them that do not lie inside a gap of the source of camera motion."""
        stamps = self.candidates_ns()
        return stamps[self.vision.measurable(stamps)]

    @cached_property
    def premises(self) -> MeasuredConstants | None:
        """What the whole recording says of its own constants."""
        return recording_premises(self)


def open_inputs(path: Path, options: RunOptions, calibrating: bool = False) -> Inputs:
    """Open a recording and everything that the options name in it.

    Only `calibrating` works with a rig whose extrinsics are not known.
    """
    recording = options.open(path)
    if options.all_cameras:
        refined = refine_right_camera(recording.rig, stereo_frames(recording))
        recording = replace(recording, rig=refined.rig, notes=(*recording.notes, refined.text()))
    choice = options.source
    if choice.from_truth or not calibrating:
        what = "camera motion from ground truth" if calibrating else "initialization"
        require_extrinsics(recording.rig, what)
    require_plausible(recording.imu)
    imu = apply_imu_model(recording, options)
    # A calibration asks what the extrinsics are, so they predict nothing in it.
    predictor = no_prediction if calibrating else rotation_predictor(recording, imu)
    if options.paper:
        choice = replace(choice, std_share=0.0, std_windows=None, metric=True)
    truth = ChosenTruth(recording, tuple(options.truth), str(options.imu))
    vision = open_vision(recording, choice, predictor, truth, options.seed)
    T_b_c = recording.rig.cameras[0].T_b_c
    if vision.frame == "rectified":
        T_b_c = rectified_extrinsics(recording.rig)
    inputs = Inputs(recording, imu, T_b_c, vision, truth, options)
    return replace(inputs, vision=vision.with_choice(with_estimated_noise(inputs, tell=True)))


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
