import numpy as np
import pytest

from helpers import chi_square_band, numerical_jacobian
from maci2.errors import DatasetError
from maci2.gaussian import nees
from maci2.lie import se3_exp, se3_inv, se3_log
from maci2.sensors.frames import read_image
from maci2.vision.covariance_models import OUTPUTS, FixedNoise, Learned, covariances
from maci2.vision.evidence import INPUTS, Evidence
from maci2.vision.visual_step import chained, unmeasured
from maci2.vision.two_frame import (
    Matches,
    PinholePair,
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
    analytic = residual_derivative(R, p0[0], p1[0], one.disparity0[0], one.disparity1[0], 460.0)
    np.testing.assert_allclose(analytic, numerical_jacobian(residual, 4), atol=1e-7)


def test_depth_variance_is_that_of_the_disparity():
    uv, disparity = np.array([[500.0, 300.0]]), np.array([10.0])
    p = points(uv, disparity, CAMERA)
    cov = point_covariances(p, disparity, np.diag([0.0, 0.0, 0.04])[None], 460.0)[0]
    reach = CAMERA.focal * CAMERA.baseline
    assert cov[2, 2] == pytest.approx(reach**2 * 0.04 / 10.0**4)


def test_network_outputs_become_positive_definite_covariances():
    outputs = np.random.default_rng(5).normal(0.0, 2.0, size=(50, OUTPUTS))
    assert (np.linalg.eigvalsh(covariances(outputs)) > 0.0).all()


def test_bundled_weights_are_whole_and_answer():
    inputs = np.zeros((3, INPUTS), np.float32)
    covs = Learned()(Evidence(inputs, np.ones((3, 3)), np.ones((3, 3))))
    assert covs.shape == (3, 4, 4)
    assert FixedNoise(0.5)(Evidence(inputs, np.ones((3, 3)), np.ones((3, 3))))[0, 0, 0] == 0.25


def test_chained_unmeasured_steps_stay_unmeasured():
    one = unmeasured((0, 200_000_000), "dark")
    both = chained([one, unmeasured((200_000_000, 400_000_000), "dark")])
    assert both.reason == "dark"
    assert np.trace(both.cov_T_ck_ck1) > np.trace(one.cov_T_ck_ck1)


def test_truncated_and_missing_images_are_named(tmp_path):
    import cv2

    path = tmp_path / "1.png"
    content = cv2.imencode(".png", np.zeros((20, 30), np.uint8))[1].tobytes()
    path.write_bytes(content[:-8])
    with pytest.raises(DatasetError, match="truncated"):
        read_image(path, (30, 20))
    path.write_bytes(content)
    with pytest.raises(DatasetError, match="30x20"):
        read_image(path, (31, 20))
    with pytest.raises(DatasetError, match="missing"):
        read_image(tmp_path / "2.png", (30, 20))
