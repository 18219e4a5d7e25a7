"""Inputs of an estimator from a recording and options: IMU measurements, camera motion, and windows
of keyframes."""

import logging
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from maci2.consistency import Evidence, MeasuredConstants, estimate_rotation_noise, sample_rate
from maci2.datasets.frames import stereo_frames
from maci2.errors import DatasetError, MeasurementError
from maci2.geometry import se3_inv
from maci2.imu import ImuMeasurements, preintegrate
from maci2.imu.model_choice import find_imu_model, needs_datasheet
from maci2.pipeline.options import RunOptions, VisionChoice
from maci2.pipeline.vision_sources import (
    ChosenTruth,
    VisionSource,
    open_vision,
    rotation_predictor,
)
from maci2.rigs import require_extrinsics, require_noise
from maci2.sensors import GroundTruth, Recording, Rig, require_plausible
from maci2.sensors.interpolation import nearest_index
from maci2.types import NS, Array, Stamps
from maci2.vision import RelativePoses, rectified_extrinsics
from maci2.vision.relative_poses import no_prediction
from maci2.vision.stereo_refinement import refine_right_camera

_LOG = logging.getLogger(__name__)

OFFSET_MARGIN_S = 0.12
"""Length of IMU data beyond the keyframes, for an unknown time offset."""

WINDOW_S, KEYFRAMES = 2.5, 10
"""Windows over the whole recording for its consistency tests, whatever the user's window is."""

FIRST_INDEX = 1_000_000
"""Index of their noise of simulated camera motion, different from that of every user's window."""

IMAGE_WINDOWS = 6
"""Number of these windows where camera motion is still to be computed from images."""

CLOSEST_SHARE = 0.3
"""Keyframes of a long window are at least this share of the mean spacing apart."""


@dataclass(frozen=True)
class Window:
    """One segment to initialize on."""

    index: int
    stamps_ns: Stamps
    """(keyframes,) image timestamps, as evenly spread as the images allow."""

    @property
    def start_ns(self) -> int:
        return int(self.stamps_ns[0])


def plan_windows(
    candidates_ns: Stamps, window_s: float, stride_s: float, keyframes: int, start_s: float = 0.0
) -> list[Window]:
    """Every window that fits, from `start_s` after the first candidate on."""
    if len(candidates_ns) == 0:
        return []
    windows = []
    start_ns = int(candidates_ns[0]) + round(start_s * NS)
    length_ns, stride_ns = round(window_s * NS), round(stride_s * NS)
    index = 0
    # Half a frame of slack: timestamps jitter, and the last image may be a millisecond early.
    slack_ns = int(np.median(np.diff(candidates_ns)) / 2) if len(candidates_ns) > 1 else 0
    while start_ns + length_ns <= int(candidates_ns[-1]) + slack_ns:
        wanted_ns = np.linspace(start_ns, start_ns + length_ns, keyframes)
        stamps = np.unique(candidates_ns[nearest_index(candidates_ns, wanted_ns)])
        if len(stamps) == keyframes:
            windows.append(Window(index, stamps))
        index += 1
        start_ns += stride_ns
    return windows


def one_window(candidates_ns: Stamps, window_s: float, keyframes: int, start_s: float) -> Window:
    """The window that starts `start_s` after the first usable timestamp."""
    windows = plan_windows(candidates_ns, window_s, 1e9, keyframes, start_s)
    if not windows:
        raise _no_window(candidates_ns, window_s, keyframes, start_s)
    return windows[0]


def long_window(candidates_ns: Stamps, window_s: float, keyframes: int, start_s: float) -> Window:
    """Window over minutes, where images may be missing: a keyframe without one is left out, as long
    as half of all are there."""
    if len(candidates_ns) < 2:
        raise _no_window(candidates_ns, window_s, keyframes, start_s)
    start_ns = int(candidates_ns[0]) + round(start_s * NS)
    wanted_ns = np.linspace(start_ns, start_ns + round(window_s * NS), keyframes)
    nearest = candidates_ns[nearest_index(candidates_ns, wanted_ns)]
    spacing_ns = (wanted_ns[-1] - wanted_ns[0]) / (keyframes - 1)
    if wanted_ns[-1] > candidates_ns[-1] + 0.5 * spacing_ns:
        raise _no_window(candidates_ns, window_s, keyframes, start_s)
    stamps_ns = np.unique(nearest[np.abs(nearest - wanted_ns) <= 0.5 * spacing_ns])
    apart = np.r_[True, np.diff(stamps_ns) > CLOSEST_SHARE * spacing_ns]
    if 2 * int(apart.sum()) < keyframes:
        raise _no_window(candidates_ns, window_s, keyframes, start_s)
    return Window(0, stamps_ns[apart])


def _no_window(
    candidates_ns: Stamps, window_s: float, keyframes: int, start_s: float
) -> DatasetError:
    has_s = (int(candidates_ns[-1]) - int(candidates_ns[0])) / NS if len(candidates_ns) else 0.0
    return DatasetError(
        f"no window of {window_s:g} s with {keyframes} keyframes from {start_s:g} s on: usable "
        f"images cover {has_s:.2f} s ({len(candidates_ns)} images). Choose a shorter window, "
        "fewer keyframes or an earlier start."
    )


