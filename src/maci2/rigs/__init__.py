"""Calibration files of Kalibr, OpenVINS, VINS-Fusion and ORB-SLAM3, read and written."""

from maci2.rigs.convert import TOOLS, Tool, convert_rig, read_any_rig, write_rig
from maci2.rigs.kalibr import read_camchain, read_imu_yaml, read_rig, require_extrinsics
from maci2.rigs.kalibr_writer import write_camchain, write_imu_yaml

__all__ = [
    "TOOLS",
    "Tool",
    "convert_rig",
    "read_any_rig",
    "read_camchain",
    "read_imu_yaml",
    "read_rig",
    "require_extrinsics",
    "write_camchain",
    "write_imu_yaml",
    "write_rig",
]
