"""Small recordings under the names that the experiments ask for."""

from dataclasses import replace

import numpy as np
import pytest

from maci2.datasets import write_euroc
from maci2.simulation import SimulationConfig, simulate

T_NEW_B = np.array([[0.0, 0, 1, 0], [0, 1, 0, 0], [-1, 0, 0, 0], [0, 0, 0, 1]])
"""EuRoC's IMU has its x axis up; the simulated one its z axis."""


@pytest.fixture(scope="session")
def simulated_root(tmp_path_factory):
    """Two recordings of ten seconds, found below a folder each."""
    root = tmp_path_factory.mktemp("data")
    for seed, (name, kind) in enumerate((("MH_02_easy", "drone"), ("V1_01_easy", "handheld"))):
        config = SimulationConfig(kind=kind, duration_s=10.0, seed=seed)
        write_euroc(mounted_as_in_euroc(simulate(config)), root / "euroc" / name)
    return root


def mounted_as_in_euroc(recording):
    R = T_NEW_B[:3, :3]
    imu = replace(recording.imu, gyro=recording.imu.gyro @ R.T, acc=recording.imu.acc @ R.T)
    cameras = tuple(
        replace(camera, T_b_c=T_NEW_B @ camera.T_b_c) for camera in recording.rig.cameras
    )
    truths = {
        name: replace(
            truth,
            Ts_w_b=truth.Ts_w_b @ T_NEW_B.T,
            bias_gyro=truth.bias_gyro @ R.T,
            bias_acc=truth.bias_acc @ R.T,
        )
        for name, truth in recording.truths.items()
    }
    return replace(recording, imu=imu, rig=replace(recording.rig, cameras=cameras), truths=truths)