@dataclass(frozen=True)
class Inputs:
    """A recording ready for estimation: one IMU model applied, one vision source opened."""

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
        """Candidates that do not lie inside a gap of the source of camera motion."""
        stamps = self.candidates_ns()
        return stamps[self.vision.measurable(stamps)]

    def samples_around(self, vision: RelativePoses) -> ImuMeasurements:
        """Samples that cover the keyframes, with a margin where a time offset is unknown."""
        stamps_ns = self.imu.stamps_ns
        margin_ns = round(OFFSET_MARGIN_S * NS) if self.options.time_offset else 0
        return self.imu.between(
            max(int(vision.stamps_ns[0]) - margin_ns, int(stamps_ns[0])),
            min(int(vision.stamps_ns[-1]) + margin_ns, int(stamps_ns[-1])),
        )

    @cached_property
    def constants(self) -> MeasuredConstants | None:
        """Posterior of the constants over the whole recording, or where motion comes from images
        over some windows of it; None where there is no window."""
        evidence = Evidence(self.T_b_c)
        evidence.add(self.imu, self._camera_motions())
        constants = evidence.constants()
        rate = sample_rate(self.recording.imu.stamps_ns, self.recording.rig.imu.rate_hz)
        return constants and replace(constants, sample_rate=rate, is_complete=True)

    def with_estimated_noise(self) -> "Inputs":
        """Inputs with the noise that relative poses show along the whole recording, where none was
        specified; logs it."""
        source = self.source
        if source.std_windows != 0:
            return self
        noise = estimate_rotation_noise(self.imu, self._camera_motions(), self.T_b_c)
        if noise is None:
            return self
        std = source.std[0] * float(np.sqrt(noise.factor)), source.std[1]
        _LOG.warning(
            "note: %s: relative poses of %s are off by %.3f deg, estimated from %d windows, and by "
            "%g mm + %g %% of their length; --vision-std states other noise",
            self.recording.name,
            source.file,
            std[0],
            noise.windows,
            1e3 * std[1],
            100.0 * source.std_share,
        )
        choice = replace(source, std=std, std_windows=noise.windows)
        return replace(self, vision=self.vision.with_choice(choice))

    def _camera_motions(self) -> list[RelativePoses]:
        """Motion over windows of the whole recording that IMU samples cover."""
        motions = []
        windows = plan_windows(self.candidates_ns(), WINDOW_S, WINDOW_S, KEYFRAMES)
        if self.vision.from_images and len(windows) > IMAGE_WINDOWS:
            chosen = np.linspace(0, len(windows) - 1, IMAGE_WINDOWS).round().astype(int)
            windows = [windows[index] for index in chosen]
        for window in windows:
            try:
                motion = self.vision.motion(window.stamps_ns, FIRST_INDEX + window.index)
                preintegrate(self.imu, motion.stamps_ns, np.zeros(3), np.zeros(3))
            except (DatasetError, MeasurementError):
                continue
            motions.append(motion)
        return motions


def open_inputs(path: Path, options: RunOptions, calibrating: bool = False) -> Inputs:
    """Open a recording and everything that the options name in it.

    Only `calibrating` works with a rig whose extrinsics are not known.
    """
    recording = _open_recording(path, options, calibrating)
    imu = apply_imu_model(recording, options)
    # A calibration estimates the extrinsics, so they predict nothing in it.
    predictor = no_prediction if calibrating else rotation_predictor(recording, imu)
    truth = ChosenTruth(recording, tuple(options.truth), str(options.imu))
    choice = options.source
    if options.paper:
        choice = replace(choice, std_share=0.0, std_windows=None, metric=True)
    vision = open_vision(recording, choice, predictor, truth, options.seed)
    left = recording.rig.cameras[0]
    T_b_c = rectified_extrinsics(recording.rig) if vision.frame == "rectified" else left.T_b_c
    return Inputs(recording, imu, T_b_c, vision, truth, options).with_estimated_noise()


def _open_recording(path: Path, options: RunOptions, calibrating: bool) -> Recording:
    """A recording whose samples are plausible and whose extrinsics are known where needed."""
    recording = options.open(path)
    if options.all_cameras:
        refined = refine_right_camera(recording.rig, stereo_frames(recording))
        recording = replace(recording, rig=refined.rig, notes=(*recording.notes, refined.text()))
    if options.source.from_truth or not calibrating:
        what = "camera motion from ground truth" if calibrating else "initialization"
        require_extrinsics(recording.rig, what)
    require_plausible(recording.imu)
    return recording


def apply_imu_model(recording: Recording, options: RunOptions) -> ImuMeasurements:
    """Samples of the whole recording as the model of `--imu` returns them."""
    # The paper knows data-sheet noise only.
    name = "datasheet" if options.paper and options.imu == "raw" else options.imu
    if needs_datasheet(name):
        require_noise(recording.rig, f"the IMU model '{options.imu}'")
    imu = find_imu_model(name)(recording.imu, recording.rig.imu)
    prior = imu.bias_prior
    if options.acc_bias_prior is not None:
        # The user gives the bias of the raw sensor, the prior is that of what the model leaves.
        _, removed_acc = imu.removed_bias(int(imu.stamps_ns[0]), int(imu.stamps_ns[-1]))
        prior = replace(prior, mean_acc=np.array(options.acc_bias_prior) - removed_acc)
    if options.acc_bias_std is not None:
        prior = replace(prior, std_acc=np.full(3, options.acc_bias_std))
    return replace(imu, bias_prior=prior)


def recalibrated_rig(inputs: Inputs, T_b_c: Array, further_offset_s: float = 0.0) -> Rig:
    """The recording's rig with the calibrated pose of its left camera and its time offset.

    The stereo baseline, which motion against the IMU does not measure, stays. `further_offset_s`
    is the time offset that remains when the specified one is applied.
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
