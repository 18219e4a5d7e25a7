"""`maci2 calibrate` as a function."""

from pathlib import Path

from maci2.pipeline import offline
from maci2.pipeline.offline import CalibratedRecording, calibration_keyframes
from maci2.pipeline.option_list import CalibrateOptions
from maci2.pipeline.options import RunOptions
from maci2.recording_calls.arguments import takes_options

CALIBRATION_WINDOW_S = 30.0
"""Default length of the window of a calibration, if the recording is as long [s]."""


@takes_options(CalibrateOptions)
def calibrate_recording(path: Path, options: CalibrateOptions) -> CalibratedRecording:
    """Estimate extrinsics and time offset from a recording, as `maci2 calibrate` does.

    No initial guess is needed.

    Returns:
        The result; its `rig` has the estimated extrinsics and time offset.

    Raises:
        OptionError: an argument is invalid.
        DatasetError: the recording cannot be read or has no such window.
        CalibrationError: the rig cannot be used.
    """
    window_s = CALIBRATION_WINDOW_S if options.window_s is None else options.window_s
    keyframes = options.keyframes or calibration_keyframes(window_s)
    run = RunOptions.of(options, window_s=window_s, keyframes=keyframes)
    may_be_shorter = options.window_s is None and not options.keyframes
    return offline.calibrate_recording(path, run, may_be_shorter)
