"""Relative poses of things that move: contradicted by what the camera's poses tell, or followed."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from maci2.geometry import se3, so3_exp
from maci2.sensors.stereo import StereoPair
from maci2.types import NS
from maci2.vision.keyframe import PreparedPair
from maci2.vision.moving_objects import LASTING, SecondLook, follows, near
from maci2.vision.relative_pose import RelativePose, unmeasured
from maci2.vision.relative_poses import PredictedRotation

STD = 5e-4
BIAS = np.array([0.012, -0.006, 0.009])
"""[rad] What all predictions are off by."""

THING = np.array([0.0, 0.012, 0.0])
"""[rad] What a set of matches on a thing is off by."""

WORLD_PX = np.column_stack([np.full(120, 100.0), np.linspace(20.0, 460.0, 120)])
THING_PX = np.column_stack([np.full(40, 500.0), np.linspace(200.0, 300.0, 40)])


def predict(start_ns, end_ns):
    by_shared = 0.02 * np.eye(3)
    return PredictedRotation(np.eye(3), by_shared @ by_shared.T + 1e-8 * np.eye(3), by_shared)


def pose(index, off=(0.0, 0.0, 0.0), agreeing="world", of_world=120):
    """A pose over interval `index` with matches on the world and on a thing."""
    uv = np.vstack([WORLD_PX[:of_world], THING_PX])
    on_world = np.arange(len(uv)) < of_world
    fits = {"world": on_world, "thing": ~on_world, "both": on_world | True}[agreeing]
    return RelativePose(
        (index * NS, (index + 1) * NS),
        se3(so3_exp(BIAS + np.asarray(off)), np.array([0.1, 0.0, 0.0])),
        STD**2 * np.eye(6),
        len(uv),
        int(fits.sum()),
        0.0,
        ends=np.hstack([uv, uv]),
        agreeing=fits,
    )


@dataclass(frozen=True)
class Anew:
    """Measures a given pose in place of what images show, and keeps the points it was given."""

    found: dict
    predict: object = staticmethod(predict)
    kept: list = None

    def as_predicted(self, span, is_part=False):
        self.kept.append(len(span.first.uv))
        assert self.predict(*span.stamps_ns) is not None
        index = span.stamps_ns[0] // NS
        return self.found.get(index, unmeasured(span.stamps_ns, "nothing else is seen"))

    def bridged(self, span, measure):
        return None

    def measured(self, span):
        return pose(span.stamps_ns[0] // NS, THING, "thing")


class Same:
    """A rectification of what is rectified, with a picture to find points in."""

    resolution = (752, 480)
    mask = np.ones((480, 752), dtype=bool)

    def left(self, image):
        return image

    right = left


def pair(index):
    rng = np.random.default_rng(index)
    image = np.kron(rng.integers(0, 255, (60, 94)), np.ones((8, 8))).astype(np.uint8)
    return StereoPair(index * NS, image, image)


def look_with(found, known=6):
    look = SecondLook(Anew(found, kept=[]), Same())
    for index in range(known):
        look.learn(pose(index))
    return look


def judged(look, one):
    index = one.stamps_ns[0] // NS
    return look.judged(one, [pair(index), pair(index + 1)])


def test_a_sound_pose_is_handed_on_as_it_is():
    look, sound = look_with({}), pose(6)
    assert judged(look, sound) is sound


def test_nothing_is_judged_before_enough_is_known():
    look, thing = look_with({}, known=1), pose(6, THING, "thing")
    assert look._consensus.shared is None
    assert judged(look, thing) is thing


def test_a_contradicted_pose_gives_way_to_the_motion_of_other_matches():
    right = pose(6)
    assert judged(look_with({6: right}), pose(6, THING, "thing")) is right


def test_a_contradicted_pose_is_unmeasured_where_nothing_else_is_found():
    handed_on = judged(look_with({}), pose(6, THING, "thing"))
    assert "contradicts the predicted one" in handed_on.reason
    again = judged(look_with({6: pose(6, THING)}), pose(6, THING, "thing"))
    assert again.reason == handed_on.reason


@pytest.mark.parametrize("others", ["many", "few"])
def test_what_moved_is_expected_to_go_on(others):
    """Its rotation is the camera's, so nothing but what it did before tells that it moves."""
    anew = {6: pose(6), 7: pose(7, of_world=120 if others == "many" else 30)}
    look = look_with(anew)
    judged(look, pose(6, THING, "thing"))
    thing = pose(7, agreeing="thing")
    handed_on = judged(look, thing)
    assert not handed_on.reason
    if others == "many":
        assert handed_on is anew[7]
    else:
        assert np.diag(handed_on.cov_T_ck_ck1)[:3].min() > 1.0
        np.testing.assert_array_equal(handed_on.T_ck_ck1, thing.T_ck_ck1)


def test_a_thing_is_forgotten_where_nothing_tells_that_it_moves_any_longer():
    look = look_with({})
    judged(look, pose(6, THING, "thing"))
    told = [judged(look, pose(7 + k, agreeing="thing")) for k in range(LASTING + 1)]
    unknown = [bool(one.cov_T_ck_ck1[0, 0] > 1.0) for one in told]
    assert unknown == [True] * LASTING + [False]


def test_a_pose_that_next_to_all_matches_agree_with_follows_nothing():
    look = look_with({})
    judged(look, pose(6, THING, "thing"))
    sound = pose(7, agreeing="both")
    assert judged(look, sound) is sound


def test_of_a_pose_that_was_read_from_a_file_the_matches_are_looked_for_again():
    right = pose(6)
    look = look_with({6: right})
    thing = pose(6, THING, "thing")
    bare = replace(thing, ends=np.empty((0, 4)), agreeing=np.empty(0, dtype=bool))
    assert judged(look, bare) is right
    assert len(look._moving) == len(THING_PX)


def test_points_on_a_thing_are_left_out_of_the_keyframe():
    look = look_with({6: pose(6), 7: pose(7)})
    judged(look, pose(6, THING, "thing"))
    judged(look, pose(7, agreeing="thing"))
    all_points, some = look._estimator.kept
    assert 0 < some < all_points


def test_a_pose_follows_what_most_matches_on_it_agree_with():
    assert follows(pose(0, agreeing="thing"), THING_PX)
    assert not follows(pose(0, agreeing="world"), THING_PX)
    assert not follows(pose(0, agreeing="thing"), np.empty((0, 2)))
    np.testing.assert_array_equal(near(WORLD_PX, THING_PX), False)


def test_a_keyframe_with_some_of_its_points_keeps_their_stereo_matches():
    whole = PreparedPair(pair(0), Same()).keyframe
    kept = np.arange(len(whole.uv)) % 2 == 0
    some = whole.with_points(kept)
    np.testing.assert_array_equal(some.uv, whole.uv[kept])
    np.testing.assert_array_equal(some.stereo.uv, whole.stereo.uv[kept])
    np.testing.assert_array_equal(some.relief, whole.relief[kept])
