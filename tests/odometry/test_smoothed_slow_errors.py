"""Covariance that slow errors of vision add to a smoothed chain, against sampled ones."""

import numpy as np
import pytest

from maci2.estimator.solver import covariance
from maci2.estimator.visual_noise import TIME_CONSTANT_S
from maci2.geometry.gaussian import nees
from maci2.geometry.se3 import so3_log_stack
from maci2.odometry.batch import drift_paths, smoothed_drift_covariance
from tracking_cases import GOOD_NOISE, chain_of, first_guess, simulated_ride, wobbling


def test_paths_are_correlated_as_the_process_is():
    stamps_ns = np.array([0, 200, 1000, 4000, 4200]) * 1_000_000
    paths = drift_paths(stamps_ns, 20_000, np.random.default_rng(2))[:, 1]
    x = np.abs(stamps_ns[:, None] - stamps_ns) / 1e9 / TIME_CONSTANT_S
    np.testing.assert_allclose(paths @ paths.T / 20_000, (1.0 + x) * np.exp(-x), atol=0.04)


@pytest.mark.parametrize("at", [5, 20, -1])
def test_what_a_slow_error_does_to_the_chain_has_the_covariance_that_is_added(at):
    std_deg, squares = 0.01, []
    for seed in range(8):
        ride = simulated_ride(60 + seed, duration_s=8.0, noise=GOOD_NOISE)
        guess = first_guess(ride)
        solution, moved = chain_of(ride, guess), chain_of(wobbling(ride, std_deg, seed), guess)
        unit = smoothed_drift_covariance(solution, covariance(solution), ride.vision.stamps_ns)
        cov = np.deg2rad(std_deg) ** 2 * unit[at]
        before, after = solution.states, moved.states
        turned = np.swapaxes(before.Ts_w_b[:, :3, :3], 1, 2) @ after.Ts_w_b[:, :3, :3]
        parts = (
            (so3_log_stack(turned)[at], slice(0, 3)),
            ((after.v_w - before.v_w)[at], slice(3, 6)),
            ((after.bias_gyro - before.bias_gyro)[at], slice(9, 12)),
            ((after.bias_acc - before.bias_acc)[at], slice(12, 15)),
        )
        squares.append([float(nees(apart, cov[own, own])) / 3.0 for apart, own in parts])
    # Twenty-four squares of standard normal numbers each: standard deviation of their mean 0.29.
    mean = np.mean(squares, axis=0)
    assert ((mean > 0.35) & (mean < 2.0)).all(), mean
