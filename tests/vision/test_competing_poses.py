"""Which of several measurements of one motion is believed."""

from dataclasses import replace

import numpy as np
import pytest

from maci2.datasets import open_recording
from maci2.datasets.frames import stereo_frames
from maci2.geometry import se3_exp, se3_inv, se3_log
from maci2.pipeline.render_along import rendered_on_imu_clock
from maci2.pipeline.vision_sources import rotation_predictor
from maci2.sensors import truth_at
from maci2.simulation.rendering.difficulty import HARD
from maci2.simulation.rendering.images import RenderConfig, render_recording
from maci2.vision.hypotheses import better, beyond_doubt, differ, in_dispute
from maci2.vision.odometry import StereoOdometry
from maci2.vision.relative_pose import RelativePose, unmeasured
from maci2.vision.relative_poses import PossibleMotion

MM = 1e-3


def pose(x_mm, begin_ms=0, end_ms=100, std_mm=1.0, inliers=300):
    cov = np.diag([(std_mm * MM) ** 2] * 3 + [1e-8] * 3)
    T = se3_exp(np.array([x_mm * MM, 0.0, 0.0, 0.0, 0.0, 0.0]))
    return RelativePose((begin_ms * 10**6, end_ms * 10**6), T, cov, 400, inliers, 0.1)


def doubted(one, other_x_mm):
    """A pose that fewer matches tell otherwise; its covariance covers both."""
    other = pose(other_x_mm)
    motions = tuple(
        PossibleMotion(each.T_ck_ck1, each.cov_T_ck_ck1, share)
        for each, share in ((one, 0.6), (other, 0.4))
    )
    cov = one.cov_T_ck_ck1 + np.diag([0.2**2] * 3 + [0.0] * 3)
    return replace(one, cov_T_ck_ck1=cov, motions=motions)


def test_measurements_of_one_motion_do_not_differ():
    assert not differ(pose(41.0), pose(41.5))


def test_motions_a_period_apart_differ_even_where_each_is_in_doubt():
    assert differ(pose(41.0), pose(253.0))
    assert differ(doubted(pose(41.0), 253.0), doubted(pose(253.0), 41.0))


def test_anything_is_better_than_nothing():
    nothing = unmeasured((0, 10**8), "dark")
    assert differ(pose(1.0), nothing)
    assert better(nothing, pose(1.0, inliers=20)).inliers == 20


def test_matches_that_agree_on_one_motion_settle_it_if_they_are_many():
    assert beyond_doubt(pose(20.0))
    assert not beyond_doubt(pose(20.0, inliers=200))
    # What the others tell has no like support then, and is handed on beside.
    assert beyond_doubt(doubted(pose(20.0), 250.0))


def test_measurements_are_in_dispute_where_they_differ_or_half_of_the_matches_do():
    assert not in_dispute([pose(20.0, inliers=200), pose(20.1, inliers=210)])
    assert in_dispute([pose(20.0, inliers=200), pose(250.0, inliers=210)])
    assert in_dispute([pose(20.0, inliers=100)])
    assert in_dispute([unmeasured((0, 10**8), "dark")])


@pytest.mark.dataset
def test_a_wall_that_repeats_is_not_matched_a_period_off(data_root, tmp_path):
    """Walls like chessboards, passed at 1.2 m/s: measured between keyframes alone, five of the
    relative poses are off by 0.2 to 0.5 m."""
    config = RenderConfig(replace(HARD, repetition=1.0, plain_walls=0.0), 14, 20.0, 18.0, 3.6)
    source = open_recording(data_root / "euroc" / "V2_03_difficult")
    flight, _ = rendered_on_imu_clock(source, config)
    render_recording(flight, tmp_path / "flight", config)
    recording = open_recording(tmp_path / "flight")
    odometry = StereoOdometry(
        stereo_frames(recording), recording.rig, predict_rotation=rotation_predictor(recording)
    )
    keyframes_ns = odometry.stamps_ns[8:40:4]
    Ts_w_cr = (
        truth_at(recording.truth(()), keyframes_ns, 0.06).Ts_w_b @ odometry.rectification.T_b_cr
    )
    poses = odometry.poses(keyframes_ns)
    assert poses.measured.all()
    for k, T_ck_ck1 in enumerate(poses.Ts_ck_ck1):
        error = se3_log(T_ck_ck1 @ se3_inv(se3_inv(Ts_w_cr[k]) @ Ts_w_cr[k + 1]))
        assert np.linalg.norm(error[:3]) < 0.01, k
