"""Odometry along a recording, causal or smoothed as a whole, and its result."""

from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING

import numpy as np

from maci2.errors import DatasetError
from maci2.estimator import SolverConfig, Verdict
from maci2.estimator.outliers import choose_motions
from maci2.estimator.smoother import SmootherConfig
from maci2.field_docs import document_fields
from maci2.odometry.batch import smoothed
from maci2.odometry.settings import TRAJECTORY_SCALE_WALK, tracker_settings
from maci2.odometry.track import track
from maci2.odometry.tracked import Track, TrackedState
from maci2.pipeline.prepare import Inputs
from maci2.pipeline.track_files import track_summary, track_text, write_track
from maci2.pipeline.warm_up import warm_up
from maci2.result_output import Record
from maci2.types import NS, Array, Stamps
from maci2.validation import as_path
from maci2.vision import RelativePoses
from maci2.vision.odometry import even_keyframes

if TYPE_CHECKING:
    from maci2.metrics.track_errors import TrackErrors

KEYFRAME_INTERVAL_S = 0.2
"""Between keyframes: the odometry's own spacing, for which its covariances are calibrated."""


@dataclass(frozen=True)
class ProcessorTime:
    """Processor time of a track, all threads together."""

    per_image_ms: float
    """Time of vision, or of interpolating given poses, over the number of images."""

    per_keyframe_ms: float
    """Time of starting, smoothing and predicting states, over the number of keyframes."""


@dataclass(frozen=True, repr=False, kw_only=True)
class RecordedTrack(Track):
    """Result of `track_recording`: a track with its inputs, and errors if there is ground truth."""

    inputs: Inputs
    """The opened recording: IMU measurements, vision, extrinsics, ground truth."""

    vision: RelativePoses
    """Relative poses, used or rejected."""

    at_images: list[TrackedState]
    """States at the images; equal to `states` unless `at_imu_rate` was set."""

    at_imu_rate: bool
    """True if `states` are at every IMU sample."""

    batch: bool
    """True if every state was smoothed with all measurements; otherwise states are causal."""

    spent: ProcessorTime
    """Processor time of vision and of smoothing."""

    errors: "TrackErrors | None" = None
    """Errors against ground truth; None without ground truth."""

    @property
    def verdict(self) -> Verdict:
        """Reliability of the covariances, and the reasons against it."""
        return self.judged_by(self.at_images)

    @property
    def stamps_ns(self) -> Stamps:
        """(n,) timestamps of the states on the IMU's clock [ns]."""
        return np.array([state.stamp_ns for state in self.states])

    @property
    def Ts_w_b(self) -> Array:
        """(n, 4, 4) poses of the IMU in a world whose z axis points up."""
        return np.array([state.T_w_b for state in self.states])

    @property
    def velocities_w(self) -> Array:
        """(n, 3) velocities of the IMU in the same world [m/s]."""
        return np.array([state.v_w for state in self.states])

    @property
    def covs(self) -> Array:
        """(n, 15, 15) covariances, order [phi (right), v, p, gyro bias, acc bias]."""
        return np.array([state.cov for state in self.states])

    def summary(self) -> str:
        """The text that `maci2 track` prints."""
        return track_text(self)

    def to_dict(self) -> Record:
        """The record that `maci2 track --json` writes."""
        return track_summary(self)

    def save(self, folder: str | Path) -> list[Path]:
        """Write trajectories, arrays with covariances and the summary; returns their paths."""
        return write_track(self, as_path(folder, "folder"), self.to_dict())

    def __repr__(self) -> str:
        name, seconds = self.inputs.recording.name, 1e-9 * float(np.ptp(self.stamps_ns))
        status, count = self.verdict.status, len(self.states)
        return f"RecordedTrack({name}: {status}, {count} states, {seconds:.1f} s)"


def track_inputs(
    inputs: Inputs,
    interval_s: float = KEYFRAME_INTERVAL_S,
    config: SmootherConfig | None = None,
    batch: bool = False,
    measured: RelativePoses | None = None,
    at_imu_rate: bool = False,
) -> RecordedTrack:
    """Track a recording from its first usable window on.

    `measured` are the relative poses of an earlier run with the same options. `at_imu_rate` gives
    states at every IMU sample beside those at images.
    """
    warm_up("initialize", "chain")
    options, candidates_ns = inputs.options, inputs.measurable_ns()
    start_ns = round(options.start_s * NS)
    candidates_ns = candidates_ns[candidates_ns - candidates_ns[:1] >= start_ns]
    if len(candidates_ns) < 2:
        raise DatasetError(
            f"{inputs.recording.path}: {len(candidates_ns)} usable images from "
            f"{options.start_s:g} s on, needed two or more; choose an earlier --start, or camera "
            "motion that covers more of the images."
        )
    began_s = process_time()
    vision = measured or inputs.vision.motion(keyframes_of(inputs, candidates_ns, interval_s), 0)
    seen_s = process_time()
    images_ns = _images(inputs, vision.stamps_ns)
    scale_walk = TRAJECTORY_SCALE_WALK if inputs.source.kind == "trajectory" else 0.0
    rig = inputs.recording.rig
    walks, config = tracker_settings(rig, options.imu, config, scale_walk)
    wanted_ns = images_ns
    if at_imu_rate:
        samples_ns = inputs.imu.stamps_ns
        inside = (samples_ns >= images_ns[0]) & (samples_ns <= images_ns[-1])
        wanted_ns = np.union1d(images_ns, samples_ns[inside])
    found = track(inputs.imu, vision, inputs.T_b_c, walks, wanted_ns, config)
    if batch:
        vision = choose_motions(inputs.imu, vision, inputs.T_b_c, SolverConfig()).vision
        found = smoothed(inputs.imu, vision, inputs.T_b_c, walks, found, config)
    spent = ProcessorTime(
        1e3 * (seen_s - began_s) / len(images_ns),
        1e3 * (process_time() - seen_s) / len(vision.stamps_ns),
    )
    with_image = set(images_ns.tolist())
    return RecordedTrack(
        **vars(found),
        inputs=inputs,
        vision=vision,
        at_images=[state for state in found.states if state.stamp_ns in with_image],
        at_imu_rate=at_imu_rate,
        batch=batch,
        spent=spent,
    )


def keyframes_of(inputs: Inputs, candidates_ns: Stamps, interval_s: float) -> Stamps:
    """Even keyframes; those of a file of measurements are given."""
    if inputs.source.kind == "measurements":
        return candidates_ns
    return even_keyframes(candidates_ns, interval_s)


def _images(inputs: Inputs, keyframes_ns: Stamps) -> Stamps:
    """Timestamps of all images along the keyframes; the keyframes where there are no images."""
    if not inputs.recording.camera_stamps_ns:
        return keyframes_ns
    stamps_ns = inputs.recording.camera_stamps_ns[0]
    inside = (stamps_ns >= keyframes_ns[0]) & (stamps_ns <= keyframes_ns[-1])
    return np.union1d(stamps_ns[inside], keyframes_ns)


document_fields(__name__)
