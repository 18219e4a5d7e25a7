"""The two-frame pose: derivatives, covariance against sampled noise, oracles, outliers."""

import numpy as np
import pytest

from helpers import chi_square_band, numerical_jacobian
from maci2.geometry import se3_exp, se3_inv, se3_log, skew
from maci2.geometry.gaussian import nees
from maci2.vision.two_frame import (
    MAX_ITERATIONS,
    ROBUST_FACTOR,
    ROBUST_NORM,
    STEP_TOLERANCE,
    Matches,
    PinholePair,
    cauchy_cost,
    normal_blocks,
    normal_equations,
    points,
    residual_derivative,
    solve_spd,
    two_frame_pose,
)
from maci2_lab.benchmarks.vision_speed import BENCH_CAMERA, numpy_pose, random_matches, scipy_pose

CAMERA = PinholePair(460.0, (375.5, 239.5), 0.11)


def exact_matches(rng, count, T_ck_ck1):
    uv0 = rng.uniform([20, 20], [730, 460], size=(count, 2))
    return seen_from(T_ck_ck1, uv0, rng.uniform(6.0, 40.0, size=count))


def seen_from(T_ck_ck1, uv0, disparity0):
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


def as_rows(matrix):
    return tuple(tuple(row) for row in matrix)


def random_covariances(rng, count):
    roots = rng.normal(0.0, 0.15, size=(count, 4, 4))
    return roots @ np.swapaxes(roots, 1, 2) + 0.003 * np.eye(4)


def pose_by_whitening(matches, covs):
    """Pose, covariance, weights and chi-squares by another way: least squares on residuals
    whitened with numpy's Cholesky factors, match by match."""
    p0 = points(matches.uv0, matches.disparity0, CAMERA)
    p1 = points(matches.uv1, matches.disparity1, CAMERA)
    T = np.eye(4)
    for _ in range(MAX_ITERATIONS):
        R = T[:3, :3]
        A, b, weights, chi2 = [], [], [], []
        for n in range(len(matches)):
            q = R @ p1[n] + T[:3, 3]
            D = np.column_stack(
                [
                    -R[:, :2] * p1[n, 2] / CAMERA.focal,
                    -p0[n] / matches.disparity0[n],
                    R @ p1[n] / matches.disparity1[n],
                ]
            )
            whiten = np.linalg.inv(np.linalg.cholesky(D @ covs[n] @ D.T))
            e = whiten @ (p0[n] - q)
            chi2.append(e @ e)
            weights.append(1.0 / (1.0 + chi2[n] / ROBUST_NORM**2))
            A.append(np.sqrt(weights[n]) * whiten @ np.hstack([-np.eye(3), skew(q)]))
            b.append(np.sqrt(weights[n]) * e)
        A, b = np.vstack(A), np.concatenate(b)
        step = np.linalg.lstsq(A, -b)[0]
        if np.sum((A @ step) ** 2) < STEP_TOLERANCE**2:
            break
        T = se3_exp(step) @ T
    return T, ROBUST_FACTOR * np.linalg.inv(A.T @ A), np.array(weights), np.array(chi2)


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

    p0, p1 = points(one.uv0, one.disparity0, CAMERA)[0], points(one.uv1, one.disparity1, CAMERA)[0]
    analytic = residual_derivative(
        as_rows(T[:3, :3]),
        tuple(p0),
        tuple(T[:3, :3] @ p1),
        p1[2],
        one.disparity0[0],
        one.disparity1[0],
        460.0,
    )
    np.testing.assert_allclose(analytic, numerical_jacobian(residual, 4), atol=1e-7)


def test_it_is_the_answer_of_plain_numpy_and_near_scipy_s():
    matches, covs, T_true = random_matches(200, seed=3)
    found = two_frame_pose(matches, covs, BENCH_CAMERA)
    T, cov = numpy_pose(matches, covs)
    np.testing.assert_allclose(found.T_ck_ck1, T, atol=1e-6)
    np.testing.assert_allclose(found.cov, cov, rtol=1e-3, atol=1e-14)
    for other in (scipy_pose(matches, covs), T_true):
        assert nees(se3_log(found.T_ck_ck1 @ se3_inv(other)), found.cov) < 25.0


@pytest.mark.parametrize(("smallest_px", "largest_px"), [(6.0, 40.0), (1.5, 8.0)])
def test_it_is_the_answer_of_whitened_least_squares_to_nine_digits(smallest_px, largest_px):
    rng = np.random.default_rng(5)
    T_true = se3_exp(np.array([0.1, -0.05, 0.08, 0.02, 0.05, -0.01]))
    uv0 = rng.uniform([20, 20], [730, 460], size=(90, 2))
    disparity0 = rng.uniform(smallest_px, largest_px, size=90)
    covs = random_covariances(rng, 90)
    matches = noisy(seen_from(T_true, uv0, disparity0), rng, covs)
    matches.uv1[:9] += rng.normal(0.0, 20.0, size=(9, 2))
    found = two_frame_pose(matches, covs, CAMERA)
    T, cov, weights, chi2 = pose_by_whitening(matches, covs)
    std = np.sqrt(np.diag(cov))
    np.testing.assert_allclose(found.T_ck_ck1, T, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.cov / np.outer(std, std), cov / np.outer(std, std), atol=1e-9)
    np.testing.assert_allclose(found.weights, weights, atol=1e-9)
    np.testing.assert_allclose(found.chi2, chi2, rtol=1e-9, atol=1e-9)


def test_a_match_that_is_no_number_never_converges():
    rng = np.random.default_rng(7)
    matches = exact_matches(rng, 50, se3_exp(rng.normal(0.0, 0.05, 6)))
    matches.uv1[3] = np.nan
    assert not two_frame_pose(matches, random_covariances(rng, 50), CAMERA).converged


def test_the_cost_is_that_of_the_cauchy_loss_however_large():
    chi2 = 10.0 ** np.random.default_rng(8).uniform(-6.0, 12.0, size=300)
    expected = ROBUST_NORM**2 * np.log1p(chi2 / ROBUST_NORM**2).sum()
    assert cauchy_cost(chi2) == pytest.approx(expected, rel=1e-12)


def test_the_solver_tells_what_is_not_positive_definite():
    rng = np.random.default_rng(9)
    root, b = rng.normal(size=(6, 6)), rng.normal(size=6)
    x, solved = solve_spd(root @ root.T, b)
    assert solved
    np.testing.assert_allclose(root @ root.T @ x, b, atol=1e-10)
    assert not solve_spd(np.diag([1.0, 1.0, -1.0, 1.0, 1.0, 1.0]), b)[1]
    assert not solve_spd(np.full((6, 6), np.nan), b)[1]


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
    q = T[:3, :3] @ p1 + T[:3, 3]
    H, g = normal_equations(normal_blocks(tuple(q), as_rows(W), tuple(r)))
    np.testing.assert_allclose(H, J.T @ W @ J, atol=1e-8)
    np.testing.assert_allclose(g, J.T @ W @ r, atol=1e-8)


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
