"""Initialization while the sensors run."""

from maci2.pipeline.online.initializer import OnlineInitializer
from maci2.pipeline.online.status import OnlineConfig, OnlineStatus

__all__ = ["OnlineConfig", "OnlineInitializer", "OnlineStatus"]
