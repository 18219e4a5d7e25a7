"""Calibration files of other tools, in and out."""

from maci2.sensors.exchange.convert import TOOLS, Tool, read_any_rig, write_rig

__all__ = ["TOOLS", "Tool", "read_any_rig", "write_rig"]
