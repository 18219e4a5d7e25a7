"""A noiseless truth comes back to 1e-8; a general solver finds the same optimum and covariance."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import least_squares

from helpers import (
    across,
    exact_window,
    numerical_jacobian,
    pose_errors,
    simulated_window,
)
from maci2.calibration_prior import UNKNOWN
from maci2.consistency import calibrate, initialize
from maci2.estimator import SolverConfig, VIState
from maci2.geometry import se3_exp, se3_inv, se3_log, so3_exp, so3_log
from maci2.geometry.gaussian import square_root_information
from maci2.imu import BiasPrior, preintegrate

RULES = ["euler", "midpoint"]
KINDS = ["handheld", "drone", "car"]


def assert_recovered(state, truth):
    np.testing.assert_allclose(state.gravity_c0, truth.gravity_c0, rtol=0, atol=1e-8)
    np.testing.assert_allclose(state.velocity_b, truth.velocity_b, rtol=0, atol=1e-8)
    np.testing.assert_allclose(state.gyro_bias, truth.gyro_bias, rtol=0, atol=1e-8)
    np.testing.assert_allclose(state.acc_bias, truth.acc_bias, rtol=0, atol=1e-8)
    np.testing.assert_allclose(state.Ts_c0_b, truth.Ts_c0_b, rtol=0, atol=1e-8)
    np.testing.assert_allclose(state.T_b_c, truth.T_b_c, rtol=0, atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("sphere", [True, False])
def test_initialization_recovers_a_noiseless_truth(kind, rule, sphere):
    window = exact_window(kind, rule, seed=1)
    config = SolverConfig(rule=rule, gravity_on_sphere=sphere)
    result = initialize(window.imu, window.vision, window.truth.T_b_c, config)
    assert result.verdict.status == "ok"
    assert result.verdict.reasons == ()
    assert_recovered(result.state, window.truth)


@pytest.mark.parametrize("kind", KINDS)
def test_calibration_recovers_noiseless_extrinsics_without_a_guess(kind):
    window = exact_window(kind, "midpoint", seed=1, steps=40)
    result = calibrate(window.imu, window.vision)
    assert result.verdict.status == "ok"
    assert_recovered(result.state, window.truth)


def with_camera(window, T_b_c):
    """The same motion seen by a camera that sits elsewhere."""
    truth = window.truth
    T_c_new = se3_inv(T_b_c) @ truth.T_b_c
    Ts_ck_ck1 = np.array([T_c_new @ T @ se3_inv(T_c_new) for T in window.vision.Ts_ck_ck1])
    return replace(
        window,
        vision=replace(window.vision, Ts_ck_ck1=Ts_ck_ck1),
        truth=replace(
            truth,
            T_b_c=T_b_c,
            Ts_c0_b=T_c_new @ truth.Ts_c0_b,
            gravity_c0=T_c_new[:3, :3] @ truth.gravity_c0,
        ),
    )


@pytest.mark.parametrize("seed", range(6))
def test_calibration_needs_no_guess_however_the_camera_is_mounted(seed):
    rng = np.random.default_rng(seed)
    phi = rng.standard_normal(3)
    phi *= rng.uniform(0.5, np.pi) / np.linalg.norm(phi)
    T_b_c = se3_exp(np.concatenate([0.3 * rng.standard_normal(3), phi]))
    window = with_camera(exact_window("handheld", "midpoint", seed, steps=40), T_b_c)
    assert_recovered(calibrate(window.imu, window.vision).state, window.truth)


@pytest.mark.parametrize("size", [0.01, 0.1, 0.3])
def test_a_gyro_bias_of_any_size_is_recovered(size):
    bias = (size, -size, 0.5 * size)
    window = exact_window("handheld", "midpoint", seed=2, bias_gyro=bias)
    result = initialize(window.imu, window.vision, window.truth.T_b_c)
    assert_recovered(result.state, window.truth)


def test_gravity_of_another_norm_is_kept_on_the_sphere_and_found_without_it():
    window = exact_window("handheld", "midpoint", seed=3)
    vision, T_b_c = window.vision, window.truth.T_b_c
    held = initialize(window.imu, vision, T_b_c, SolverConfig(gravity_norm=9.8))
    assert np.linalg.norm(held.state.gravity_c0) == pytest.approx(9.8, abs=1e-12)
    free = initialize(
        window.imu, vision, T_b_c, SolverConfig(gravity_norm=9.8, gravity_on_sphere=False)
    )
    assert np.linalg.norm(free.state.gravity_c0) == pytest.approx(9.81, abs=1e-8)


def test_the_first_camera_is_the_origin_in_both_answers():
    window = simulated_window(seed=2, steps=12)
    for result in (
        initialize(window.imu, window.vision, window.truth.T_b_c),
        calibrate(window.imu, window.vision),
    ):
        first = result.state.Ts_c0_b[0] @ result.state.T_b_c
        np.testing.assert_allclose(first, np.eye(4), atol=1e-14)


def test_a_narrow_gyro_prior_sharpens_the_gyro_bias():
    # Workflow (a): corrected samples, and a prior of what bias is left.
    raw = simulated_window(seed=5, bias_gyro_std=0.001)
    std = np.full(3, 0.001)
    corrected = replace(raw, imu=replace(raw.imu, bias_prior=BiasPrior(std_gyro=std)))
    broad, narrow = (
        initialize(window.imu, window.vision, window.truth.T_b_c) for window in (raw, corrected)
    )
    without, within = (np.sqrt(np.diag(r.posterior.gyro_bias)) for r in (broad, narrow))
    # Informations add up on each axis, up to correlation between axes.
    np.testing.assert_allclose(within, (without**-2 + std**-2) ** -0.5, rtol=0.02)
    # Three priors more are three degrees of freedom more.
    assert narrow.report.dof == broad.report.dof + 3


def test_biases_that_are_not_estimated_stay_at_their_prior_mean():
    mean_gyro, mean_acc = np.array([0.01, 0.02, 0.03]), np.array([0.1, -0.1, 0.05])
    prior = BiasPrior(mean_gyro=mean_gyro, mean_acc=mean_acc)
    window = simulated_window(
        seed=6, bias_prior=prior, bias_gyro=tuple(mean_gyro), bias_gyro_std=0.0,
        bias_acc=tuple(mean_acc), bias_acc_std=0.0,
    )  # fmt: skip
    config = SolverConfig(estimate_gyro_bias=False, estimate_acc_bias=False)
    result = initialize(window.imu, window.vision, window.truth.T_b_c, config)
    np.testing.assert_array_equal(result.state.gyro_bias, mean_gyro)
    np.testing.assert_array_equal(result.state.acc_bias, mean_acc)
    assert not result.posterior.gyro_bias.any()
    assert not result.posterior.acc_bias.any()
    assert result.verdict.status == "ok"


class Reference:
    """The whitened residuals of Eq. 9 written out anew, by unknowns near a given state."""

    def __init__(self, window, state, extrinsics, config):
        self.window, self.at, self.extrinsics = window, state, extrinsics
        self.n = len(state.stamps_ns)
        imu, vision = window.imu, window.vision
        self.pre = preintegrate(imu, vision.stamps_ns, state.gyro_bias, state.acc_bias, config.rule)
        self.W_visual = square_root_information(vision.covs_T_ck_ck1)
        signs = np.diag([1.0] * 3 + [-1.0] * 6)
        self.W_imu = square_root_information(signs @ self.pre.cov @ signs)
        g = state.gravity_c0
        self.G = np.linalg.norm(g) * across(g) if config.gravity_on_sphere else np.eye(3)
        self.sphere = config.gravity_on_sphere
        self.size = 9 * self.n - 6 + self.G.shape[1] + 6 + 6 * extrinsics

    def slices(self):
        """Where each unknown stands: poses from the second on, velocities, shared ones."""
        n, g = self.n, self.G.shape[1]
        ends = np.cumsum([0, 6 * (n - 1), 3 * n, g, 3, 3, 6 * self.extrinsics])
        return [slice(a, b) for a, b in pairwise(ends)]

    def state(self, d):
        poses, velocities, gravity, bg, ba, xi_bc = (d[part] for part in self.slices())
        at = self.at
        T_b_c = se3_exp(xi_bc) @ at.T_b_c if self.extrinsics else at.T_b_c
        moved = zip(poses.reshape(-1, 6), at.Ts_c0_b[1:], strict=True)
        g_c0 = at.gravity_c0 + self.G @ gravity
        if self.sphere:
            g_c0 *= np.linalg.norm(at.gravity_c0) / np.linalg.norm(g_c0)
        return VIState(
            stamps_ns=at.stamps_ns,
            Ts_c0_b=np.array([se3_inv(T_b_c), *(se3_exp(xi) @ T for xi, T in moved)]),
            velocity_b=at.velocity_b + velocities.reshape(-1, 3),
            gravity_c0=g_c0,
            gyro_bias=at.gyro_bias + bg,
            acc_bias=at.acc_bias + ba,
            T_b_c=T_b_c,
        )

    def residuals(self, d):
        x, prior = self.state(d), self.window.imu.bias_prior
        rows = [(x.acc_bias - prior.mean_acc) / prior.std_acc]
        if self.extrinsics:
            rows.append(x.T_b_c[:3, 3] / UNKNOWN.lever_m)
        for k in range(self.n - 1):
            rows.append(self.W_visual[k] @ self.visual(x, k))
            rows.append(self.W_imu[k] @ self.inertial(x, k))
        return np.concatenate(rows)

    def visual(self, x, k):
        measured = self.window.vision.Ts_ck_ck1[k]
        T_ck1_ck = se3_inv(x.Ts_c0_b[k + 1] @ x.T_b_c) @ x.Ts_c0_b[k] @ x.T_b_c
        return se3_log(measured @ T_ck1_ck)

    def inertial(self, x, k):
        pre, dt, g = self.pre, self.pre.dt[k], x.gravity_c0
        R, R1 = x.Ts_c0_b[k, :3, :3], x.Ts_c0_b[k + 1, :3, :3]
        step = x.Ts_c0_b[k + 1, :3, 3] - x.Ts_c0_b[k, :3, 3]
        v, v1 = x.velocity_b[k], x.velocity_b[k + 1]
        moved = pre.D_bg[k] @ (x.gyro_bias - pre.bias_gyro)
        moved = moved + pre.D_ba[k] @ (x.acc_bias - pre.bias_acc)
        return np.concatenate(
            [
                so3_log(R1.T @ R @ pre.gamma[k] @ so3_exp(moved[:3])),
                R.T @ (R1 @ v1 - g * dt) - v - (pre.beta[k] + moved[3:6]),
                R.T @ (step - 0.5 * g * dt**2) - v * dt - (pre.alpha[k] + moved[6:]),
            ]
        )


def assert_same_optimum(reference, report, atol=1e-6, rtol=1e-8):
    # Away from our answer by a few of its standard deviations, in every unknown.
    start = 0.01 * np.random.default_rng(8).standard_normal(reference.size)
    found = least_squares(
        reference.residuals, start, x_scale="jac", xtol=1e-15, ftol=1e-15, gtol=1e-12
    )
    assert np.abs(start).max() > 0.02
    np.testing.assert_allclose(found.x, 0.0, atol=atol)
    assert 2.0 * found.cost == pytest.approx(report.cost, rel=rtol)


def assert_same_covariance(reference, posterior, share=1e-5):
    J = numerical_jacobian(reference.residuals, reference.size)
    cov = np.linalg.inv(J.T @ J)
    poses, velocities, gravity, bg, ba, xi_bc = reference.slices()

    def assert_block(ours, theirs):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=share * np.abs(theirs).max())

    for k in range(reference.n):
        own = slice(velocities.start + 3 * k, velocities.start + 3 * k + 3)
        assert_block(posterior.velocity_b[k], cov[own, own])
        if k > 0:
            own = slice(poses.start + 6 * (k - 1), poses.start + 6 * k)
            assert_block(posterior.Ts_c0_b[k], cov[own, own])
    assert_block(posterior.gravity_c0, reference.G @ cov[gravity, gravity] @ reference.G.T)
    assert_block(posterior.gyro_bias, cov[bg, bg])
    assert_block(posterior.acc_bias, cov[ba, ba])
    if reference.extrinsics:
        assert_block(posterior.T_b_c, cov[xi_bc, xi_bc])


@pytest.mark.parametrize("sphere", [True, False])
def test_a_general_solver_finds_the_same_initialization_and_covariance(sphere):
    config = SolverConfig(gravity_on_sphere=sphere)
    window = simulated_window("handheld", seed=7, steps=5)
    result = initialize(window.imu, window.vision, window.truth.T_b_c, config)
    assert result.report.inflation == 1.0
    reference = Reference(window, result.state, False, config)
    # The reference integrates the samples at the bias found, the solver near it: RELINEARIZE_ABOVE.
    assert_same_optimum(reference, result.report, atol=5e-6, rtol=1e-6)
    assert_same_covariance(reference, result.posterior, share=1e-4)


def test_a_general_solver_finds_the_same_calibration_and_covariance():
    config = SolverConfig()
    window = simulated_window("handheld", seed=8, steps=7)
    result = calibrate(window.imu, window.vision, config)
    assert result.report.inflation == 1.0
    reference = Reference(window, result.state, True, config)
    # The reference's biases stay; those of a calibration may wander, here by next to nothing.
    assert_same_optimum(reference, result.report, atol=2e-5, rtol=1e-5)
    assert_same_covariance(reference, result.posterior, share=1e-3)

    # The first body moves with the extrinsics: the first camera is the origin.
    def first(xi):
        moved = se3_inv(se3_exp(xi) @ result.state.T_b_c)
        return pose_errors(result.state.Ts_c0_b[:1], moved[None])[0]

    J = numerical_jacobian(first, 6)
    np.testing.assert_allclose(
        result.posterior.Ts_c0_b[0], J @ result.posterior.T_b_c @ J.T, rtol=0, atol=1e-12
    )


def test_weighing_only_the_marginals_gives_another_answer():
    window = simulated_window("handheld", seed=7)
    full, marginal = (
        initialize(window.imu, window.vision, window.truth.T_b_c, SolverConfig(imu_cross_terms=on))
        for on in (True, False)
    )
    assert np.abs(full.state.velocity_b - marginal.state.velocity_b).max() > 1e-5
    assert marginal.verdict.status == "ok"
