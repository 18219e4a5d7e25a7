"""Calibration files of other tools and devices, read and written."""

from maci2.rigs.convert import TOOLS, convert_rig, given_by, kind_of, read_any_rig, write_rig
from maci2.rigs.kalibr import read_rig, write_camchain, write_imu_yaml
from maci2.rigs.parts import NOTHING_GIVEN, Given, complete, require_extrinsics, require_noise

__all__ = [
    "NOTHING_GIVEN",
    "TOOLS",
    "Given",
    "complete",
    "convert_rig",
    "given_by",
    "kind_of",
    "read_any_rig",
    "read_rig",
    "require_extrinsics",
    "require_noise",
    "write_camchain",
    "write_imu_yaml",
    "write_rig",
]
