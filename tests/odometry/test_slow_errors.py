"""Errors of visual orientation that last for seconds: followed, found, covered."""

import numpy as np
import pytest

from maci2.estimator.visual_noise import ERROR, TIME_CONSTANT_S, drift_step
from maci2.geometry import so3_log
from maci2.geometry.gaussian import nees
from maci2.metrics.track_errors import track_errors
from maci2.odometry import SmootherConfig, track
from maci2.odometry.track import Tracker
from tracking_cases import GOOD_NOISE, simulated_ride, wobbling


def tracked(ride, **choices):
    config = SmootherConfig(**choices)
    found = track(ride.imu, ride.vision, ride.T_b_c, ride.walks, ride.vision.stamps_ns, config)
    gyro = np.array([state.gyro_bias for state in found.states])
    return found, track_errors(found.states, gyro, ride.truth, found.origins)


@pytest.fixture(scope="module")
def ride():
    return simulated_ride(31, duration_s=40.0, noise=GOOD_NOISE)


def test_a_consistent_estimate_keeps_its_covariance(ride):
    found = tracked(ride)[0]
    assert found.slow_error_deg < 0.03
    assert found.slow_spread.max() < 1.2


def test_a_slow_error_is_found_and_widens_vertical_and_gyroscope_bias(ride):
    wrong = wobbling(ride, 0.2, seed=1)
    found, errors = tracked(wrong)
    _, unwidened = tracked(wrong, adapt_visual_noise=False)
    assert 0.1 < found.slow_error_deg < 0.4
    for part in ("gravity", "gyro_bias"):
        assert errors.nees[part] < 0.5 * unwidened.nees[part]
        assert errors.nees[part] < 2.5


def last_state(ride):
    """Orientation, biases and joint covariance of slow errors at the end of a ride, with the
    stated noise."""
    tracker = Tracker(ride.T_b_c, ride.walks, SmootherConfig(adapt_visual_noise=False))
    for k in range(1, len(ride.vision)):
        tracker.advance(ride.imu, ride.vision, k, "")
    assert tracker.smoother is not None
    state, _ = tracker.smoother.latest
    biases = np.concatenate([state.bias_gyro[0], state.bias_acc[0]])
    return state.Ts_w_b[0, :3, :3], biases, tracker.smoother._drift._joint[ERROR, ERROR]


def test_what_a_slow_error_does_to_the_estimate_has_the_covariance_that_is_followed():
    std_deg, squares = 0.01, []
    for seed in range(10):
        ride = simulated_ride(40 + seed, duration_s=8.0, noise=GOOD_NOISE)
        R_w_b, biases, _ = last_state(ride)
        R_w_moved, moved, unit = last_state(wobbling(ride, std_deg, seed))
        cov = np.deg2rad(std_deg) ** 2 * unit
        parts = (
            (so3_log(R_w_b.T @ R_w_moved), cov[0:3, 0:3]),
            ((moved - biases)[:3], cov[9:12, 9:12]),
            ((moved - biases)[3:], cov[12:15, 12:15]),
        )
        squares.append([float(nees(apart, part)) / 3.0 for apart, part in parts])
    # Thirty squares of standard normal numbers each: standard deviation of their mean 0.26.
    mean = np.mean(squares, axis=0)
    assert ((mean > 0.4) & (mean < 1.8)).all(), mean


def test_the_process_is_stationary_and_two_steps_are_one():
    stationary = np.diag([1.0] * 3 + [TIME_CONSTANT_S**-2] * 3)
    once, noise = drift_step(0.4)
    half, half_noise = drift_step(0.2)
    np.testing.assert_allclose(once @ stationary @ once.T + noise, stationary, atol=1e-15)
    np.testing.assert_allclose(half @ half, once, atol=1e-15)
    np.testing.assert_allclose(half @ half_noise @ half.T + half_noise, noise, atol=1e-15)
