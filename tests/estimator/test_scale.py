"""A scale that all visual steps share."""

from dataclasses import replace

import numpy as np
import pytest

from helpers import exact_window, scaled, simulated_window
from maci2.consistency import initialize
from maci2.errors import MeasurementError


def test_a_wrong_scale_is_found_and_the_state_is_right():
    window = exact_window("drone", "midpoint", seed=3)
    # Steps known to 0.1 mm: nothing counts as an outlier, and the prior hardly pulls.
    vision = replace(
        scaled(window.vision, 1.0 / 1.01),
        covs_T_ck_ck1=1e4 * window.vision.covs_T_ck_ck1,
        std_scale=0.4,
    )
    result = initialize(window.imu, vision, window.truth.T_b_c)
    assert result.report.scale == pytest.approx(1.01, abs=1e-5)
    # A scale known to 1e-5, at 1.6 m/s.
    np.testing.assert_allclose(result.state.velocity_b, window.truth.velocity_b, atol=3e-5)


def test_a_scale_taken_as_exact_is_left_alone():
    window = simulated_window("drone", 7)
    result = initialize(window.imu, window.vision, window.truth.T_b_c)
    assert (result.report.scale, result.report.std_scale) == (None, None)


def test_doubt_about_the_scale_widens_velocity_along_the_motion():
    window = simulated_window("car", 8)
    exact = initialize(window.imu, window.vision, window.truth.T_b_c)
    doubted = initialize(window.imu, replace(window.vision, std_scale=0.04), window.truth.T_b_c)
    along = exact.state.velocity_b[4] / np.linalg.norm(exact.state.velocity_b[4])
    before = along @ exact.posterior.velocity_b[4] @ along
    after = along @ doubted.posterior.velocity_b[4] @ along
    speed = np.linalg.norm(exact.state.velocity_b[4])
    expected = before + (doubted.report.std_scale * speed) ** 2
    assert after == pytest.approx(expected, rel=0.1)
    assert 0.0 < doubted.report.std_scale <= 0.04


def test_the_parabola_over_scales_agrees_with_the_cost_at_other_scales():
    # An oracle that knows nothing of slopes: the least cost over a fine grid.
    window = simulated_window("handheld", 9)
    std = 0.03
    result = initialize(window.imu, replace(window.vision, std_scale=std), window.truth.T_b_c)
    grid = np.linspace(0.9, 1.1, 81)
    costs = []
    for scale in grid:
        at = initialize(window.imu, scaled(window.vision, scale), window.truth.T_b_c)
        costs.append(at.report.cost + ((scale - 1.0) / std) ** 2)
    best = int(np.argmin(costs))
    assert abs(result.report.scale - grid[best]) <= grid[1] - grid[0]
    assert result.report.cost == pytest.approx(costs[best], rel=1e-2)


@pytest.mark.parametrize("std_scale", [-0.01, 0.6, float("nan")])
def test_a_doubt_without_meaning_is_refused(std_scale):
    with pytest.raises(MeasurementError, match=r"std_scale is (-0.01|0.6|nan), needed"):
        replace(simulated_window("drone", 7).vision, std_scale=std_scale)
