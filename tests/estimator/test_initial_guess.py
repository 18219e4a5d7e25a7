"""Start values: exact where the data are."""

from dataclasses import replace

import numpy as np
import pytest

from helpers import exact_window
from maci2.estimator.initial_guess import chained_poses, lever_arm, start_values
from maci2.imu import BiasPrior, preintegrate

KINDS = ["handheld", "drone", "car"]
RULES = ["euler", "midpoint"]


def prepared(window, rule):
    truth = window.truth
    return preintegrate(window.imu, truth.stamps_ns, truth.gyro_bias, truth.acc_bias, rule)


def test_chained_steps_give_poses_in_the_first_camera():
    window = exact_window("handheld", "midpoint", seed=1)
    np.testing.assert_allclose(
        chained_poses(window.vision.Ts_ck_ck1),
        window.truth.Ts_c0_b @ window.truth.T_b_c,
        atol=1e-13,
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", RULES)
def test_start_values_of_noiseless_data_are_the_truth(kind, rule):
    window = exact_window(kind, rule, seed=2)
    truth = window.truth
    Ts_c0_b, v_b, g_c0 = start_values(prepared(window, rule), window.vision, truth.T_b_c, 9.81)
    np.testing.assert_allclose(Ts_c0_b, truth.Ts_c0_b, atol=1e-11)
    np.testing.assert_allclose(v_b, truth.velocity_b, atol=1e-9)
    np.testing.assert_allclose(g_c0, truth.gravity_c0, atol=1e-9)


def test_gravity_of_the_start_has_the_norm_that_was_asked_for():
    window = exact_window("handheld", "midpoint", seed=2)
    _, _, g_c0 = start_values(prepared(window, "midpoint"), window.vision, window.truth.T_b_c, 9.78)
    assert np.linalg.norm(g_c0) == pytest.approx(9.78, abs=1e-12)


@pytest.mark.parametrize("kind", ["handheld", "drone"])
@pytest.mark.parametrize("rule", RULES)
def test_the_lever_arm_of_noiseless_data_is_the_truth(kind, rule):
    window = exact_window(kind, rule, seed=3, steps=40)
    truth = window.truth
    prior = BiasPrior(mean_acc=truth.acc_bias)
    # The bias is off the samples already, so what is left of it is zero.
    pre = prepared(window, rule)
    found = lever_arm(pre, window.vision, truth.T_b_c[:3, :3], replace(prior, mean_acc=np.zeros(3)))
    np.testing.assert_allclose(found, truth.T_b_c[:3, 3], atol=1e-7)


def test_the_lever_arm_stays_within_its_prior_where_nothing_turns():
    window = exact_window("straight", "midpoint", seed=3, steps=20)
    found = lever_arm(
        prepared(window, "midpoint"), window.vision, window.truth.T_b_c[:3, :3], BiasPrior()
    )
    assert np.linalg.norm(found) < 1.0
