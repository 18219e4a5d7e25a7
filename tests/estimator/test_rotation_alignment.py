"""Gyroscope bias and extrinsic rotation from rotations alone (Eq. 8)."""

from dataclasses import replace

import numpy as np
import pytest

from helpers import (
    REGIMES,
    chi_square_band,
    exact_window,
    numerical_jacobian,
    random_poses,
    simulated_window,
    twist,
)
from maci2.estimator.initial_guess import align_rotations, gyro_residual, rotation_from_rates
from maci2.geometry import so3_exp, so3_jr_inv, so3_log
from maci2.geometry.gaussian import nees
from maci2.imu import BiasPrior, preintegrate


def case(regime, seed=4):
    """R_ck_ck1, gamma, gamma_D_bg, R_b_c, delta_bg; the residual has the regime's angle."""
    rng = np.random.default_rng(seed)
    R_b_c, R_ck_ck1 = (T[:3, :3].copy() for T in random_poses(2, regime, seed))
    metres, angle = REGIMES[regime]
    error = so3_exp(twist(rng, metres, angle)[3:])
    gamma = R_b_c @ R_ck_ck1 @ R_b_c.T @ error
    gamma_D_bg = -0.25 * np.eye(3) + 0.02 * rng.standard_normal((3, 3))
    delta_bg = (0.05 if angle > 0.1 else angle) * rng.standard_normal(3)
    return R_ck_ck1, gamma, gamma_D_bg, R_b_c, delta_bg


@pytest.mark.parametrize("regime", REGIMES)
def test_gyro_residual_derivative_by_the_bias_equals_central_differences(regime):
    *rest, delta_bg = case(regime)
    _, r_D_bg, _ = gyro_residual(*rest, delta_bg)
    numeric = numerical_jacobian(lambda d: gyro_residual(*rest, delta_bg + d)[0], 3)
    np.testing.assert_allclose(r_D_bg, numeric, atol=1e-7)


@pytest.mark.parametrize("regime", REGIMES)
def test_gyro_residual_derivative_by_the_extrinsics_equals_central_differences(regime):
    R_ck_ck1, gamma, gamma_D_bg, R_b_c, delta_bg = case(regime)
    _, _, r_D_theta = gyro_residual(R_ck_ck1, gamma, gamma_D_bg, R_b_c, delta_bg)

    def moved(theta):
        return gyro_residual(R_ck_ck1, gamma, gamma_D_bg, so3_exp(theta) @ R_b_c, delta_bg)[0]

    np.testing.assert_allclose(r_D_theta, numerical_jacobian(moved, 3), atol=1e-7)


@pytest.mark.parametrize("regime", REGIMES)
def test_gyro_residual_is_zero_when_both_turned_alike(regime):
    R_ck_ck1, _, gamma_D_bg, R_b_c, _ = case(regime)
    gamma = R_b_c @ R_ck_ck1 @ R_b_c.T
    r, _, _ = gyro_residual(R_ck_ck1, gamma, gamma_D_bg, R_b_c, np.zeros(3))
    np.testing.assert_allclose(r, 0.0, atol=1e-15)


@pytest.mark.parametrize("regime", REGIMES)
def test_the_covariance_of_the_gyro_residual_is_that_of_sampled_noise(regime):
    R_ck_ck1, gamma, gamma_D_bg, R_b_c, _ = case(regime)
    # Unequal axes, so that a wrong frame shows.
    cov_phi, cov_gamma = np.diag([1.0, 16.0, 4.0]) * 1e-8, np.diag([9.0, 1.0, 4.0]) * 1e-8
    zero = np.zeros(3)
    r, _, _ = gyro_residual(R_ck_ck1, gamma, gamma_D_bg, R_b_c, zero)
    turned = gamma.T @ R_b_c
    transport = so3_jr_inv(r)
    cov = transport @ (turned @ cov_phi @ turned.T + cov_gamma) @ transport.T

    rng = np.random.default_rng(6)
    phi = np.sqrt(np.diag(cov_phi)) * rng.standard_normal((3000, 3))
    dphi = np.sqrt(np.diag(cov_gamma)) * rng.standard_normal((3000, 3))
    errors = [
        gyro_residual(so3_exp(a) @ R_ck_ck1, gamma @ so3_exp(b), gamma_D_bg, R_b_c, zero)[0] - r
        for a, b in zip(phi, dphi, strict=True)
    ]
    low, high = chi_square_band(3, 3000)
    assert low < nees(np.array(errors), np.broadcast_to(cov, (3000, 3, 3))).mean() < high


def prepared(window, bias_gyro=None):
    return preintegrate(window.imu, window.vision.stamps_ns, bias_gyro)


