"""`maci2 track` as a function."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from maci2.boundary import as_path
from maci2.errors import require_in_range
from maci2.evaluation.track_errors import track_errors
from maci2.pipeline import track_recording as pipeline
from maci2.pipeline.track_files import raw_biases
from maci2.pipeline.track_recording import KEYFRAME_INTERVAL_S, RecordedTrack
from maci2.recording_calls.arguments import flag, number, options_of
from maci2.tracking import SmootherConfig
from maci2.tracking.smoother import LAG_RANGE_S


def track_recording(
    path: str | Path,
    *,
    vision: str = "images",
    imu: str = "raw",
    interval_s: float = KEYFRAME_INTERVAL_S,
    lag_s: float = 3.0,
    start_s: float = 0.0,
    batch: bool = False,
    adapt_noise: bool = True,
    at_imu_rate: bool = False,
    vision_frame: str = "camera",
    vision_std: str | None = None,
    vision_scale_std: float | None = None,
    truth: Sequence[str] = (),
    rig: str | Path | None = None,
    topics: str = "",
    seed: int = 0,
) -> RecordedTrack:
    """Run visual-inertial odometry on a recording, as `maci2 track` does.

    Args:
        path: folder or bag of a recording.
        vision: source of camera motion, as for `initialize_recording`.
        imu: IMU model, as for `initialize_recording`.
        interval_s: time between keyframes [s].
        lag_s: length of the smoothed window [s].
        start_s: start, from the first usable timestamp [s].
        batch: smooth the whole recording at once; otherwise states are causal.
        adapt_noise: adapt the noise of vision to its innovations.
        at_imu_rate: also compute states at every IMU sample.
        vision_frame, vision_std, vision_scale_std: as for `initialize_recording`.
        truth, rig, topics, seed: as for `initialize_recording`.

    Returns:
        States with covariances and a verdict, with errors if the recording has ground truth.

    Raises:
        OptionError: an argument is invalid.
        DatasetError: the recording cannot be read, or no window can be initialized.
        CalibrationError: the rig cannot be used.
    """
    options = options_of(
        vision=vision,
        imu=imu,
        start_s=start_s,
        vision_frame=vision_frame,
        vision_std=vision_std,
        vision_scale_std=vision_scale_std,
        truth=truth,
        rig=rig,
        topics=topics,
        seed=seed,
    )
    lag_s = number(lag_s, "lag_s")
    require_in_range("lag_s", lag_s, *LAG_RANGE_S)
    config = SmootherConfig(lag_s=lag_s, adapt_visual_noise=flag(adapt_noise, "adapt_noise"))
    tracked = pipeline.track_recording(
        as_path(path, "path"),
        options,
        number(interval_s, "interval_s"),
        config,
        batch=flag(batch, "batch"),
        at_imu_rate=flag(at_imu_rate, "at_imu_rate"),
    )
    return scored(tracked)


def scored(tracked: RecordedTrack) -> RecordedTrack:
    """A track with its errors against the ground truth of the recording."""
    truth, states = tracked.inputs.truth, tracked.at_images
    if truth is None:
        return tracked
    gyro_bias, _ = raw_biases(tracked.inputs, states)
    return replace(tracked, errors=track_errors(states, gyro_bias, truth, tracked.origins))
