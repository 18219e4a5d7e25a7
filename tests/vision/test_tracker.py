"""One tracker: recorded and live images give the same relative poses and the same complaints."""

import threading
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pytest

from maci2.datasets import open_recording
from maci2.datasets.frames import stereo_frames
from maci2.errors import CalibrationError, MeasurementError
from maci2.geometry import se3_inv, se3_log, so3_exp
from maci2.geometry.gaussian import nees
from maci2.types import NS
from maci2.vision.hypotheses import MotionEstimator, Span
from maci2.vision.keyframe import PreparedPair
from maci2.vision.odometry import AHEAD, KeyframeTracker, StereoOdometry, StereoTracker
from maci2.vision.relative_pose import chained, unmeasured
from maci2.vision.relative_poses import PredictedRotation


@pytest.fixture(scope="module")
def flight(rendered):
    recording = open_recording(rendered)
    frames = stereo_frames(recording)
    return recording.rig, frames, [frames.pair(index) for index in range(13)]


def live_poses(rig, pairs, window_s=0.8, keyframes=5):
    tracker = KeyframeTracker(rig, window_s, keyframes)
    for pair in pairs:
        tracker.add(pair)
    return tracker


def test_a_stream_gives_the_relative_poses_of_the_recording(flight):
    rig, frames, pairs = flight
    live = live_poses(rig, pairs).so_far()
    recorded = StereoOdometry(frames, rig).poses(live.stamps_ns)
    assert len(live) == 5
    np.testing.assert_array_equal(live.Ts_ck_ck1, recorded.Ts_ck_ck1)
    np.testing.assert_array_equal(live.covs_T_ck_ck1, recorded.covs_T_ck_ck1)


def test_a_dark_image_between_live_keyframes_is_passed_over(flight):
    rig, _, pairs = flight
    tracker = StereoTracker(rig)
    tracker.start(pairs[0])
    dark = replace(pairs[1], left=np.zeros_like(pairs[1].left))
    with_dark = tracker.advance([dark], pairs[2])
    tracker.clear()
    tracker.start(pairs[0])
    without = tracker.advance([], pairs[2])
    assert not with_dark.reason
    np.testing.assert_array_equal(with_dark.T_ck_ck1, without.T_ck_ck1)


def test_a_stream_of_another_rig_is_refused_like_a_recording_of_one(flight):
    rig, _, pairs = flight
    right = rig.cameras[1]
    T_b_c = right.T_b_c.copy()
    T_b_c[:3, :3] = T_b_c[:3, :3] @ so3_exp(np.array([0.012, 0.0, 0.0]))
    tilted = replace(rig, cameras=(rig.cameras[0], replace(right, T_b_c=T_b_c)))
    with pytest.raises(CalibrationError, match="tilted against each other"):
        live_poses(tilted, pairs)


def test_pairs_that_are_not_of_one_instant_cost_their_relative_poses_only(flight):
    """Right images one frame old, as of a driver that pairs them wrongly for a while: what they
    would say of depth is wrong, so nothing is measured from them or to them."""
    rig, _, pairs = flight
    tracker, sound = StereoTracker(rig), StereoTracker(rig)
    tracker.start(pairs[0])
    sound.start(pairs[0])
    late = range(4, 9)
    for k, pair in enumerate(pairs[1:], start=1):
        given = replace(pair, right=pairs[k - 1].right) if k in late else pair
        pose, expected = tracker.advance([], given), sound.advance([], pair)
        if k in late or k - 1 in late:
            assert "or the two images are not of one instant" in pose.reason
        else:
            assert not pose.reason
            np.testing.assert_array_equal(pose.T_ck_ck1, expected.T_ck_ck1)


def test_no_chain_goes_through_a_pair_that_is_not_of_one_instant(flight):
    """Where two keyframes alone do not tell the motion, it is chained through the pair half way."""
    rig, _, pairs = flight
    tracker = StereoTracker(rig)
    late = replace(pairs[5], right=pairs[4].right)
    ends = [PreparedPair(pair, tracker.rectification).keyframe for pair in (pairs[4], pairs[6])]
    between = [PreparedPair(late, tracker.rectification)]
    stamps_ns = (pairs[4].stamp_ns, pairs[6].stamp_ns)
    estimator, span = tracker.estimator, Span(stamps_ns, *ends, between)
    assert estimator.bridged(span, estimator.measured) is None


