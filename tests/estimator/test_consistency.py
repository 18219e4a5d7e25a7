"""The posterior tells the truth: sampled errors against stated covariances."""

from dataclasses import replace

import numpy as np
import pytest

from helpers import across, chi_square_band, nees_per_dof, pose_errors, scaled, simulated_window
from maci2.calibration import calibrate
from maci2.consistency import initialize
from maci2.geometry.gaussian import nees
from maci2.imu import BiasPrior

# 500 windows of two degrees of freedom know their mean to 0.045; 1500 to 0.026.
WINDOWS_PER_KIND = 500
CALIBRATIONS_PER_KIND = 150


def mean_scores(results):
    names = results[0].keys()
    return {name: float(np.mean([scores[name] for scores in results])) for name in names}


def assert_consistent(scores):
    out = {name: score for name, score in scores.items() if not 0.9 <= score <= 1.1}
    assert out == {}, f"NEES per degree of freedom: {scores}"


@pytest.mark.slow
def test_initialization_errors_match_their_covariance():
    results = []
    for first, kind in ((10_000, "handheld"), (20_000, "drone"), (30_000, "car")):
        for seed in range(first, first + WINDOWS_PER_KIND):
            # The gyroscope bias is arbitrary; the accelerometer's is drawn from its prior.
            window = simulated_window(kind, seed, bias_gyro_std=0.1, bias_acc_std=0.1)
            result = initialize(window.imu, window.vision, window.truth.T_b_c)
            results.append(nees_per_dof(result, window.truth))
    assert_consistent(mean_scores(results))


@pytest.mark.slow
def test_calibration_errors_match_their_covariance():
    results = []
    for first, kind in ((50_000, "handheld"), (60_000, "drone")):
        for seed in range(first, first + CALIBRATIONS_PER_KIND):
            window = simulated_window(kind, seed, steps=40, bias_gyro_std=0.1, bias_acc_std=0.1)
            results.append(nees_per_dof(calibrate(window.imu, window.vision), window.truth))
    scores = mean_scores(results)
    assert "extrinsics" in scores
    assert_consistent(scores)


@pytest.mark.slow
def test_errors_match_their_covariance_with_a_learned_models_bias_priors():
    # Workflow (a): both biases are drawn from finite priors, away from zero.
    mean_gyro, mean_acc = np.array([0.01, -0.02, 0.03]), np.array([-0.02, 0.12, 0.07])
    prior = BiasPrior(mean_gyro, np.full(3, 0.0005), mean_acc, np.full(3, 0.03))
    results = []
    for seed in range(70_000, 70_000 + WINDOWS_PER_KIND):
        window = simulated_window(
            "drone", seed, bias_prior=prior, bias_gyro=tuple(mean_gyro), bias_gyro_std=0.0005,
            bias_acc=tuple(mean_acc), bias_acc_std=0.03,
        )  # fmt: skip
        result = initialize(window.imu, window.vision, window.truth.T_b_c)
        results.append(nees_per_dof(result, window.truth))
    assert_consistent(mean_scores(results))


@pytest.mark.slow
def test_errors_match_their_covariance_where_all_steps_share_a_wrong_scale():
    rng = np.random.default_rng(5)
    results, away = [], []
    for kind, first in (("drone", 110_000), ("handheld", 120_000)):
        for seed in range(first, first + WINDOWS_PER_KIND):
            window = simulated_window(kind, seed, bias_gyro_std=0.1, bias_acc_std=0.1)
            scale = 1.0 + 0.04 * rng.standard_normal()
            vision = replace(scaled(window.vision, 1.0 / scale), std_scale=0.04)
            result = initialize(window.imu, vision, window.truth.T_b_c)
            results.append(nees_per_dof(result, window.truth))
            away.append((result.report.scale - scale) / result.report.std_scale)
    assert_consistent(mean_scores(results))
    low, high = chi_square_band(1, len(away))
    assert low < np.mean(np.square(away)) < high


@pytest.mark.slow
def test_understated_visual_noise_is_noticed_and_errors_still_fit():
    results, inflations = [], []
    for seed in range(80_000, 80_200):
        window = simulated_window("handheld", seed, noise_scale=5.0)
        result = initialize(window.imu, window.vision, window.truth.T_b_c)
        inflations.append(result.report.inflation)
        results.append(nees_per_dof(result, window.truth))
    scores = mean_scores(results)
    assert min(inflations) > 1.0
    assert scores["chi-square"] > 5.0
    # One factor for vision and IMU alike cannot be exact, but must not be overconfident: without it
    # these would be about 25.
    for name in ("gravity", "velocity", "gyro bias", "poses"):
        assert scores[name] < 1.5


FAST_WINDOWS = 200
"""Enough to know the NEES of two degrees of freedom to 0.07, a seventh of what must be seen."""


@pytest.fixture(scope="module")
def few_windows():
    """NEES and degrees of freedom of single estimates over windows that do not know each other."""
    rows = []
    for seed in range(40_000, 40_000 + FAST_WINDOWS):
        kind = ("handheld", "drone", "car")[seed % 3]
        window = simulated_window(kind, seed, bias_gyro_std=0.1, bias_acc_std=0.1)
        result = initialize(window.imu, window.vision, window.truth.T_b_c)
        rows.append(single_scores(result, window.truth))
    return {name: (np.array([row[name][0] for row in rows]), rows[0][name][1]) for name in rows[0]}


def single_scores(result, truth):
    """NEES and degrees of freedom; of velocities and poses the last keyframe's only, since those of
    one window share their errors."""
    state, posterior = result.state, result.posterior
    U = across(state.gravity_c0)
    errors = {
        "gravity": (U.T @ (truth.gravity_c0 - state.gravity_c0), U.T @ posterior.gravity_c0 @ U),
        "velocity": (truth.velocity_b[-1] - state.velocity_b[-1], posterior.velocity_b[-1]),
        "gyro bias": (truth.gyro_bias - state.gyro_bias, posterior.gyro_bias),
        "acc bias": (truth.acc_bias - state.acc_bias, posterior.acc_bias),
        "pose": (
            pose_errors(state.Ts_c0_b[-1:], truth.Ts_c0_b[-1:])[0],
            posterior.Ts_c0_b[-1],
        ),
    }
    scores = {name: (nees(error, cov), len(error)) for name, (error, cov) in errors.items()}
    return scores | {"chi-square": (result.report.cost, result.report.dof)}


def is_consistent(scores, dof):
    low, high = chi_square_band(dof, len(scores))
    return low < scores.mean() < high


@pytest.mark.parametrize(
    "name", ["gravity", "velocity", "gyro bias", "acc bias", "pose", "chi-square"]
)
def test_a_covariance_wrong_by_half_would_be_noticed_and_none_is(few_windows, name):
    scores, dof = few_windows[name]
    assert is_consistent(scores, dof), scores.mean() / dof
    assert not is_consistent(scores / 1.5, dof)
    assert not is_consistent(scores * 1.5, dof)
