"""The camera's motion among things that move by themselves."""

import numpy as np
import pytest

from maci2.geometry import se3_exp, se3_inv, se3_log
from maci2.geometry.gaussian import nees
from maci2.types import Array
from maci2.vision.relative_pose import (
    CONTAMINATION,
    consensus_pose,
    contamination_scale,
    doubt,
    most_common_motion,
    second_motion,
)
from maci2.vision.relative_poses import PredictedRotation
from maci2.vision.two_frame import (
    INLIER_CHI2,
    Matches,
    PinholePair,
    residual_chi2,
    two_frame_pose,
)

CAMERA = PinholePair(focal=400.0, center=(376.0, 240.0), baseline=0.11)
WORLD = se3_exp(np.array([0.10, -0.05, 0.15, 0.02, -0.05, 0.03]))
THING = se3_exp(np.array([-0.15, 0.02, 0.10, -0.01, 0.03, 0.02]))
STD_PX = 0.2
BLURRED_PX = (1.5, 1.5, 0.3, 0.3)
"""Of (u1, v1, d0, d1)."""


def seen(
    T_ck_ck1: Array,
    count: int,
    rng: np.random.Generator,
    std: float | tuple[float, ...] = STD_PX,
    depths: tuple[float, float] = (2.0, 6.0),
) -> Matches:
    """Points that moved by T, with noise; near the centre, so that they stay in view."""
    uv0 = rng.uniform([150, 100], [600, 380], (count, 2))
    z = rng.uniform(*depths, count)
    p0 = np.column_stack([(uv0 - CAMERA.center) / CAMERA.focal * z[:, None], z])
    T = se3_inv(T_ck_ck1)
    p1 = p0 @ T[:3, :3].T + T[:3, 3]
    uv1 = p1[:, :2] / p1[:, 2:] * CAMERA.focal + np.array(CAMERA.center)
    reach = CAMERA.focal * CAMERA.baseline
    noise = np.asarray(std) * rng.standard_normal((count, 4))
    return Matches(uv0, uv1 + noise[:, :2], reach / z + noise[:, 2], reach / p1[:, 2] + noise[:, 3])


