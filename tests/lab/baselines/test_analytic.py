"""The analytic solution against its cost, written down before velocities are eliminated."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import least_squares, minimize
from scipy.spatial.transform import Rotation
from segment_cases import (
    G,
    exact_segment,
    noisy_segment,
    poses,
    preintegrated,
    scaled_translation,
)
from test_sphere import by_polynomial

from maci2_lab.baselines.alignment import solve_on_sphere
from maci2_lab.baselines.closed_forms import GRAVITY, analytic, linear, normal_equations


def triple_errors(segment, pre, x):
    """(m - 1, 3) velocity that the second position row wants, less the one that the first position
    row and the velocity row lead to."""
    scale, acc_bias, gravity = x[0], x[1:4], x[4:7]
    Rs, p_c, lever = poses(segment)
    p = scale * p_c - lever
    alpha, beta = pre.alpha + pre.D_ba[:, 6:9] @ acc_bias, pre.beta + pre.D_ba[:, 3:6] @ acc_bias

    def velocity(k):
        dt = pre.dt[k]
        return (p[k + 1] - p[k] - 0.5 * gravity * dt**2 - Rs[k] @ alpha[k]) / dt

    return np.array(
        [
            velocity(k + 1) - (velocity(k) + gravity * pre.dt[k] + Rs[k] @ beta[k])
            for k in range(len(pre.dt) - 1)
        ]
    )


def triple_covariances(segment, pre):
    Rs, _, _ = poses(segment)
    out = []
    for k in range(len(pre.dt) - 1):
        A, B = Rs[k] / pre.dt[k], Rs[k + 1] / pre.dt[k + 1]
        out.append(
            A @ pre.cov[k, 6:9, 6:9] @ A.T
            + B @ pre.cov[k + 1, 6:9, 6:9] @ B.T
            + Rs[k] @ pre.cov[k, 3:6, 3:6] @ Rs[k].T
        )
    return np.array(out)


def stated_cost(segment, pre, x):
    errors, covs = triple_errors(segment, pre, x), triple_covariances(segment, pre)
    return 1e5 * x[1:4] @ x[1:4] + sum(
        e @ np.linalg.solve(C, e) for e, C in zip(errors, covs, strict=True)
    )


def answer_vector(segment, state):
    _, p_c, lever = poses(segment)
    p = state.Ts_c0_b[:, :3, 3] + lever
    return np.concatenate([[(p * p_c).sum() / (p_c**2).sum()], state.acc_bias, state.gravity_c0])


@pytest.mark.parametrize("seed", range(3))
def test_the_gyro_bias_is_weighted_least_squares(seed):
    segment = noisy_segment(seed)
    # Weights that differ from axis to axis and from step to step, or none would be seen.
    rng = np.random.default_rng(seed)
    var_gyro = segment.raw.var_gyro * np.geomspace(1.0, 30.0, len(segment.raw.gyro))[:, None]
    var_gyro *= rng.uniform(0.1, 10.0, size=3)
    segment = replace(segment, raw=replace(segment.raw, var_gyro=var_gyro))
    pre = preintegrated(segment)
    Rs, _, _ = poses(segment)
    roots = np.linalg.cholesky(np.linalg.inv(pre.cov[:, :3, :3])).transpose(0, 2, 1)

    def residuals(bias):
        turned = pre.gamma @ Rotation.from_rotvec(pre.D_bg[:, :3] @ bias).as_matrix()
        errors = turned.transpose(0, 2, 1) @ Rs[:-1].transpose(0, 2, 1) @ Rs[1:]
        return (roots @ Rotation.from_matrix(errors).as_rotvec()[:, :, None]).ravel()

    found = least_squares(residuals, np.zeros(3), xtol=1e-15, ftol=1e-15, gtol=1e-15).x
    np.testing.assert_allclose(analytic(segment).state.gyro_bias, found, atol=1e-8)
    unweighted = linear(segment).state.gyro_bias
    assert np.abs(unweighted - found).max() > 1e-5


@pytest.mark.parametrize("seed", range(3))
def test_normal_equations_are_those_of_the_stated_cost(seed):
    segment = noisy_segment(seed)
    pre = preintegrated(segment)
    Rs, p_c, lever = poses(segment)
    H, b = normal_equations(pre, Rs, p_c, -lever)
    at_zero = stated_cost(segment, pre, np.zeros(7))
    rng = np.random.default_rng(seed)
    for x in rng.normal(size=(5, 7)):
        stated = stated_cost(segment, pre, x)
        assert x @ H @ x - 2.0 * b @ x + at_zero == pytest.approx(stated, rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_the_answer_is_the_minimum_on_the_sphere_that_a_search_finds(seed):
    segment = noisy_segment(seed)
    state = analytic(segment).state
    pre = preintegrated(segment, state.gyro_bias)
    x = answer_vector(segment, state)
    unit = stated_cost(segment, pre, x)
    found = minimize(
        lambda y: stated_cost(segment, pre, y) / unit,
        x + 0.01 * np.random.default_rng(seed).normal(size=7),
        constraints={"type": "eq", "fun": lambda y: (y[4:] @ y[4:]) / G**2 - 1.0},
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 300},
    )
    assert found.success
    assert np.linalg.norm(x[4:]) == pytest.approx(G, rel=1e-12)
    assert found.fun * (1.0 + 1e-7) >= 1.0
    np.testing.assert_allclose(x, found.x, atol=2e-3)


@pytest.mark.parametrize("seed", range(3))
def test_gravity_is_that_of_the_sixth_degree_polynomial(seed):
    segment = noisy_segment(seed)
    state = analytic(segment).state
    Rs, p_c, lever = poses(segment)
    H, b = normal_equations(preintegrated(segment, state.gyro_bias), Rs, p_c, -lever)
    others = H[:4, :4]
    S = H[4:, 4:] - H[4:, :4] @ np.linalg.solve(others, H[:4, 4:])
    r = b[4:] - H[4:, :4] @ np.linalg.solve(others, b[:4])
    size = np.linalg.norm(S)
    np.testing.assert_allclose(state.gravity_c0, by_polynomial(S / size, r / size, G), atol=1e-5)
    np.testing.assert_allclose(solve_on_sphere(H, b, GRAVITY, G)[GRAVITY], state.gravity_c0)


def test_velocities_fulfil_every_position_row_and_the_last_velocity_row():
    segment = noisy_segment(0)
    state = analytic(segment).state
    pre = preintegrated(segment, state.gyro_bias, np.zeros(3))
    Rs, p = state.Ts_c0_b[:, :3, :3], state.Ts_c0_b[:, :3, 3]
    v = np.einsum("kij,kj->ki", Rs, state.velocity_b)
    alpha = pre.alpha + pre.D_ba[:, 6:9] @ state.acc_bias
    for k, dt in enumerate(pre.dt):
        reached = p[k] + v[k] * dt + 0.5 * state.gravity_c0 * dt**2 + Rs[k] @ alpha[k]
        np.testing.assert_allclose(reached, p[k + 1], atol=1e-10)
    beta = pre.beta[-1] + pre.D_ba[-1, 3:6] @ state.acc_bias
    np.testing.assert_allclose(v[-1], v[-2] + state.gravity_c0 * pre.dt[-1] + Rs[-2] @ beta)


def test_it_finds_the_scale_of_a_camera_that_is_not_metric():
    segment, window = exact_segment(bias_gyro=(0.02, -0.01, 0.03))
    answer = analytic(scaled_translation(segment, 4.0))
    assert answer.accepted
    np.testing.assert_allclose(answer.state.Ts_c0_b, window.truth.Ts_c0_b, atol=1e-6)
    np.testing.assert_allclose(answer.state.velocity_b, window.truth.velocity_b, atol=1e-6)


def test_it_rejects_a_negative_scale():
    segment, _ = exact_segment()
    mirrored = analytic(scaled_translation(segment, -1.0))
    assert not mirrored.accepted
    assert mirrored.reason == "the scale comes out as -1.0000, needed at least 0.001"
    tiny = analytic(scaled_translation(segment, 2e3))
    assert not tiny.accepted
    assert tiny.reason == "the scale comes out as 0.0005, needed at least 0.001"
