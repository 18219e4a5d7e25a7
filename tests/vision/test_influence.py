"""Poses that hang on one part of the image: found, and doubted in proportion."""

import numpy as np

from maci2.geometry import se3_exp, se3_inv, se3_log
from maci2.geometry.gaussian import nees
from maci2.vision.relative_pose import (
    LARGE_LEVERAGE,
    MIN_MATCHES,
    MOVING,
    either_way,
    influential_part,
    leverages,
    pose_of_others,
)
from maci2.vision.two_frame import Matches, PinholePair, points, two_frame_pose

CAMERA = PinholePair(460.0, (376.0, 240.0), 0.11)
T_CK_CK1 = se3_exp(np.array([0.05, -0.02, 0.08, 0.02, 0.04, -0.01]))
T_BOX = se3_exp(np.array([0.06, -0.02, 0.08, 0.02, 0.04, -0.01]))
"""What the camera seems to do seen from a box that moves by 1 cm."""


def moved(uv0, disparity0, T_ck_ck1, std, rng):
    """Matches of points that a motion takes along, with noise of some pixels."""
    T = se3_inv(T_ck_ck1)
    p1 = points(uv0, disparity0, CAMERA) @ T[:3, :3].T + T[:3, 3]
    uv1 = p1[:, :2] / p1[:, 2:] * CAMERA.focal + CAMERA.center
    exact = np.column_stack([uv1, disparity0, CAMERA.focal * CAMERA.baseline / p1[:, 2]])
    seen = exact + std * rng.standard_normal(exact.shape)
    return Matches(uv0, seen[:, :2], seen[:, 2], seen[:, 3])


def wall_and_box(T_box, rng, wall_std=1.5, box_std=0.1):
    """Eighty poor matches of a wall, then twenty sharp ones of a box close by."""
    wall_uv = rng.uniform([20, 20], [730, 460], size=(80, 2))
    box_uv = rng.uniform([330, 200], [430, 290], size=(20, 2))
    wall = moved(wall_uv, rng.uniform(9, 11, 80), T_CK_CK1, wall_std, rng)
    box = moved(box_uv, rng.uniform(30, 34, 20), T_box, box_std, rng)
    both = Matches(
        *(
            np.concatenate([getattr(one, name) for one in (wall, box)])
            for name in ("uv0", "uv1", "disparity0", "disparity1")
        )
    )
    std = np.repeat([wall_std, box_std], [80, 20])
    return both, std[:, None, None] ** 2 * np.eye(4)


def test_leverages_add_up_to_the_degrees_of_freedom():
    matches, covs = wall_and_box(T_CK_CK1, np.random.default_rng(0))
    pose = two_frame_pose(matches, covs, CAMERA)
    np.testing.assert_allclose(leverages(pose).sum(), 6.0, rtol=1e-3)


def test_a_sharp_box_before_a_poor_wall_is_what_the_pose_hangs_on():
    matches, covs = wall_and_box(T_CK_CK1, np.random.default_rng(1))
    pose = two_frame_pose(matches, covs, CAMERA)
    part = influential_part(pose)
    assert part[80:].mean() > 0.8
    assert part[:80].mean() < 0.2


def test_a_pose_of_an_evenly_covered_image_hangs_on_no_part():
    rng = np.random.default_rng(2)
    uv0 = rng.uniform([20, 20], [730, 460], size=(300, 2))
    matches = moved(uv0, rng.uniform(6, 40, 300), T_CK_CK1, 0.2, rng)
    covs = np.tile(0.04 * np.eye(4), (300, 1, 1))
    pose = two_frame_pose(matches, covs, CAMERA)
    assert influential_part(pose) is None
    assert leverages(pose).max() < LARGE_LEVERAGE / 10


def test_the_motion_of_a_box_is_covered_and_a_box_that_stands_costs_little():
    """Mean NEES per degree of freedom over a hundred samples, with a box that moves by a
    centimetre, which is ten standard deviations of a pose that believes it, and one that stands."""
    rng = np.random.default_rng(3)
    scores = {True: [], False: []}
    for moves in (True, False) * 100:
        matches, covs = wall_and_box(T_BOX if moves else T_CK_CK1, rng)
        pose = two_frame_pose(matches, covs, CAMERA)
        part = influential_part(pose)
        rest = pose_of_others(pose, part)
        away = se3_log(np.ascontiguousarray(rest.T_ck_ck1 @ se3_inv(pose.T_ck_ck1)))
        error = se3_log(np.ascontiguousarray(pose.T_ck_ck1 @ se3_inv(T_CK_CK1)))
        doubted = either_way(pose.cov, rest.cov, away)
        scores[moves].append([nees(error, pose.cov) / 6.0, nees(error, doubted) / 6.0])
    (moving, moving_doubted), (standing, standing_doubted) = (
        np.mean(scores[moves], axis=0) for moves in (True, False)
    )
    assert moving > 5.0
    # Along the difference of the two poses a choice between them covers all but 1 / MOVING.
    assert moving_doubted < (1.0 / MOVING + 5.0) / 6.0
    assert 0.3 < standing_doubted < standing < 1.5


def test_too_few_others_tell_nothing():
    matches, covs = wall_and_box(T_CK_CK1, np.random.default_rng(4))
    pose = two_frame_pose(matches, covs, CAMERA)
    part = np.ones(len(matches), dtype=bool)
    part[: MIN_MATCHES - 1] = False
    assert pose_of_others(pose, part) is None
