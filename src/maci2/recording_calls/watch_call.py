"""`maci2 watch` as a function."""

from pathlib import Path

from maci2.boundary import as_number, as_path
from maci2.errors import OptionError
from maci2.pipeline.options import RunOptions
from maci2.watchdog import WatchdogConfig, WatchedRecording
from maci2.watchdog import watch_recording as watch_along


def watch_recording(
    path: str | Path,
    odometry: str | Path,
    *,
    frame: str = "body",
    imu: str = "raw",
    odometry_std: str | None = None,
    odometry_scale_std: float | None = None,
    interval_s: float = 0.2,
    sigmas: float = 6.5,
    rig: str | Path | None = None,
    imu_rate: float | None = None,
    imu_noise: str | Path = "",
    T_b_c: str | Path = "",
    topics: str = "",
    columns: str = "",
) -> WatchedRecording:
    """Detect with the IMU when another odometry fails, as `maci2 watch` does.

    Args:
        path: folder or bag of a recording.
        odometry: trajectory of the odometry (TUM format), in any world frame.
        frame: frame whose poses the trajectory holds: "body" (the IMU), "camera" or "rectified".
        imu: IMU model, as for `initialize_recording`.
        odometry_std: noise of its relative poses, "ROT_DEG,TRANS_M[,SHARE]".
        odometry_scale_std: relative standard deviation of its scale.
        interval_s: time between keyframes [s].
        sigmas: alarm beyond this many standard deviations.
        rig: calibration file or folder that replaces the recording's own.
        imu_rate, imu_noise, T_b_c, topics, columns: as for `initialize_recording`.

    Returns:
        Alarms for scale changes, jumps, tilts and stalls, each with its time, its size and a state
        to restart from.

    Raises:
        OptionError: an argument is invalid.
        DatasetError: the recording or the trajectory cannot be read.
        CalibrationError: the rig cannot be used.
    """
    if frame not in ("body", "camera", "rectified"):
        raise OptionError(f"frame is {frame!r}; choose body, camera or rectified.")
    options = RunOptions(
        vision=f"trajectory:{as_path(odometry, 'odometry')}",
        imu=imu,
        vision_frame="camera" if frame == "body" else frame,
        vision_std=odometry_std,
        vision_scale_std=odometry_scale_std,
        rig=rig,
        imu_rate=imu_rate,
        imu_noise=imu_noise,
        T_b_c=T_b_c,
        topics=topics,
        columns=columns,
    )
    config = WatchdogConfig(sigmas=as_number(sigmas, "sigmas", error=OptionError))
    interval_s = as_number(interval_s, "interval_s", error=OptionError)
    return watch_along(as_path(path, "path"), options, interval_s, frame == "body", config)
