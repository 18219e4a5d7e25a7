"""`maci2 init` as a function."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from maci2.boundary import as_path
from maci2.evaluation.protocol import window_errors
from maci2.pipeline import offline
from maci2.pipeline.offline import InitializedRecording
from maci2.recording_calls.arguments import flag, options_of


def initialize_recording(
    path: str | Path,
    *,
    vision: str = "images",
    imu: str = "raw",
    window_s: float = 2.5,
    keyframes: int = 10,
    start_s: float = 0.0,
    vision_frame: str = "camera",
    vision_std: str | None = None,
    vision_scale_std: float | None = None,
    paper: bool = False,
    time_offset: bool = False,
    truth: Sequence[str] = (),
    acc_bias_prior: Sequence[float] | None = None,
    acc_bias_std: float | None = None,
    rig: str | Path | None = None,
    topics: str = "",
    seed: int = 0,
) -> InitializedRecording:
    """Estimate gravity, velocities, biases and poses of one window, as `maci2 init` does.

    Args:
        path: folder or bag of a recording.
        vision: source of camera motion: "images", "truth:ROT_DEG,TRANS_M", "trajectory:FILE" or
            "measurements:FILE".
        imu: IMU model: "raw", "datasheet", a bundled model's name or a weight file.
        window_s: length of the window [s].
        keyframes: number of keyframes in the window.
        start_s: start of the window, from the first usable timestamp [s].
        vision_frame: frame whose poses a trajectory holds: "camera" or "rectified".
        vision_std: noise of the relative poses of a trajectory, "ROT_DEG,TRANS_M[,SHARE]".
        vision_scale_std: relative standard deviation of the scale of a trajectory.
        paper: use exactly the choices of the paper.
        time_offset: also estimate the time offset between camera and IMU.
        truth: names of ground truths, in order of preference.
        acc_bias_prior: (3,) known accelerometer bias of the raw sensor [m/s^2].
        acc_bias_std: standard deviation of that bias [m/s^2].
        rig: calibration file or folder that replaces the recording's own.
        topics: roles of a bag's topics, "imu=/imu0,left=/cam0/image_raw".
        seed: seed of the noise that "truth:..." adds.

    Returns:
        The result, with its errors if the recording has ground truth.

    Raises:
        OptionError: an argument is invalid.
        DatasetError: the recording cannot be read or has no such window.
        CalibrationError: the rig cannot be used.
    """
    options = options_of(
        vision=vision,
        imu=imu,
        window_s=window_s,
        keyframes=keyframes,
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
    options = replace(
        options, paper=flag(paper, "paper"), time_offset=flag(time_offset, "time_offset")
    )
    return scored(offline.initialize_recording(as_path(path, "path"), options))


def scored(result: InitializedRecording) -> InitializedRecording:
    """A result with its errors against the ground truth of the recording."""
    return replace(result, errors=window_errors(result))
