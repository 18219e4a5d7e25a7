"""A predicted rotation: where it moves pixels, and what it bears witness to."""

import numpy as np
import pytest

from maci2.geometry import se3, so3_exp
from maci2.vision.covariance import EXACT_CALIBRATION, INPUTS, FixedNoise, MatchFeatures
from maci2.vision.keyframe import KeyframeMatches, carried, homography
from maci2.vision.relative_pose import measure_relative_pose
from maci2.vision.relative_poses import PredictedRotation, no_prediction
from maci2.vision.two_frame import Matches, PinholePair, points

CAMERA = PinholePair(400.0, (376.0, 240.0), 0.11)
T_CK_CK1 = se3(so3_exp(np.array([0.02, 0.1, -0.05])), np.array([0.1, 0.0, 0.05]))


def pixels(p):
    return CAMERA.focal * p[:, :2] / p[:, 2:] + CAMERA.center


def seen_matches(share_moving, count=120, seed=0):
    """Matches of the world, and of points that each move as they like."""
    rng = np.random.default_rng(seed)
    uv0 = rng.uniform([20.0, 20.0], [730.0, 460.0], size=(count, 2))
    disparity0 = rng.uniform(8.0, 40.0, size=count)
    p1 = (points(uv0, disparity0, CAMERA) - T_CK_CK1[:3, 3]) @ T_CK_CK1[:3, :3]
    astray = np.arange(count) < share_moving * count
    p1[astray] += rng.normal(0.0, 0.4, size=(astray.sum(), 3)) * [1.0, 1.0, 0.2]
    disparity1 = CAMERA.focal * CAMERA.baseline / p1[:, 2]
    matches = Matches(uv0, pixels(p1) + rng.normal(0, 0.1, (count, 2)), disparity0, disparity1)
    features = MatchFeatures(
        np.zeros((count, INPUTS), np.float32), np.ones((count, 3)), np.ones((count, 3))
    )
    return KeyframeMatches(matches, features, np.zeros(count), np.arange(count))


def measured(share_moving, predicted):
    found = seen_matches(share_moving)
    return measure_relative_pose(
        (0, 200_000_000),
        found,
        FixedNoise(0.3)(found.features),
        CAMERA,
        EXACT_CALIBRATION,
        predicted=predicted,
    )


def test_a_rotation_moves_pixels_as_it_moves_points_far_away():
    rng = np.random.default_rng(2)
    uv0 = rng.uniform([0.0, 0.0], [752.0, 480.0], size=(50, 2))
    far_p1 = points(uv0, np.full(50, 1e-6), CAMERA) @ T_CK_CK1[:3, :3]
    H = homography(PredictedRotation(T_CK_CK1[:3, :3], np.eye(3)), CAMERA)
    np.testing.assert_allclose(carried(H, uv0), pixels(far_p1), atol=1e-6)


def test_without_a_prediction_pixels_stay_where_they_are():
    uv = np.array([[1.0, 2.0], [700.0, 400.0]])
    np.testing.assert_array_equal(carried(homography(no_prediction(0, 1), CAMERA), uv), uv)


def test_a_pixel_that_a_rotation_takes_behind_the_camera_is_not_mirrored_into_the_image():
    H = homography(PredictedRotation(so3_exp(np.array([0.0, 2.5, 0.0])), np.eye(3)), CAMERA)
    (u, _), *_ = carried(H, np.array([[376.0, 240.0]]))
    assert not 0.0 < u < 752.0


def test_a_rotation_agrees_as_often_as_its_covariance_says():
    rng = np.random.default_rng(3)
    cov_predicted, cov = np.diag([1e-4, 4e-4, 1e-4]), np.diag([1e-5, 1e-5, 3e-4])
    R = T_CK_CK1[:3, :3]
    predicted = PredictedRotation(R, cov_predicted)
    noise = rng.multivariate_normal(np.zeros(3), cov_predicted + cov, 2000)
    agreeing = np.mean([predicted.agrees(so3_exp(phi) @ R, cov) for phi in noise])
    assert 0.995 < agreeing < 1.0
    assert not predicted.agrees(so3_exp(np.array([0.2, 0.0, 0.0])) @ R, cov)


@pytest.mark.parametrize(("share_moving", "alone"), [(0.3, True), (0.7, False)])
def test_a_minority_that_agrees_with_the_predicted_rotation_is_certain(share_moving, alone):
    cov = np.deg2rad(1.0) ** 2 * np.eye(3)
    witness = PredictedRotation(so3_exp(np.array([0.01, 0.0, 0.0])) @ T_CK_CK1[:3, :3], cov)
    assert bool(measured(share_moving, None).reason) != alone
    pose = measured(share_moving, witness)
    assert not pose.reason
    np.testing.assert_allclose(pose.T_ck_ck1, T_CK_CK1, atol=0.01)


def test_a_minority_that_contradicts_the_predicted_rotation_is_not():
    witness = PredictedRotation(so3_exp(np.array([0.3, 0.0, 0.0])), 1e-4 * np.eye(3))
    assert "agree on one motion" in measured(0.7, witness).reason