def test_rotation_from_rates_is_exact_for_steady_turns_in_spite_of_a_bias():
    rng = np.random.default_rng(3)
    R_b_c = so3_exp(np.array([0.9, -1.2, 0.7]))
    rates, bias, dt = rng.standard_normal((8, 3)), np.array([0.08, -0.08, 0.08]), 0.25
    window = exact_window("handheld", "midpoint", seed=1, steps=8)
    pre = replace(
        prepared(window),
        gamma=np.array([so3_exp(dt * (rate + bias)) for rate in rates]),
        dt=np.full(8, dt),
    )
    Ts_ck_ck1 = window.vision.Ts_ck_ck1.copy()
    Ts_ck_ck1[:, :3, :3] = [so3_exp(dt * R_b_c.T @ rate) for rate in rates]
    found = rotation_from_rates(pre, replace(window.vision, Ts_ck_ck1=Ts_ck_ck1))
    np.testing.assert_allclose(found, R_b_c, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_rotation_from_rates_is_within_degrees_on_real_motion_with_a_large_bias(seed):
    window = exact_window("handheld", "midpoint", seed, steps=40, bias_gyro=(0.08, -0.08, 0.08))
    found = rotation_from_rates(prepared(window), window.vision)
    # Mean rates of turning motion are not quite those of the other frame; alignment mends it.
    assert np.rad2deg(np.linalg.norm(so3_log(found.T @ window.truth.T_b_c[:3, :3]))) < 2.0


def test_rotation_from_rates_is_a_rotation_even_for_mirrored_rates():
    window = exact_window("planar_yaw", "midpoint", seed=1)
    found = rotation_from_rates(prepared(window), window.vision)
    np.testing.assert_allclose(found @ found.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(found) == pytest.approx(1.0)


def test_alignment_finds_bias_and_rotation_of_noiseless_data():
    window = exact_window("handheld", "midpoint", seed=6, steps=20)
    truth = window.truth
    pre = prepared(window, truth.gyro_bias + np.array([1e-3, -1e-3, 2e-3]))
    R_start = so3_exp(np.array([0.3, -0.2, 0.1])) @ truth.T_b_c[:3, :3]
    aligned = align_rotations(pre, window.vision, R_start, BiasPrior(), True)
    # Integrating anew at the bias found leaves no first-order error.
    again = align_rotations(
        prepared(window, aligned.bias_gyro), window.vision, aligned.R_b_c, BiasPrior(), True
    )
    np.testing.assert_allclose(again.bias_gyro, truth.gyro_bias, atol=1e-9)
    np.testing.assert_allclose(again.R_b_c, truth.T_b_c[:3, :3], atol=1e-8)
    np.testing.assert_allclose(again.residuals, 0.0, atol=1e-8)


def test_alignment_with_a_given_rotation_leaves_it_alone():
    window = simulated_window(seed=3)
    R_b_c = window.truth.T_b_c[:3, :3]
    aligned = align_rotations(prepared(window), window.vision, R_b_c, BiasPrior(), False)
    np.testing.assert_array_equal(aligned.R_b_c, R_b_c)
    assert not aligned.cov[3:, 3:].any()


def test_a_narrow_gyro_prior_holds_the_bias_at_its_mean():
    window = simulated_window(seed=3, bias_gyro_std=0.0)
    mean = np.array([0.02, 0.01, -0.01])
    prior = BiasPrior(mean_gyro=mean, std_gyro=np.full(3, 1e-8))
    R_b_c = window.truth.T_b_c[:3, :3]
    aligned = align_rotations(prepared(window), window.vision, R_b_c, prior, False)
    np.testing.assert_allclose(aligned.bias_gyro, mean, atol=1e-9)
    np.testing.assert_allclose(np.diag(aligned.cov)[:3], 1e-16, rtol=1e-2)


@pytest.mark.parametrize("rotation_too", [False, True])
def test_the_covariance_of_the_alignment_passes_the_nees_test(rotation_too):
    dim = 6 if rotation_too else 3
    scores, costs, count = [], [], 200
    for seed in range(count):
        window = simulated_window("handheld", seed=1000 + seed, steps=12)
        truth = window.truth
        pre = prepared(window, truth.gyro_bias + 1e-4)
        aligned = align_rotations(
            pre, window.vision, truth.T_b_c[:3, :3], BiasPrior(), rotation_too
        )
        error = np.concatenate(
            [
                truth.gyro_bias - aligned.bias_gyro,
                so3_log(truth.T_b_c[:3, :3] @ aligned.R_b_c.T),
            ]
        )[:dim]
        scores.append(nees(error, aligned.cov[:dim, :dim]))
        costs.append(aligned.cost)
    low, high = chi_square_band(dim, count)
    assert low < np.mean(scores) < high
    low, high = chi_square_band(36 - dim, count)
    assert low < np.mean(costs) < high


def test_alignment_weighs_each_step_by_the_covariance_of_its_residual():
    window = simulated_window(seed=3)
    # Unequal axes, so that a wrong frame shows.
    covs = np.tile(np.diag([1e-6] * 3 + [1e-8, 1e-6, 1e-5]), (9, 1, 1))
    vision, prior = replace(window.vision, covs_T_ck_ck1=covs), BiasPrior()
    R_b_c = window.truth.T_b_c[:3, :3]
    pre = prepared(window, window.truth.gyro_bias)
    aligned = align_rotations(pre, vision, R_b_c, prior, False)
    cost, information = 0.0, np.zeros((3, 3))
    for k in range(9):
        turned = pre.gamma[k].T @ R_b_c
        cov = turned @ covs[k, 3:, 3:] @ turned.T + pre.cov[k, :3, :3]
        r, r_D_bg, _ = gyro_residual(
            vision.Ts_ck_ck1[k, :3, :3].copy(), pre.gamma[k], pre.D_bg[k, :3].copy(), R_b_c.copy(),
            aligned.bias_gyro - pre.bias_gyro,
        )  # fmt: skip
        cost += r @ np.linalg.solve(cov, r)
        information += r_D_bg.T @ np.linalg.solve(cov, r_D_bg)
    assert aligned.cost == pytest.approx(cost, rel=1e-9)
    np.testing.assert_allclose(aligned.cov[:3, :3], np.linalg.inv(information), rtol=1e-6)
