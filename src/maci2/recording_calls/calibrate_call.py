"""`maci2 calibrate` as a function."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from maci2.boundary import as_path
from maci2.pipeline import offline
from maci2.pipeline.offline import CalibratedRecording, calibration_keyframes
from maci2.recording_calls.arguments import flag, number, options_of

CALIBRATION_WINDOW_S = 30.0
"""Default length of the window of a calibration, if the recording is as long [s]."""


def calibrate_recording(
    path: str | Path,
    *,
    vision: str = "images",
    imu: str = "raw",
    window_s: float | None = None,
    keyframes: int | None = None,
    start_s: float = 0.0,
    vision_frame: str = "camera",
    vision_std: str | None = None,
    vision_scale_std: float | None = None,
    time_offset: bool = True,
    truth: Sequence[str] = (),
    acc_bias_prior: Sequence[float] | None = None,
    acc_bias_std: float | None = None,
    rig: str | Path | None = None,
    topics: str = "",
    seed: int = 0,
) -> CalibratedRecording:
    """Estimate extrinsics and time offset from a recording, as `maci2 calibrate` does.

    No initial guess is needed.

    Args:
        path: folder or bag of a recording.
        vision: source of camera motion, as for `initialize_recording`.
        imu: IMU model, as for `initialize_recording`.
        window_s: length of the window [s]; None means 30, or the whole of a shorter recording.
        keyframes: number of keyframes; None means one every 0.3 s.
        start_s: start of the window, from the first usable timestamp [s].
        vision_frame, vision_std, vision_scale_std: as for `initialize_recording`.
        time_offset: also estimate the time offset between camera and IMU.
        truth, acc_bias_prior, acc_bias_std, rig, topics, seed: as for `initialize_recording`.

    Returns:
        The result; its `rig` has the estimated extrinsics and time offset.

    Raises:
        OptionError: an argument is invalid.
        DatasetError: the recording cannot be read or has no such window.
        CalibrationError: the rig cannot be used.
    """
    length_s = CALIBRATION_WINDOW_S if window_s is None else number(window_s, "window_s")
    count = calibration_keyframes(length_s) if keyframes is None else keyframes
    options = options_of(
        vision=vision,
        imu=imu,
        window_s=length_s,
        keyframes=count,
        start_s=start_s,
        vision_frame=vision_frame,
        vision_std=vision_std,
        vision_scale_std=vision_scale_std,
        truth=truth,
        acc_bias_prior=acc_bias_prior,
        acc_bias_std=acc_bias_std,
        rig=rig,
        topics=topics,
        seed=seed,
    )
    options = replace(options, time_offset=flag(time_offset, "time_offset"))
    may_be_shorter = window_s is None and keyframes is None
    return offline.calibrate_recording(as_path(path, "path"), options, may_be_shorter)
