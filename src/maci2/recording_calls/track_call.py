"""`maci2 track` as a function."""

from dataclasses import replace
from pathlib import Path

from maci2.errors import require_in_range
from maci2.estimator.smoother import LAG_RANGE_S
from maci2.evaluation.track_errors import track_errors
from maci2.pipeline import track_recording as pipeline
from maci2.pipeline.option_list import TrackOptions
from maci2.pipeline.options import RunOptions
from maci2.pipeline.track_files import raw_biases
from maci2.pipeline.track_recording import RecordedTrack
from maci2.recording_calls.arguments import takes_options
from maci2.tracking import SmootherConfig


@takes_options(TrackOptions)
def track_recording(path: Path, options: TrackOptions) -> RecordedTrack:
    """Run visual-inertial odometry on a recording, as `maci2 track` does.

    Returns:
        States with covariances and a verdict, with errors if the recording has ground truth.

    Raises:
        OptionError: an argument is invalid.
        DatasetError: the recording cannot be read, or no window can be initialized.
        CalibrationError: the rig cannot be used.
    """
    require_in_range("--lag", options.lag_s, *LAG_RANGE_S)
    result = pipeline.track_recording(
        path,
        RunOptions.of(options),
        options.interval_s,
        SmootherConfig(lag_s=options.lag_s, adapt_visual_noise=options.adapt_noise),
        batch=options.batch,
        at_imu_rate=options.at_imu_rate,
    )
    truth, states = result.inputs.truth, result.at_images
    if truth is None:
        return result
    gyro_bias, _ = raw_biases(result.inputs, states)
    return replace(result, errors=track_errors(states, gyro_bias, truth, result.origins))
