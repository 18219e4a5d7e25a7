"""Watchdog: detects with the IMU when a running odometry is inconsistent, and where to restart."""

from maci2.tools.watchdog.watch import Alarm, RestartState, Watchdog, WatchdogConfig
from maci2.tools.watchdog.watched_recording import WatchedRecording, watch_recording

__all__ = [
    "Alarm",
    "RestartState",
    "Watchdog",
    "WatchdogConfig",
    "WatchedRecording",
    "watch_recording",
]
