"""Initialization and tracking while the sensors run."""

from maci2.pipeline.online.initializer import OnlineInitializer
from maci2.pipeline.online.online_tracker import OnlineTracker
from maci2.pipeline.online.status import (
    OnlineConfig,
    OnlineStatus,
    OnlineTrackerConfig,
    TrackerStatus,
)

__all__ = [
    "OnlineConfig",
    "OnlineInitializer",
    "OnlineStatus",
    "OnlineTracker",
    "OnlineTrackerConfig",
    "TrackerStatus",
]
