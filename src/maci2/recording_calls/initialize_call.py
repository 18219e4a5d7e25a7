"""`maci2 init` as a function."""

from dataclasses import replace
from pathlib import Path

from maci2.evaluation.window_errors import window_errors
from maci2.pipeline import offline
from maci2.pipeline.offline import InitializedRecording
from maci2.pipeline.option_list import InitOptions
from maci2.pipeline.options import RunOptions
from maci2.recording_calls.arguments import takes_options


@takes_options(InitOptions)
def initialize_recording(path: Path, options: InitOptions) -> InitializedRecording:
    """Estimate gravity, velocities, biases and poses of one window, as `maci2 init` does.

    Returns:
        The result, with its errors if the recording has ground truth.

    Raises:
        OptionError: an argument is invalid.
        DatasetError: the recording cannot be read or has no such window.
        CalibrationError: the rig cannot be used.
    """
    result = offline.initialize_recording(path, RunOptions.of(options))
    return replace(result, errors=window_errors(result))