def test_a_calibration_is_called_wrong_only_by_the_first_keyframes(flight):
    rig, _, pairs = flight
    rows_off = [replace(pair, right=np.roll(pair.right, 2, axis=0)) for pair in pairs]
    tracker = StereoTracker(rig)
    tracker.start(pairs[0])
    for pair in rows_off[1:7]:
        assert "px off their rows" in tracker.advance([], pair).reason
    tracker.clear()
    tracker.start(rows_off[0])
    tracker.advance([], rows_off[1])
    with pytest.raises(CalibrationError, match="px off their rows"):
        tracker.advance([], rows_off[2])


def test_pairs_out_of_order_are_named(flight):
    rig, _, pairs = flight
    tracker = StereoTracker(rig)
    tracker.start(pairs[1])
    with pytest.raises(MeasurementError, match=f"{pairs[0].stamp_ns} ns follows"):
        tracker.advance([], pairs[0])


def test_relative_poses_measured_ahead_are_the_same(flight):
    rig, _, pairs = flight
    plain, ahead = StereoTracker(rig), StereoTracker(rig)
    plain.start(pairs[0])
    ahead.start(pairs[0])
    for k in (2, 4):
        ahead.expect(pairs[k - 2 : k + 1])
    for k in (2, 4):
        one, other = (tracker.advance([pairs[k - 1]], pairs[k]) for tracker in (plain, ahead))
        np.testing.assert_array_equal(one.T_ck_ck1, other.T_ck_ck1)
        np.testing.assert_array_equal(one.cov_T_ck_ck1, other.cov_T_ck_ck1)


@pytest.mark.parametrize("workers", [1, 3])
def test_any_number_of_workers_gives_the_same_relative_poses(flight, monkeypatch, workers):
    rig, frames, pairs = flight
    tracker = StereoTracker(rig, predict_rotation=nearly_still)
    tracker.start(pairs[0])
    alone = [tracker.advance([pairs[k - 1]], pairs[k]) for k in range(2, 13, 2)]
    monkeypatch.setattr("maci2.vision.odometry.WORKERS", workers)
    odometry = StereoOdometry(frames, rig, predict_rotation=nearly_still)
    found = list(odometry.relative_poses(list(range(0, 13, 2))))
    for one, other in zip(alone, found, strict=True):
        np.testing.assert_array_equal(one.T_ck_ck1, other.T_ck_ck1)
        np.testing.assert_array_equal(one.cov_T_ck_ck1, other.cov_T_ck_ck1)


def test_relative_poses_measured_for_nobody_are_forgotten(flight):
    rig, _, pairs = flight
    tracker = StereoTracker(rig)
    for ends in pairwise(pairs[:8]):
        tracker.expect(ends)
    stamps_ns = [pair.stamp_ns for pair in pairs[7 - AHEAD : 8]]
    assert set(tracker._measuring) == set(pairwise(stamps_ns))
    assert set(tracker._coming) == set(stamps_ns)
    tracker.clear()
    assert not tracker._coming
    assert not tracker._measuring


@dataclass(frozen=True)
class NearOnly(MotionEstimator):
    """Measures nothing between keyframes more than 0.15 s apart, and keeps what it was asked."""

    tried: list = field(default_factory=list)

    def matched(self, span, guides=()):
        self.tried.append((span.stamps_ns, len(guides), span.predicted is not None))
        if span.stamps_ns[1] - span.stamps_ns[0] > 0.15 * NS:
            return unmeasured(span.stamps_ns, "too far")
        return super().matched(span, guides)


def test_a_turn_too_wide_for_the_keyframes_is_chained_before_images_lead(flight, monkeypatch):
    """Points that leave the image cannot be led, so pairs between are tried first; a prediction
    that fails there, too, is not believed."""
    rig, _, pairs = flight
    tracker = StereoTracker(rig, predict_rotation=nearly_still)
    estimator = NearOnly(**vars(tracker.estimator))
    monkeypatch.setattr(tracker, "estimator", estimator)
    assert not measured_by(tracker, pairs[0], [pairs[1]], pairs[2]).reason
    t0, t1, t2 = (pair.stamp_ns for pair in pairs[:3])
    assert estimator.tried == [((t0, t2), 0, True), ((t0, t1), 0, True), ((t1, t2), 0, True)]


