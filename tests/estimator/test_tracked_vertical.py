"""The vertical that earlier samples measure: its effect on a window, and its test."""

from dataclasses import replace

import numpy as np
import pytest

from helpers import chi_square_band, nees_per_dof, simulated_window
from maci2.consistency import initialize
from maci2.estimator import SolverConfig
from maci2.geometry import so3_exp
from maci2.imu import TrackedVertical
from maci2_lab.evaluation.imu_gains import imu_gains

STD_TILT = np.radians(0.3)


def with_vertical(window, tilt_w, std=STD_TILT):
    """The window's samples with a vertical at their first keyframe that is `tilt_w` (2,) off."""
    start = np.searchsorted(window.imu.stamps_ns, window.vision.stamps_ns[0], side="right") - 1
    n = len(window.imu.stamps_ns)
    g_b0 = window.truth.T_b_c[:3, :3] @ window.truth.gravity_c0
    up = -g_b0 / np.linalg.norm(g_b0)
    aside = np.cross(up, np.eye(3)[np.argmin(np.abs(up))])
    aside /= np.linalg.norm(aside)
    R_w_b = np.stack([aside, np.cross(up, aside), up])
    R_w_b = so3_exp(np.array([*tilt_w, 0.0])) @ R_w_b
    dt = (window.vision.stamps_ns[0] - window.imu.stamps_ns[start]) / 1e9
    Rs = np.tile(R_w_b @ so3_exp(-window.imu.gyro[start] * dt), (n, 1, 1))
    vertical = TrackedVertical(
        Rs,
        np.zeros(n, np.int64),
        np.zeros((1, 6)),
        np.zeros((1, 2, 6)),
        std**2 * np.eye(2)[None],
        0.0,
    )
    return replace(window.imu, vertical=vertical)


@pytest.mark.slow
def test_gravity_with_a_vertical_is_consistent_and_better():
    scores, errors = [], []
    for seed in range(60):
        window = simulated_window("drone", seed)
        tilt_w = STD_TILT * np.random.default_rng(1000 + seed).standard_normal(2)
        imu, pair = with_vertical(window, tilt_w), []
        for used in (True, False):
            config = SolverConfig(tracked_vertical=used)
            result = initialize(imu, window.vision, window.truth.T_b_c, config)
            pair.append(np.linalg.norm(result.state.gravity_c0 - window.truth.gravity_c0))
            if used:
                scores.append(nees_per_dof(result, window.truth))
        errors.append(pair)
    low, high = chi_square_band(2, 60)
    assert low < 2.0 * np.mean([score["gravity"] for score in scores]) < high
    with_it, without = np.mean(np.square(errors), axis=0)
    assert with_it < 0.8 * without


def test_a_vertical_that_contradicts_the_window_is_not_used():
    window = simulated_window("drone", 5)
    args = window.vision, window.truth.T_b_c
    alone = initialize(window.imu, *args)
    wrong = initialize(with_vertical(window, np.radians([4.0, 0.0])), *args)
    assert alone.verdict.status == "ok"
    assert wrong.verdict.status == "weak"
    assert "contradicts the vertical that the IMU's samples before" in wrong.verdict.reasons[0]
    np.testing.assert_allclose(wrong.state.gravity_c0, alone.state.gravity_c0, atol=1e-9)
    assert wrong.report.inflation == alone.report.inflation == 1.0
    sound = initialize(with_vertical(window, np.zeros(2)), *args)
    assert (sound.verdict.status, sound.report.vertical_rejected) == ("ok", False)


def test_the_distance_of_a_vertical_is_that_from_the_window_alone():
    window = simulated_window("drone", 6)
    args = window.vision, window.truth.T_b_c, SolverConfig(robust=False)
    alone = initialize(window.imu, *args)
    g = alone.state.gravity_c0
    tilt = np.radians([1.0, 0.0])
    imu = with_vertical(window, tilt)
    down_b = imu.vertical_at(int(window.vision.stamps_ns[0])).down_b
    away = np.cross(window.truth.T_b_c[:3, :3] @ g / 9.81, down_b)
    R_b_c = window.truth.T_b_c[:3, :3]
    g_b = R_b_c @ g / 9.81
    cov_down = R_b_c @ alone.posterior.gravity_c0 @ R_b_c.T / 9.81**2
    turn = np.cross(np.eye(3), g_b)
    cov = turn @ cov_down @ turn.T + STD_TILT**2 * (np.eye(3) - np.outer(g_b, g_b))
    expected = away @ np.linalg.pinv(cov, rcond=1e-6) @ away
    found = initialize(imu, *args).report.vertical_chi2
    assert found == pytest.approx(expected, rel=0.02)


def test_gains_count_the_vertical():
    window = simulated_window("drone", 7)
    config = SolverConfig(robust=False)
    gains = []
    for imu in (window.imu, with_vertical(window, np.zeros(2), np.radians(0.05))):
        result = initialize(imu, window.vision, window.truth.T_b_c, config)
        gains.append(imu_gains(imu, window.vision, result, config).gravity_c0)
    # What is known otherwise follows the window's samples less.
    assert np.linalg.norm(gains[1]) < 0.5 * np.linalg.norm(gains[0])
