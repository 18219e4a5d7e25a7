"""Calibration trials, and VINS-Mono's rotation calibration."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from helpers import exact_window, simulated_window
from maci2.datasets import write_euroc
from maci2.geometry.se3 import rotation_angle_deg
from maci2.imu import preintegrate
from maci2.simulation import SimulationConfig, simulate
from maci2_lab.baselines.vins import (
    left_product,
    quaternion,
    right_product,
    rotation,
    vins_rotation,
)
from maci2_lab.experiments.calibration import (
    CalibrationMethod,
    calibration_findings,
    calibration_task,
)


def wxyz(rotation):
    return np.roll(rotation.as_quat(), 1)


def test_quaternion_products_agree_with_scipy():
    a, b = Rotation.random(2, random_state=4)
    product = wxyz(a * b)
    for found in (left_product(wxyz(a)) @ wxyz(b), right_product(wxyz(b)) @ wxyz(a)):
        assert min(np.abs(found - product).max(), np.abs(found + product).max()) < 1e-14
    np.testing.assert_allclose(rotation(quaternion(a.as_matrix())), a.as_matrix(), atol=1e-14)


def test_vins_finds_the_rotation_where_there_is_no_noise_and_no_bias():
    window = exact_window("handheld", "midpoint", seed=2, steps=20, bias_gyro=(0.0, 0.0, 0.0))
    pre = preintegrate(window.imu, window.vision.stamps_ns, rule="midpoint")
    R_b_c, reason = vins_rotation(pre, window.vision)
    assert reason == ""
    assert rotation_angle_deg(R_b_c, window.truth.T_b_c[:3, :3]) < 1e-6


def test_vins_asks_for_more_rotation():
    window = simulated_window("car", 3, steps=20)
    pre = preintegrate(window.imu, window.vision.stamps_ns)
    _, reason = vins_rotation(pre, window.vision)
    assert "second smallest singular value" in reason
    short = simulated_window("handheld", 3, steps=6)
    pre = preintegrate(short.imu, short.vision.stamps_ns)
    assert vins_rotation(pre, short.vision)[1] == "6 steps, needed 10"


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calib") / "room1"
    write_euroc(simulate(SimulationConfig(duration_s=40.0, seed=6)), folder)
    return folder


def test_ten_trials_are_spread_over_the_recording_and_agree_with_its_calibration(recording):
    task = calibration_task("room1", recording, CalibrationMethod("maci2, raw IMU", "maci2"), 0)
    rows = task.run().rows
    assert len(rows) == 10
    starts = [row["start_s"] for row in rows]
    assert starts[0] == 0.0
    assert 8.0 < starts[-1] < 10.0
    assert all(row["accepted"] for row in rows)
    assert max(row["rotation_deg"] for row in rows) < 0.1
    assert max(row["translation_m"] for row in rows) < 0.01
    findings = calibration_findings([{"task": task.options, "rows": rows}])
    line = findings.tables[0].lines[0]
    assert line.cells[0].value == 10
    assert line.cells[2].value == pytest.approx(np.mean([row["rotation_deg"] for row in rows]))


def test_a_recording_too_short_for_a_trial_says_so(tmp_path):
    write_euroc(simulate(SimulationConfig(duration_s=8.0, seed=6)), tmp_path / "room1")
    task = calibration_task("room1", tmp_path / "room1", CalibrationMethod("maci2", "maci2"), 0)
    [row] = task.run().rows
    assert not row["accepted"]
    assert "no window of 30 s" in row["reason"]
