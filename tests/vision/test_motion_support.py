"""Which of several motions points support, and what is covered where nothing decides."""

import cv2
import numpy as np
import pytest

from maci2.geometry import se3, se3_exp, se3_inv
from maci2.vision.covariance import EXACT_CALIBRATION, covariance_model
from maci2.vision.hypotheses import (
    Candidate,
    MotionEstimator,
    Span,
    leading,
    most_supported,
    periods,
    rivals,
)
from maci2.vision.keyframe import Keyframe, candidates, follow, match_along, scaled
from maci2.vision.relative_pose import RelativePose
from maci2.vision.relative_poses import PredictedRotation
from maci2.vision.two_frame import PinholePair

MM = 1e-3
SPAN_NS = (0, 200_000_000)
CAMERA = PinholePair(400.0, (320.0, 240.0), 0.11)
DEPTH = 2.0
PX_PER_M = CAMERA.focal / DEPTH
TILE_PX = 26
"""Side of a tile in the image: the same is seen 26 px to the side and 26 px down."""


def supported(x_mm, points, in_view=400, y_mm=0.0):
    T = se3_exp(np.array([x_mm * MM, y_mm * MM, 0.0, 0.0, 0.0, 0.0]))
    cov = np.diag([MM**2] * 3 + [1e-8] * 3)
    mask, view = np.zeros((2, 400), dtype=bool)
    mask[points], view[:in_view] = True, True
    pose = RelativePose(SPAN_NS, T, cov, 400, int(mask.sum()), 0.1)
    return Candidate(pose, mask, view)


def decided(motions):
    return most_supported(motions, motions[0].pose)


def test_what_does_not_repeat_decides_between_motions_a_period_apart():
    wall = np.arange(300)
    wrong, right = supported(50.0, wall), supported(250.0, np.arange(380))
    found = decided([wrong, right])
    assert found.T_ck_ck1[0, 3] == pytest.approx(0.25)
    assert found.motions == ()
    assert np.sqrt(found.cov_T_ck_ck1[0, 0]) == pytest.approx(MM)


def test_motions_that_no_point_decides_between_are_both_covered():
    here = supported(0.0, np.arange(390))
    there = supported(150.0, np.arange(5, 390), y_mm=150.0)
    found = decided([here, there])
    assert [round(one.T_ck_ck1[0, 3], 3) for one in found.motions] == [0.0, 0.15]
    along = np.array([1.0, 1.0, 0.0, 0.0, 0.0, 0.0]) / np.sqrt(2.0)
    across = np.array([1.0, -1.0, 0.0, 0.0, 0.0, 0.0]) / np.sqrt(2.0)
    apart = np.hypot(0.15, 0.15)
    assert along @ found.cov_T_ck_ck1 @ along == pytest.approx(0.5 * apart**2, rel=0.1)
    assert across @ found.cov_T_ck_ck1 @ across == pytest.approx(MM**2, rel=1e-3)


def test_a_thing_as_large_as_the_world_leaves_two_motions_and_their_difference():
    world, thing = supported(0.0, np.arange(200)), supported(150.0, np.arange(200, 390))
    found = decided([world, thing])
    assert len(found.motions) == 2
    assert found.cov_T_ck_ck1[0, 0] == pytest.approx(0.5 * 0.15**2, rel=0.05)
    assert found.cov_T_ck_ck1[1, 1] == pytest.approx(MM**2, rel=1e-3)


def test_points_that_a_motion_takes_out_of_the_image_do_not_contradict_it():
    here, far = supported(0.0, np.arange(400)), supported(400.0, np.arange(300), in_view=300)
    assert far.share_against(here) == pytest.approx(0.5)
    seen = supported(400.0, np.arange(300), in_view=400)
    assert seen.share_against(here) < 0.25


def test_of_motions_with_like_support_the_first_leads():
    chain, other = supported(20.0, np.arange(385)), supported(170.0, np.arange(390))
    assert leading([chain, other]) is chain
    assert leading([other, chain]) is other
    assert leading([supported(20.0, np.arange(100)), other]) is other


