"""Initialization and tracking while the sensors run."""

from maci2.pipeline.online.initializer import OnlineInitializer
from maci2.pipeline.online.stream import (
    OnlineConfig,
    OnlineStatus,
    OnlineTrackerConfig,
    TrackerStatus,
)
from maci2.pipeline.online.tracker import OnlineTracker

__all__ = [
    "OnlineConfig",
    "OnlineInitializer",
    "OnlineStatus",
    "OnlineTracker",
    "OnlineTrackerConfig",
    "TrackerStatus",
]
