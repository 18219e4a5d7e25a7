"""Readers of every tool on damaged files: a rig or a CalibrationError, nothing else."""

import json

import pytest
from rig_files import BASALT, CAMERA, IMU, MEI, PINHOLE, TBC, VINS_LENS, ZED, oak

from fuzzing import fuzz
from maci2.rigs import TOOLS, read_any_rig, write_rig
from maci2.simulation import SimulationConfig, simulate

CASES = 24
"""Twice each way of damaging a text."""


@pytest.mark.parametrize("tool", TOOLS)
def test_damaged_files_of_tools_give_a_rig_or_words(tool, tmp_path):
    paths = write_rig(tmp_path, simulate(SimulationConfig(duration_s=1.0)).rig, tool)
    for path in paths:
        assert fuzz(lambda: read_any_rig(paths[0]), path, CASES) == []


FILES = {
    "orbslam_old.yaml": "%YAML:1.0\n" + CAMERA + TBC + IMU,
    "camera.yaml": "%YAML:1.0\n" + VINS_LENS + MEI,
    "vins_mono.yaml": "%YAML:1.0\nimu_topic: /imu\nacc_n: 0.1\n" + VINS_LENS + PINHOLE,
    "basalt.json": json.dumps(BASALT),
    "oak.json": oak(),
    "zed.conf": ZED,
}


@pytest.mark.parametrize("name", FILES)
def test_damaged_files_of_devices_give_a_rig_or_words(name, tmp_path):
    path = tmp_path / name
    path.write_text(FILES[name])
    read_any_rig(path)
    assert fuzz(lambda: read_any_rig(path), path, CASES) == []
