"""Where points of a keyframe are looked for in the next one."""

import cv2
import numpy as np
import pytest

from maci2.geometry import so3_exp
from maci2.vision.keyframe import (
    COARSE_LEVELS,
    Keyframe,
    Tracks,
    coarse_levels,
    match_keyframes,
    scaled,
)
from maci2.vision.relative_poses import PredictedRotation
from maci2.vision.two_frame import PinholePair

CAMERA = PinholePair(400.0, (255.5, 255.5), 0.1)
DISPARITY = 8


def prediction(phi, std):
    return PredictedRotation(so3_exp(np.asarray(phi, dtype=float)), std**2 * np.eye(3))


@pytest.mark.parametrize(
    ("std", "fewer"),
    [(0.02, 1), (0.05, 0)],  # 24 and 60 px for three of them, 42 px being the limit
)
def test_a_well_predicted_rotation_needs_one_size_of_images_less(std, fewer):
    assert coarse_levels(prediction([0.0, 0.0, 0.0], std), CAMERA) == COARSE_LEVELS - fewer


def test_without_a_prediction_all_sizes_of_images_are_searched():
    assert coarse_levels(None, CAMERA) == COARSE_LEVELS


def wall(seed=0):
    """(512, 1024) texture of several sizes."""
    rng = np.random.default_rng(seed)
    sizes = [rng.uniform(0, 255, (512 // k, 1024 // k)) for k in (2, 8, 32)]
    layers = [cv2.resize(size, (1024, 512), interpolation=cv2.INTER_CUBIC) for size in sizes]
    return np.clip(sum(layers) / 3.0, 0, 255).astype(np.uint8)


def seen_from(column):
    """A keyframe of a wall far away, `column` pixels along it."""
    image = wall()
    left = np.ascontiguousarray(image[:, column : column + 512])
    right = np.ascontiguousarray(image[:, column + DISPARITY : column + DISPARITY + 512])
    grid = np.stack(np.meshgrid(np.arange(160, 352, 24), np.arange(100, 412, 24)), -1)
    uv = grid.reshape(-1, 2).astype(float)
    found = np.ones(len(uv), dtype=bool)
    stereo = Tracks(uv - np.array([DISPARITY, 0.0]), np.zeros(len(uv)), found)
    return Keyframe(left, right, scaled(left), uv, stereo, np.zeros((len(uv), 2)), "")


def share_moved_by(matches, columns, count):
    """Share of `count` points that were found where they are."""
    off = matches.uv1 - matches.uv0 - np.array([columns, 0.0])
    return (np.linalg.norm(off, axis=1) < 0.1).sum() / count


@pytest.mark.parametrize("predicted", [None, prediction([0.0, 0.0, 0.0], 0.1)])
def test_a_motion_that_nothing_predicts_is_found_all_the_same(predicted):
    first, second = seen_from(200), seen_from(260)
    found = match_keyframes(first, [], second, CAMERA, predicted)
    assert share_moved_by(found.matches, -60.0, len(first.uv)) > 0.8


def test_points_are_looked_for_where_the_predicted_rotation_moves_them():
    first, second = seen_from(200), seen_from(320)
    # Rotated about y by this, the middle of the image moves by 120 px, other columns by some more.
    predicted = prediction([0.0, np.arctan(120.0 / 400.0), 0.0], 0.01)
    found = match_keyframes(first, [], second, CAMERA, predicted)
    assert share_moved_by(found.matches, -120.0, len(first.uv)) > 0.8
