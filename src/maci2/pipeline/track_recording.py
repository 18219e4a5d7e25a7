"""What `maci2 track` does: a recording and options to a track, causal or smoothed as a whole."""

from dataclasses import dataclass, replace
from pathlib import Path
from time import process_time

import numpy as np

from maci2.errors import DatasetError
from maci2.estimation import SolverConfig
from maci2.estimation.motion_choice import choose_motions
from maci2.ground_truth.choose import require_known_truths
from maci2.pipeline.options import RunOptions
from maci2.pipeline.prepare import Inputs, open_inputs
from maci2.pipeline.rehearsals import warm_up
from maci2.tracking.batch import smoothed
from maci2.tracking.calibration_spread import TRAJECTORY_SCALE_WALK
from maci2.tracking.settings import tracker_settings
from maci2.tracking.smoother import SmootherConfig
from maci2.tracking.track import track
from maci2.tracking.tracked import Track, TrackedState
from maci2.types import NS, Stamps
from maci2.vision import RelativePoses
from maci2.vision.odometry_run import even_keyframes

KEYFRAME_INTERVAL_S = 0.2
"""Between keyframes: the odometry's own spacing, for which its covariances are calibrated."""


@dataclass(frozen=True)
class ProcessorTime:
    """What a track cost, all threads together."""

    per_image_ms: float
    """Of looking at images, over all images; that of interpolating where poses were given."""

    per_keyframe_ms: float
    """Of starting and smoothing, and of the states between, over all keyframes."""


@dataclass(frozen=True)
class TrackedRecording:
    """A track with what it was made from."""

    inputs: Inputs
    vision: RelativePoses
    track: Track
    batch: bool
    """Whether every state was smoothed with all measurements; otherwise they are causal."""

    spent: ProcessorTime

    at_imu_rate: tuple[TrackedState, ...] = ()
    """States at every IMU sample too, where they were asked for."""


def track_recording(
    path: Path,
    options: RunOptions,
    interval_s: float = KEYFRAME_INTERVAL_S,
    config: SmootherConfig | None = None,
    batch: bool = False,
    measured: RelativePoses | None = None,
    at_imu_rate: bool = False,
) -> TrackedRecording:
    """Track a recording from its first usable window on.

    `measured` are the relative poses of an earlier run with the same options. `at_imu_rate` gives
    states at every IMU sample beside those at images.
    """
    inputs = open_inputs(path, options)
    require_known_truths([inputs.recording], options.truth)
    warm_up("initialize", "chain")
    candidates_ns = inputs.measurable_ns()
    start_ns = round(options.start_s * NS)
    candidates_ns = candidates_ns[candidates_ns - candidates_ns[:1] >= start_ns]
    if len(candidates_ns) < 2:
        raise DatasetError(
            f"{path}: {len(candidates_ns)} usable images from {options.start_s:g} s on, needed two "
            "or more; choose an earlier --start, or camera motion that covers more of the images."
        )
    began_s = process_time()
    vision = measured or inputs.camera_motion(keyframes_of(inputs, candidates_ns, interval_s), 0)
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
    dense = tuple(found.states) if at_imu_rate else ()
    at_images = set(images_ns.tolist())
    states = [state for state in found.states if state.stamp_ns in at_images]
    return TrackedRecording(inputs, vision, replace(found, states=states), batch, spent, dense)


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
