"""Readers of every tool on damaged files: a rig or a CalibrationError, nothing else."""

import json

import numpy as np
import pytest
from rig_files import BASALT, CAMERA, IMU, MEI, PINHOLE, TBC, VINS_LENS, ZED, oak

from maci2.errors import CalibrationError
from maci2.rigs import TOOLS, read_any_rig, write_rig
from maci2.simulation import SimulationConfig, simulate

CASES = 25
INSERTED = (
    b"1e308", b"-1", b"nan", b"1e999999", b"9" * 40, b'"', b"\t", b"\xff", b"\0", b": ", b"- ",
    b"[" * 600, b"*a", b"&a [*a, *a]", b"{", b"}", b"!!python/object:os.system ", b"...\n",
    b"<<: *a\n",
)  # fmt: skip


def damaged(content: bytes, seed: int) -> bytes:
    """Bits flipped, a stretch removed or repeated, something put in, or the end cut off."""
    rng = np.random.default_rng(seed)
    place, end = sorted(int(k) for k in rng.integers(0, len(content), 2))
    how = seed % 5
    if how == 0:
        changed = bytearray(content)
        changed[place] ^= 1 << int(rng.integers(8))
        return bytes(changed)
    if how == 1:
        return content[:place] + content[min(end, place + 80) :]
    if how == 2:
        return content[:end] + content[place:]
    if how == 3:
        return content[:place] + INSERTED[rng.integers(len(INSERTED))] + content[place + 3 :]
    return content[:place]


def fails_otherwise(path, target) -> list[str]:
    whole = path.read_bytes()
    wrong = []
    for seed in range(CASES):
        path.write_bytes(damaged(whole, seed))
        try:
            read_any_rig(target)
        except CalibrationError as error:
            if not str(error).strip() or "Input should be" in str(error):
                wrong.append(f"seed {seed}: {error}")
        except Exception as error:
            wrong.append(f"seed {seed}: {type(error).__name__}: {error}")
    path.write_bytes(whole)
    return wrong


@pytest.mark.parametrize("tool", TOOLS)
def test_damaged_files_of_tools_give_a_rig_or_words(tool, tmp_path):
    rig = simulate(SimulationConfig(duration_s=1.0)).rig
    paths = write_rig(tmp_path, rig, tool)
    for path in paths:
        assert fails_otherwise(path, paths[0]) == []


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
    assert fails_otherwise(path, path) == []
