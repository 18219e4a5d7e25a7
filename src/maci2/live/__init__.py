"""Initialization while the sensors run."""

from maci2.live.online import OnlineConfig, OnlineInitializer, OnlineStatus

__all__ = ["OnlineConfig", "OnlineInitializer", "OnlineStatus"]