def wall(shift_px, unique):
    """A chessboard, or with a patch of it replaced by noise, seen from the side by some pixels."""
    v, u = np.mgrid[0:480, 0:960]
    image = np.where((u // TILE_PX + v // TILE_PX) % 2, 150.0, 90.0)
    if unique:
        rng = np.random.default_rng(3)
        noise = cv2.GaussianBlur(rng.normal(0.0, 1.0, (180, 260)), (0, 0), 1.5)
        image[150:330, 350:610] = 120.0 + 40.0 * noise / noise.std()
    image = cv2.GaussianBlur(image, (0, 0), 1.0)
    rng = np.random.default_rng(round(10 * shift_px))
    part = image[:, 160 + round(shift_px) : 800 + round(shift_px)]
    return np.clip(part + rng.normal(0.0, 1.0, part.shape), 0, 255).astype(np.uint8)


def keyframe_of(shift_px, unique):
    """A frontal wall: its disparity is the same everywhere."""
    disparity = round(CAMERA.baseline * PX_PER_M)
    left, right = wall(shift_px, unique), wall(shift_px + disparity, unique)
    uv = candidates(left, np.full(left.shape, 255, np.uint8), 600, 20, 12)
    stereo = follow(left, right, uv, uv - [disparity, 0.0], levels=2)
    return Keyframe(left, right, scaled(left), uv, stereo, np.zeros((len(uv), 2)), "")


def measured(moved_px, unique):
    """Motion to the right by some pixels of the image, and the keyframes it was measured from."""
    predicted = PredictedRotation(np.eye(3), 1e-4 * np.eye(3))
    ends = keyframe_of(0, unique), keyframe_of(moved_px, unique)
    span = Span(SPAN_NS, *ends, predicted=predicted)
    estimator = MotionEstimator(
        covariance_model("fixed"), CAMERA, EXACT_CALIBRATION, False, lambda *_: predicted
    )
    direct = estimator.matched(span)
    repeated = estimator.repeated(span, direct)
    return estimator.believed(span, [direct], [], repeated), span


def test_periods_are_those_of_the_wall():
    frame = keyframe_of(0, False)
    found = periods(frame, np.flatnonzero(frame.stereo.found), CAMERA)
    assert len(found) == 2
    side = TILE_PX / PX_PER_M
    for one in found:
        np.testing.assert_allclose(np.abs(one), [side, side, 0.0], atol=0.02 * DEPTH)
    assert abs(found[0] @ found[1]) < 0.1 * side**2


def test_what_does_not_repeat_has_no_period(rendered_frame):
    frame, camera = rendered_frame
    assert len(periods(frame, np.flatnonzero(frame.stereo.found), camera)) == 0


@pytest.fixture
def rendered_frame(rendered):
    from maci2.datasets import open_recording
    from maci2.datasets.frames import stereo_frames
    from maci2.vision.keyframe import PreparedPair
    from maci2.vision.rectify import rectify

    recording = open_recording(rendered)
    rectification = rectify(recording.rig)
    pair = stereo_frames(recording).pair(3)
    return PreparedPair(pair, rectification).keyframe, rectification


@pytest.mark.parametrize("moved_px", [6, 40])
def test_the_motion_along_a_wall_of_nothing_but_tiles_is_covered_wherever_it_is(moved_px):
    found, _ = measured(moved_px, unique=False)
    x, y = se3_inv(se3(np.eye(3), np.array([-moved_px / PX_PER_M, 0.0, 0.0])))[:2, 3]
    error = found.T_ck_ck1[:2, 3] - [x, y]
    assert len(found.motions) > 2
    assert (np.abs(error) < 5.0 * np.sqrt(np.diag(found.cov_T_ck_ck1)[:2])).all()
    # What lies one period away is as probable two of them away.
    assert (np.sqrt(np.diag(found.cov_T_ck_ck1)[:2]) > 2.0 * TILE_PX / PX_PER_M).all()
    # Depth and rotations are none of the wall's periods.
    assert np.sqrt(found.cov_T_ck_ck1[2, 2]) < 0.05


@pytest.mark.parametrize("moved_px", [6, 40])
def test_a_poster_on_the_wall_decides(moved_px):
    """By more than half a period, too, though most points are matched a period off then."""
    found, _ = measured(moved_px, unique=True)
    np.testing.assert_allclose(found.T_ck_ck1[:3, 3], [moved_px / PX_PER_M, 0.0, 0.0], atol=0.01)
    assert (np.sqrt(np.diag(found.cov_T_ck_ck1)[:3]) < 0.02).all()


@pytest.mark.parametrize(("unique", "expected"), [(False, 8), (True, 0)])
def test_motions_a_period_away_are_asked_where_nothing_else_contradicts_them(unique, expected):
    """On a wall of tiles alone; with a poster that most points are on, none of them is."""
    first, second = keyframe_of(0, unique), keyframe_of(6, unique)
    if unique:
        on_poster = (abs(first.uv - [320, 240]) < [120, 80]).all(axis=1)
        first = first.with_points(on_poster)
    T_ck_ck1 = se3(np.eye(3), np.array([6.0 / PX_PER_M, 0.0, 0.0]))
    side = TILE_PX / PX_PER_M
    period = np.array([[side, side, 0.0], [side, -side, 0.0]])
    assert len(rivals(first, second, T_ck_ck1, period, CAMERA)) == expected


def test_points_without_texture_do_not_agree_with_whatever_is_asked():
    first = keyframe_of(0, False)
    rng = np.random.default_rng(5)
    grey = np.clip(rng.normal(120.0, 1.0, first.left.shape), 0, 255).astype(np.uint8)
    blank = Keyframe(grey, grey, scaled(grey), first.uv, first.stereo, first.relief, "")
    T_ck_ck1 = se3(np.eye(3), np.array([0.2, 0.0, 0.0]))
    found, in_view = match_along(first, blank, T_ck_ck1, CAMERA)
    assert in_view.sum() > 200
    assert len(found.matches) < 0.5 * in_view.sum()
