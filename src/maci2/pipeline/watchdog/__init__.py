"""A watchdog: tells from the IMU when a running odometry is inconsistent, and where to restart."""

from maci2.pipeline.watchdog.watch import Alarm, Watchdog, WatchdogConfig, watch_recording

__all__ = ["Alarm", "Watchdog", "WatchdogConfig", "watch_recording"]
