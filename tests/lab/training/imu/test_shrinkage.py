"""What is kept of learned corrections, and the speed of a training step."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")
pytest.importorskip("onnx")

from maci2.simulation import SimulationConfig, simulate
from maci2_lab.benchmarks.training_speed import bench_training_step
from maci2_lab.training.imu.data import load_track
from maci2_lab.training.imu.finish import correct, shrink_corrections
from maci2_lab.training.imu.network import build
from maci2_lab.training.imu.recipes import FORMS


@pytest.fixture(scope="module")
def tracks():
    config = SimulationConfig(
        kind="drone", duration_s=12.0, camera_offset_ns=0, bias_gyro_std=0.0, bias_acc_std=0.0
    )
    recordings = [simulate(config), simulate(config)]
    return [load_track(recording, "exact") for recording in recordings]


def test_a_correction_that_harms_unseen_recordings_is_not_kept(tracks):
    torch.manual_seed(0)
    model = build(FORMS["separated"], torch.zeros(6), torch.ones(6), torch.full((6,), 1e-2))
    last = model.correction_head[-1]
    torch.nn.init.normal_(last.weight, std=2.0)
    model.eval()
    with torch.no_grad():
        # Right on average, wrong at every moment.
        model.constant.sub_(torch.tensor(correct(model, tracks[0].imu).mean(0)).float())
    before = correct(model, tracks[0].imu)
    assert before[:, :3].std(0).max() > 1e-4
    assert shrink_corrections(model, tracks[:1], tracks[1:]) == (0.0, 0.0)
    after = correct(model, tracks[0].imu)
    np.testing.assert_allclose(after, np.broadcast_to(before.mean(0), after.shape), atol=1e-6)


@pytest.mark.slow
def test_a_training_step_integrates_three_times_as_fast_as_pypose():
    pytest.importorskip("pypose")
    assert bench_training_step(repeats=5).ratio > 3.0
