"""How far the truth's body is turned against the IMU, found from rotations."""

from dataclasses import replace

import numpy as np

from maci2.ground_truth.states import truth_states
from maci2.imu import datasheet_model
from maci2.learn.imu.recording_constants import align
from maci2.learn.imu.truth_frame import STD_TURN, imu_in_truth_body, turned
from maci2.simulation import SimulationConfig, simulate

TURN = np.array([0.004, -0.002, 0.003])


def flight(duration_s=60.0):
    """Samples of a simulated flight and truth states of the IMU itself."""
    recording = simulate(
        SimulationConfig(
            kind="drone", duration_s=duration_s, seed=3, bias_gyro_std=2e-3, bias_acc_std=0.03
        )
    )
    imu = datasheet_model(recording.imu, recording.rig.imu)
    return imu, truth_states(recording.imu, recording.truth(), recording.name)


def test_an_injected_turn_is_found():
    imu, states = flight()
    found = imu_in_truth_body(imu, turned(states, -TURN))
    np.testing.assert_allclose(found, TURN, atol=5e-4)


def test_a_truth_that_is_not_turned_stays():
    imu, states = flight()
    np.testing.assert_allclose(imu_in_truth_body(imu, states), 0.0, atol=5e-4)


def test_a_turned_truth_looks_like_an_accelerometer_bias_until_it_is_turned_back():
    imu, states = flight()
    right = align(imu, states).bias[3:]
    wrong_states = turned(states, -TURN)
    wrong = align(imu, wrong_states).bias[3:]
    mended = align(imu, turned(wrong_states, imu_in_truth_body(imu, wrong_states))).bias[3:]
    assert np.abs(wrong - right).max() > 0.02
    np.testing.assert_allclose(mended, right, atol=6e-3)


def test_a_recording_of_seconds_is_left_as_it_is():
    imu, states = flight(duration_s=6.0)
    assert not imu_in_truth_body(imu, turned(states, -TURN)).any()


def test_at_rest_nothing_is_turned():
    imu, states = flight()
    resting = replace(imu, gyro=1e-3 * np.random.default_rng(0).standard_normal(imu.gyro.shape))
    still = replace(states, Rs_w_b=np.broadcast_to(np.eye(3), states.Rs_w_b.shape))
    assert np.linalg.norm(imu_in_truth_body(resting, still)) < 0.3 * STD_TURN
