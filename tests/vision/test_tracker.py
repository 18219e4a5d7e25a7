"""One tracker: recorded and live images give the same relative poses and the same complaints."""

from dataclasses import replace

import numpy as np
import pytest

from maci2.datasets import open_recording
from maci2.datasets.image_files import stereo_frames
from maci2.errors import CalibrationError, MeasurementError
from maci2.lie import so3_exp
from maci2.pipeline.online.keyframes import KeyframeTracker
from maci2.vision.odometry import StereoOdometry
from maci2.vision.tracker import StereoTracker


@pytest.fixture(scope="module")
def flight(drawn):
    recording = open_recording(drawn)
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


def test_one_keyframe_against_the_calibration_is_forgiven(flight):
    """Three in a row are not; a clear view in between starts the count anew."""
    rig, _, pairs = flight
    tracker = StereoTracker(rig)
    tracker.start(pairs[0])
    for k, pair in enumerate(pairs[1:7]):
        rows_off = replace(pair, right=np.roll(pair.right, 2, axis=0))
        tracker.advance([], pair if k % 3 == 2 else rows_off)
    assert tracker.last_ns == pairs[6].stamp_ns


def test_pairs_out_of_order_are_named(flight):
    rig, _, pairs = flight
    tracker = StereoTracker(rig)
    tracker.start(pairs[1])
    with pytest.raises(MeasurementError, match=f"{pairs[0].stamp_ns} ns follows"):
        tracker.advance([], pairs[0])