def test_every_image_of_a_recording_is_read_once(flight, monkeypatch):
    rig, frames, _ = flight
    read = []

    def left(self, index):
        read.append(index)
        return original(self, index)

    original = type(frames).left
    monkeypatch.setattr(type(frames), "left", left)
    StereoOdometry(frames, rig, predict_rotation=nearly_still).poses(frames.stamps_ns[:9:2])
    assert sorted(read) == [0, 2, 4, 6, 8]


def test_no_two_threads_read_a_recording_at_once(flight, monkeypatch):
    rig, frames, _ = flight
    reading = threading.Lock()

    def alone(original):
        def read(self, index):
            assert reading.acquire(blocking=False), "read by two threads"
            try:
                return original(self, index)
            finally:
                reading.release()

        return read

    for side in ("left", "right"):
        monkeypatch.setattr(type(frames), side, alone(getattr(type(frames), side)))
    odometry = StereoOdometry(frames, rig, predict_rotation=nearly_still)
    assert all(not pose.reason for pose in odometry.relative_poses(list(range(0, 9, 2))))


def nearly_still(start_ns, end_ns):
    return PredictedRotation(np.eye(3), 0.01 * np.eye(3))


class Unread:
    """A pair whose images nobody may ask for."""

    def __init__(self, stamp_ns):
        self.stamp_ns = stamp_ns

    @property
    def left(self):
        raise AssertionError("read without need")

    right = left


def measured_by(tracker, first, between, second):
    tracker.clear()
    tracker.start(first)
    return tracker.advance(between, second)


def test_images_between_are_not_read_where_keyframes_and_prediction_settle_the_motion(flight):
    rig, _, pairs = flight
    tracker = StereoTracker(rig, predict_rotation=nearly_still)
    between = [Unread(pairs[1].stamp_ns)]
    assert not measured_by(tracker, pairs[0], between, pairs[2]).reason
    with pytest.raises(AssertionError, match="read without need"):
        measured_by(StereoTracker(rig), pairs[0], between, pairs[2])


@pytest.mark.parametrize("gain", [0.5, 1.5])
def test_a_jump_of_the_exposure_costs_nothing(flight, gain):
    rig, _, pairs = flight
    tracker = StereoTracker(rig)
    steady = measured_by(tracker, pairs[0], [], pairs[2])
    exposed = {
        side: np.clip(gain * getattr(pairs[2], side), 0, 255).astype(np.uint8)
        for side in ("left", "right")
    }
    jumped = measured_by(tracker, pairs[0], [], replace(pairs[2], **exposed))
    assert jumped.inliers > 0.8 * steady.inliers
    difference = se3_log(jumped.T_ck_ck1 @ se3_inv(steady.T_ck_ck1))
    assert nees(difference, jumped.cov_T_ck_ck1 + steady.cov_T_ck_ck1) < 30.0


def test_a_wrong_prediction_costs_time_but_no_measurement(flight):
    rig, _, pairs = flight

    def wrong(start_ns, end_ns):
        return PredictedRotation(so3_exp(np.array([0.0, 0.8, 0.0])), 1e-6 * np.eye(3))

    trusting = StereoTracker(rig, predict_rotation=wrong)
    alone = measured_by(StereoTracker(rig), pairs[0], [pairs[1]], pairs[2])
    pose = measured_by(trusting, pairs[0], [pairs[1]], pairs[2])
    assert not pose.reason
    difference = se3_log(pose.T_ck_ck1 @ se3_inv(alone.T_ck_ck1))
    assert nees(difference, pose.cov_T_ck_ck1 + alone.cov_T_ck_ck1) < 30.0


def test_keyframes_that_cannot_be_matched_are_bridged_by_the_pair_between(flight, monkeypatch):
    rig, _, pairs = flight
    tracker = StereoTracker(rig)
    estimator = NearOnly(**vars(tracker.estimator))
    monkeypatch.setattr(tracker, "estimator", estimator)
    bridged = measured_by(tracker, pairs[0], [pairs[1]], pairs[2])
    parts = [measured_by(tracker, pairs[k], [], pairs[k + 1]) for k in range(2)]
    assert not bridged.reason
    assert bridged.stamps_ns == (pairs[0].stamp_ns, pairs[2].stamp_ns)
    np.testing.assert_array_equal(bridged.cov_T_ck_ck1, chained(parts).cov_T_ck_ck1)
    dark = replace(pairs[1], left=np.zeros_like(pairs[1].left))
    assert measured_by(tracker, pairs[0], [dark], pairs[2]).reason == "too far"
