"""Initialization and tracking while the sensors run."""

from maci2.live.initializer import OnlineInitializer
from maci2.live.stream import OnlineConfig, OnlineStatus, OnlineTrackerConfig, TrackerStatus
from maci2.live.tracker import OnlineTracker

__all__ = [
    "OnlineConfig",
    "OnlineInitializer",
    "OnlineStatus",
    "OnlineTracker",
    "OnlineTrackerConfig",
    "TrackerStatus",
]