def together(*parts: Matches) -> Matches:
    names = ("uv0", "uv1", "disparity0", "disparity1")
    return Matches(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def covariances(count: int, std: float = STD_PX) -> Array:
    return np.broadcast_to(std**2 * np.eye(4), (count, 4, 4)).copy()


def error(T: Array) -> Array:
    return se3_log(T @ se3_inv(WORLD))


def test_a_minority_that_moves_by_itself_does_not_pull() -> None:
    rng = np.random.default_rng(0)
    scores = []
    for _ in range(40):
        matches = together(seen(WORLD, 140, rng), seen(THING, 60, rng))
        pose = consensus_pose(matches, covariances(200), CAMERA)
        scores.append(nees(error(pose.T_ck_ck1), pose.cov) / 6.0)
        assert (pose.weights[140:] > 0.0).sum() < 6
    assert np.mean(scores) == pytest.approx(1.0, abs=0.2)


def test_sharper_matches_of_the_minority_do_not_outvote_the_majority() -> None:
    """What a robust loss alone gets wrong: three times sharper matches on the moving thing."""
    rng = np.random.default_rng(1)
    matches = together(seen(WORLD, 120, rng), seen(THING, 80, rng))
    covs = covariances(200, 0.3)
    covs[120:] /= 25.0
    alone = two_frame_pose(matches, covs, CAMERA, THING)
    assert np.linalg.norm(error(alone.T_ck_ck1)) > 0.1
    assert np.linalg.norm(error(consensus_pose(matches, covs, CAMERA).T_ck_ck1)) < 0.01


@pytest.mark.parametrize(
    "thing",
    [
        (-0.09, -0.24, 0.05, 0.02, 0.00, -0.01),
        (0.12, 0.08, -0.31, -0.02, 0.00, -0.02),
        (-0.01, -0.22, 0.04, 0.02, -0.01, -0.04),
    ],
)
def test_a_near_thing_before_a_far_blurred_wall_does_not_pull(thing: tuple[float, ...]) -> None:
    """The wall leaves the pose so loose that the robust loss, begun at the truth itself, walks off
    towards the thing."""
    rng = np.random.default_rng(8)
    T_thing = WORLD @ se3_exp(np.array(thing))
    covs = np.broadcast_to(np.diag(np.square(BLURRED_PX)), (170, 4, 4)).copy()
    alone, agreed = [], []
    for _ in range(10):
        matches = together(
            seen(WORLD, 110, rng, BLURRED_PX, (4.8, 6.0)),
            seen(T_thing, 60, rng, BLURRED_PX, (1.4, 2.0)),
        )
        for scores, pose in (
            (alone, two_frame_pose(matches, covs, CAMERA, WORLD)),
            (agreed, consensus_pose(matches, covs, CAMERA)),
        ):
            scores.append(nees(error(pose.T_ck_ck1), pose.cov) / 6.0)
    assert np.median(alone) > 100.0
    assert np.median(agreed) < 2.0


def test_matches_that_all_agree_are_solved_once() -> None:
    """Nothing changes where nothing is in doubt."""
    matches, covs = seen(WORLD, 150, np.random.default_rng(2)), covariances(150)
    plain, agreed = two_frame_pose(matches, covs, CAMERA), consensus_pose(matches, covs, CAMERA)
    assert plain.inliers == 150
    np.testing.assert_array_equal(agreed.T_ck_ck1, plain.T_ck_ck1)
    np.testing.assert_array_equal(agreed.cov, plain.cov)


def test_a_large_motion_is_found_from_three_points() -> None:
    turn = se3_exp(np.array([0.3, 0.1, 0.2, 0.05, 0.3, -0.2]))
    matches = seen(turn, 100, np.random.default_rng(3))
    found = most_common_motion(matches, CAMERA, np.ones(100, dtype=bool))
    assert found is not None
    T_ck_ck1, carried = found
    assert np.linalg.norm(se3_log(T_ck_ck1 @ se3_inv(turn))) < 0.1
    assert carried.sum() > 90


def test_no_motion_in_pure_noise() -> None:
    rng = np.random.default_rng(4)
    matches = Matches(
        rng.uniform(50, 400, (60, 2)),
        rng.uniform(50, 400, (60, 2)),
        rng.uniform(1, 60, 60),
        rng.uniform(1, 60, 60),
    )
    assert consensus_pose(matches, covariances(60), CAMERA).inliers < 30


def test_chi2_at_the_pose_found_is_that_of_the_solver() -> None:
    matches, covs = seen(WORLD, 80, np.random.default_rng(5)), covariances(80)
    pose = two_frame_pose(matches, covs, CAMERA)
    np.testing.assert_allclose(
        residual_chi2(pose.T_ck_ck1, matches, covs, CAMERA), pose.chi2, rtol=1e-6
    )


def test_chi2_at_the_truth_is_that_of_three_numbers() -> None:
    rng = np.random.default_rng(6)
    matches = seen(WORLD, 4000, rng)
    chi2 = residual_chi2(WORLD, matches, covariances(4000), CAMERA)
    assert chi2.mean() == pytest.approx(3.0, rel=0.06)
    assert (chi2 > INLIER_CHI2).mean() < 0.004


def test_the_same_every_time() -> None:
    matches = together(*(seen(T, 60, np.random.default_rng(7)) for T in (WORLD, THING)))
    first, second = (consensus_pose(matches, covariances(120), CAMERA) for _ in range(2))
    np.testing.assert_array_equal(first.T_ck_ck1, second.T_ck_ck1)


def test_rejected_matches_widen_the_covariance_and_none_leave_it_alone() -> None:
    rng = np.random.default_rng(8)
    world, thing = seen(WORLD, 90, rng), seen(THING, 30, rng)
    alone = consensus_pose(world, covariances(90), CAMERA)
    mixed = consensus_pose(together(world, thing), covariances(120), CAMERA)
    rejected = 120 - mixed.inliers
    assert contamination_scale(mixed) == pytest.approx(
        1.0 + CONTAMINATION * rejected / mixed.inliers
    )
    assert 1.0 <= contamination_scale(alone) < 1.1 < contamination_scale(mixed)


@pytest.mark.parametrize("world", [100, 90])
def test_two_motions_of_like_support_widen_the_covariance_by_their_difference(world: int) -> None:
    """Whichever is taken, the other lies within what is stated, and other directions stay sharp."""
    rng = np.random.default_rng(world)
    matches = together(seen(WORLD, world, rng), seen(THING, 95, rng))
    covs = covariances(len(matches))
    pose = consensus_pose(matches, covs, CAMERA)
    found = second_motion(pose)
    assert found is not None
    cov = pose.cov + doubt(pose, found)
    for T_ck_ck1 in (WORLD, THING):
        away = se3_log(T_ck_ck1 @ se3_inv(pose.T_ck_ck1))
        assert nees(away, cov) < 16.0
    assert np.linalg.eigvalsh(cov)[:5].max() < 2.0 * np.linalg.eigvalsh(pose.cov).max()


def test_a_small_thing_that_moves_raises_no_doubt() -> None:
    rng = np.random.default_rng(5)
    matches = together(seen(WORLD, 120, rng), seen(THING, 60, rng))
    covs = covariances(180)
    pose = consensus_pose(matches, covs, CAMERA)
    assert second_motion(pose) is None


def test_a_small_thing_with_the_predicted_rotation_is_a_possible_motion_but_no_doubt() -> None:
    """Whoever knows more may choose it; the covariance does not grow for it."""
    rng = np.random.default_rng(6)
    THING_ALONG = WORLD.copy()
    THING_ALONG[:3, 3] = [-0.1, 0.05, 0.1]
    matches = together(seen(WORLD, 140, rng), seen(THING_ALONG, 40, rng))
    covs = covariances(180)
    pose = consensus_pose(matches, covs, CAMERA)
    predicted = PredictedRotation(WORLD[:3, :3], 1e-4 * np.eye(3))
    found = second_motion(pose, predicted)
    assert found is not None
    assert found.share == pytest.approx(40 / 180, abs=0.04)
    away = se3_log(found.pose.T_ck_ck1 @ se3_inv(THING_ALONG))
    assert nees(away, found.pose.cov) < 25.0
    assert not doubt(pose, found).any()
    assert second_motion(pose) is None
