"""Initialization while the sensors run."""

from maci2.live.online import OnlineInitializer
from maci2.live.status import OnlineConfig, OnlineStatus

__all__ = ["OnlineConfig", "OnlineInitializer", "OnlineStatus"]
