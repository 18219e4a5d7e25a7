"""The two-frame pose: derivatives, covariance against sampled noise, oracles, outliers."""

import numpy as np
import pytest

from helpers import chi_square_band, numerical_jacobian
from maci2.evaluation.bench_vision import BENCH_CAMERA, numpy_pose, random_matches, scipy_pose
from maci2.gaussian import nees
from maci2.lie import se3_exp, se3_inv, se3_log
from maci2.vision.two_frame import (
    ROBUST_FACTOR,
    ROBUST_NORM,
    Matches,
    PinholePair,
    accumulate,
    point_covariances,
    points,
    residual_derivative,
    two_frame_pose,
)

CAMERA = PinholePair(460.0, (375.5, 239.5), 0.11)


def exact_matches(rng, count, T_ck_ck1):
    uv0 = rng.uniform([20, 20], [730, 460], size=(count, 2))
    disparity0 = rng.uniform(6.0, 40.0, size=count)
    p1 = points(uv0, disparity0, CAMERA) @ se3_inv(T_ck_ck1)[:3, :3].T + se3_inv(T_ck_ck1)[:3, 3]
    uv1 = p1[:, :2] / p1[:, 2:] * CAMERA.focal + CAMERA.center
    return Matches(uv0, uv1, disparity0, CAMERA.focal * CAMERA.baseline / p1[:, 2])


def noisy(matches, rng, covs):
    e = np.einsum("nij,nj->ni", np.linalg.cholesky(covs), rng.standard_normal((len(covs), 4)))
    return Matches(
        matches.uv0,
        matches.uv1 + e[:, :2],
        matches.disparity0 + e[:, 2],
        matches.disparity1 + e[:, 3],
    )


def test_pose_of_exact_matches_is_exact():
    T = se3_exp(np.array([0.1, -0.05, 0.2, 0.03, 0.08, -0.02]))
    matches = exact_matches(np.random.default_rng(1), 100, T)
    found = two_frame_pose(matches, np.tile(0.09 * np.eye(4), (100, 1, 1)), CAMERA)
    assert found.converged
    np.testing.assert_allclose(found.T_ck_ck1, T, atol=1e-8)


def test_covariance_of_the_pose_is_true_for_correlated_match_errors():
    rng = np.random.default_rng(2)
    cov = np.diag([0.04, 0.09, 0.02, 0.02])
    cov[2, 3] = cov[3, 2] = 0.012
    scores = []
    for _ in range(600):
        T = se3_exp(rng.normal(0.0, 0.05, size=6))
        covs = np.tile(cov, (150, 1, 1))
        found = two_frame_pose(noisy(exact_matches(rng, 150, T), rng, covs), covs, CAMERA)
        scores.append(nees(se3_log(found.T_ck_ck1 @ se3_inv(T)), found.cov))
    low, high = chi_square_band(6, 600)
    assert low < np.mean(scores) < high


def test_a_fifth_of_gross_outliers_leaves_the_pose():
    rng = np.random.default_rng(3)
    T = se3_exp(np.array([0.1, 0.0, 0.1, 0.02, 0.05, 0.0]))
    covs = np.tile(0.01 * np.eye(4), (200, 1, 1))
    matches = noisy(exact_matches(rng, 200, T), rng, covs)
    matches.uv1[:40] += rng.normal(0.0, 30.0, size=(40, 2))
    error = se3_log(two_frame_pose(matches, covs, CAMERA).T_ck_ck1 @ se3_inv(T))
    assert np.linalg.norm(error[3:]) < 1e-3
    assert np.linalg.norm(error[:3]) < 5e-3


def test_residual_derivative_agrees_with_finite_differences():
    T = se3_exp(np.array([0.1, -0.05, 0.2, 0.03, 0.08, -0.02]))
    one = exact_matches(np.random.default_rng(4), 1, T)

    def residual(x):
        p0 = points(one.uv0, one.disparity0 + x[2], CAMERA)
        p1 = points(one.uv1 + x[:2], one.disparity1 + x[3], CAMERA)
        return (p0 - p1 @ T[:3, :3].T - T[:3, 3])[0]

    p0, p1 = points(one.uv0, one.disparity0, CAMERA), points(one.uv1, one.disparity1, CAMERA)
    R = np.ascontiguousarray(T[:3, :3])
    analytic = np.empty((3, 4))
    disparities = float(one.disparity0[0]), float(one.disparity1[0])
    residual_derivative(R, p0[0], p1[0], *disparities, 460.0, analytic)
    np.testing.assert_allclose(analytic, numerical_jacobian(residual, 4), atol=1e-7)


def test_depth_variance_is_that_of_the_disparity():
    uv, disparity = np.array([[500.0, 300.0]]), np.array([10.0])
    p = points(uv, disparity, CAMERA)
    cov = point_covariances(p, disparity, np.diag([0.0, 0.0, 0.04])[None], 460.0)[0]
    reach = CAMERA.focal * CAMERA.baseline
    assert cov[2, 2] == pytest.approx(reach**2 * 0.04 / 10.0**4)


def test_it_is_the_answer_of_plain_numpy_and_near_scipy_s():
    matches, covs, T_true = random_matches(200, seed=3)
    found = two_frame_pose(matches, covs, BENCH_CAMERA)
    T, cov = numpy_pose(matches, covs)
    np.testing.assert_allclose(found.T_ck_ck1, T, atol=1e-6)
    np.testing.assert_allclose(found.cov, cov, rtol=1e-3, atol=1e-14)
    for other in (scipy_pose(matches, covs), T_true):
        assert nees(se3_log(found.T_ck_ck1 @ se3_inv(other)), found.cov) < 25.0


def test_one_match_adds_what_its_jacobian_by_finite_differences_says():
    rng = np.random.default_rng(6)
    T = se3_exp(rng.normal(0.0, 0.3, 6))
    p0, p1 = rng.normal(0.0, 1.0, 3), rng.normal(0.0, 1.0, 3)
    root = rng.normal(0.0, 1.0, (3, 3))
    W = root @ root.T

    def residual(xi):
        moved = se3_exp(xi) @ T
        return p0 - moved[:3, :3] @ p1 - moved[:3, 3]

    J, r = numerical_jacobian(residual, 6), residual(np.zeros(6))
    H, g = np.zeros((6, 6)), np.zeros(6)
    q = T[:3, :3] @ p1 + T[:3, 3]
    accumulate(H, g, q, W, W @ r, 0.5, np.empty((3, 3)))
    np.testing.assert_allclose(np.triu(H), np.triu(0.5 * J.T @ W @ J), atol=1e-8)
    np.testing.assert_allclose(g, 0.5 * J.T @ W @ r, atol=1e-8)


def test_the_robust_factor_is_that_of_its_loss():
    from scipy.integrate import quad
    from scipy.stats import chi2

    def mean(function):
        return quad(lambda m: function(m) * chi2.pdf(m, 3), 0.0, np.inf)[0]

    def weight(m):
        return 1.0 / (1.0 + m / ROBUST_NORM**2)

    slope = mean(lambda m: weight(m) - 2.0 / 3.0 * m * weight(m) ** 2 / ROBUST_NORM**2)
    expected = mean(weight) * mean(lambda m: weight(m) ** 2 * m / 3.0) / slope**2
    assert pytest.approx(expected, abs=1e-4) == ROBUST_FACTOR
