"""Tracking: consistent, causal, bridging outages, rejecting what contradicts the IMU."""

import sys
from dataclasses import replace

import numpy as np
import pytest

from maci2.errors import DatasetError
from maci2.estimator.outliers import choose_motions
from maci2.geometry import se3_exp, so3_exp
from maci2.metrics.track_errors import alignment, displacement_scale, relative_errors, track_errors
from maci2.odometry import SmootherConfig, track
from maci2.odometry.settings import window_start
from maci2.odometry.track import Tracker
from maci2.types import NS
from maci2.vision import PossibleMotion, pose_noise, poses_from_truth
from tracking_cases import simulated_ride, without


def tracked(ride, reasons=None, config=None):
    return track(
        ride.imu, ride.vision, ride.T_b_c, ride.walks, ride.vision.stamps_ns, config, reasons
    )


def spied(function, windows):
    """The same function, which notes the windows that it is given."""

    def called(imu, window, *others):
        windows.append(window)
        return function(imu, window, *others)

    return called


def errors_of(ride, found):
    gyro = np.array([state.gyro_bias for state in found.states])
    return track_errors(found.states, gyro, ride.truth, found.origins)


@pytest.fixture(scope="module")
def ride():
    return simulated_ride(1)


@pytest.fixture(scope="module")
def causal(ride):
    return tracked(ride)


def test_a_start_goes_on_without_what_its_initialization_rejected(ride):
    """A camera frozen for a second before a start: the window's verdict is ok because poses that
    contradict the IMU were rejected, and a smoother that believed them all the same tilted gravity
    by degrees."""
    Ts, covs = ride.vision.Ts_ck_ck1.copy(), ride.vision.covs_T_ck_ck1.copy()
    Ts[0:6], covs[0:6] = np.eye(4), 1e-8 * np.eye(6)
    frozen = replace(ride, vision=replace(ride.vision, Ts_ck_ck1=Ts, covs_T_ck_ck1=covs))
    found = tracked(frozen)
    assert found.starts[0].report.rejected_poses
    errors = errors_of(ride, found)
    assert errors.gravity_deg < 1.0
    worst = max(
        state.cov[0, 0] + state.cov[1, 1] for state in found.states if state.health == "tracking"
    )
    assert np.rad2deg(np.sqrt(worst)) < 2.0


def test_it_stays_near_the_truth_and_knows_how_near(ride, causal):
    errors = errors_of(ride, causal)
    assert errors.ate_m < 0.05
    assert errors.gravity_deg < 0.5
    assert abs(errors.scale - 1.0) < 0.02
    assert {state.health for state in causal.states} == {"tracking"}


def test_states_do_not_depend_on_what_comes_later(ride, causal):
    half = len(ride.vision) // 2
    earlier = replace(ride, vision=ride.vision.part(0, half))
    found = tracked(earlier)
    for one, other in zip(found.states, causal.states, strict=False):
        assert one.stamp_ns == other.stamp_ns
        np.testing.assert_array_equal(one.T_w_b, other.T_w_b)
        np.testing.assert_array_equal(one.cov, other.cov)


def test_a_blackout_is_bridged_and_sigma_covers_the_error(ride):
    found = tracked(ride, without(ride.vision, 6.0, 8.0))
    bridged = [state for state in found.states if state.health == "bridging"]
    assert 8 <= len(bridged) <= 11
    assert {state.segment for state in found.states} == {0}
    stds = [np.sqrt(np.trace(state.cov[6:9, 6:9])) for state in bridged]
    assert np.all(np.diff(stds) > 0.0)
    assert errors_of(ride, found).nees["velocity"] < 4.0


def test_after_a_long_outage_it_says_that_it_is_lost(ride):
    found = tracked(ride, without(ride.vision, 5.0, 9.5))
    health = [state.health for state in found.states]
    assert "lost" in health
    assert health[-1] == "tracking"
    assert health.index("bridging") < health.index("lost")


def test_images_long_after_the_last_keyframe_are_not_called_tracked(ride):
    """A trajectory of another odometry that pauses has no keyframes there at all."""
    since_s = (ride.vision.stamps_ns - ride.vision.stamps_ns[0]) / 1e9
    before = ride.vision.part(0, int(np.searchsorted(since_s, 6.0)))
    end_ns = int(before.stamps_ns[-1])
    images_ns = ride.vision.stamps_ns[ride.vision.stamps_ns <= end_ns + round(4.5e9)]
    found = track(ride.imu, before, ride.T_b_c, ride.walks, images_ns)
    health = {round((s.stamp_ns - end_ns) / 1e9, 1): s.health for s in found.states}
    assert (health[0.0], health[0.8]) == ("tracking", "tracking")
    assert (health[1.4], health[2.8]) == ("bridging", "bridging")
    assert (health[3.4], health[4.4]) == ("lost", "lost")


@pytest.mark.parametrize("interval_s", [0.2, 0.28, 0.45, 0.6])
def test_a_window_is_found_whatever_the_interval_of_keyframes(interval_s):
    stamps_ns = (np.arange(20) * interval_s * 1e9).astype(np.int64)
    first = window_start(stamps_ns, 19)
    assert 2.25 < (stamps_ns[19] - stamps_ns[first]) / 1e9 < 2.6 + interval_s
    assert window_start(stamps_ns, 3) is None


def test_a_wrong_relative_pose_is_rejected_and_named(ride, causal):
    k = 40
    wrong = ride.vision.Ts_ck_ck1.copy()
    wrong[k] = se3_exp(np.array([0.3, 0.0, 0.0, 0.0, 0.1, 0.0])) @ wrong[k]
    found = tracked(replace(ride, vision=replace(ride.vision, Ts_ck_ck1=wrong)))
    rejected = [keyframe for keyframe in found.keyframes if keyframe.rejected]
    assert [keyframe.stamp_ns for keyframe in rejected] == [int(ride.vision.stamps_ns[k + 1])]
    assert "contradicts the IMU" in rejected[0].reason
    assert errors_of(ride, found).ate_m < 2.0 * errors_of(ride, causal).ate_m + 0.01


def test_a_relative_pose_of_a_thing_is_replaced_by_the_camera_s_motion(ride, causal, monkeypatch):
    """Most matches tell a thing's motion, fewer the camera's: the IMU chooses."""
    k, vision = 40, ride.vision
    wrong = vision.Ts_ck_ck1.copy()
    wrong[k] = se3_exp(np.array([0.3, 0.0, 0.0, 0.0, 0.0, 0.0])) @ wrong[k]
    two = tuple(
        PossibleMotion(T, vision.covs_T_ck_ck1[k], share)
        for T, share in ((wrong[k], 0.7), (vision.Ts_ck_ck1[k], 0.3))
    )
    motions = tuple(two if j == k else () for j in range(len(wrong)))
    doubted = replace(vision, Ts_ck_ck1=wrong, motions=motions)
    asked = []
    monkeypatch.setattr(
        sys.modules[Tracker.__module__], "choose_motions", spied(choose_motions, asked)
    )
    found = tracked(replace(ride, vision=doubted))
    # The newest pose once, and the window that questions the constants.
    assert sum(any(window.motions) for window in asked) <= 2
    chosen = [keyframe.stamp_ns for keyframe in found.keyframes if keyframe.second_motion]
    assert chosen == [int(vision.stamps_ns[k + 1])]
    assert not any(keyframe.rejected for keyframe in found.keyframes)
    for one, other in zip(found.states, causal.states, strict=True):
        np.testing.assert_array_equal(one.T_w_b, other.T_w_b)


def test_larger_noise_than_stated_widens_sigma_unless_switched_off():
    ride = simulated_ride(2, noise=(0.2, 0.012))
    stated = np.tile(
        np.diag([0.003**2] * 3 + [np.deg2rad(0.05) ** 2] * 3), (len(ride.vision) - 1, 1, 1)
    )
    ride = replace(ride, vision=replace(ride.vision, covs_T_ck_ck1=stated))
    adapted = errors_of(ride, tracked(ride))
    fixed = errors_of(ride, tracked(ride, config=SmootherConfig(adapt_visual_noise=False)))
    assert adapted.nees["velocity"] < 0.7 * fixed.nees["velocity"]


def test_the_last_image_may_fall_on_an_imu_sample(ride):
    stamps_ns = ride.vision.stamps_ns
    last = int(np.searchsorted(ride.imu.stamps_ns, stamps_ns[-1]))
    on_sample = replace(ride.vision, stamps_ns=np.append(stamps_ns[:-1], ride.imu.stamps_ns[last]))
    found = tracked(replace(ride, vision=on_sample))
    assert found.states[-1].stamp_ns == int(ride.imu.stamps_ns[last])


def test_a_gap_of_the_imu_ends_a_segment_and_another_begins_after_it(ride):
    since_s = (ride.imu.stamps_ns - ride.imu.stamps_ns[0]) / 1e9
    kept = (since_s < 6.0) | (since_s > 6.2)
    names = ("stamps_ns", "gyro", "acc", "var_gyro", "var_acc")
    gappy = replace(ride.imu, **{name: getattr(ride.imu, name)[kept] for name in names})
    found = tracked(replace(ride, imu=gappy))
    assert {state.segment for state in found.states} == {0, 1}
    assert any("no IMU sample" in keyframe.reason for keyframe in found.keyframes)


def test_without_a_usable_window_it_says_so():
    ride = simulated_ride(3, duration_s=6.0)
    nothing = ["dark"] * (len(ride.vision) - 1)
    blind = replace(ride.vision, covs_T_ck_ck1=1e4 * ride.vision.covs_T_ck_ck1 * 1e4)
    with pytest.raises(DatasetError, match="never started"):
        tracked(replace(ride, vision=blind), nothing)


def test_alignment_finds_a_known_rotation_translation_and_scale():
    rng = np.random.default_rng(0)
    points = rng.standard_normal((50, 3))
    T = se3_exp(np.array([1.0, -2.0, 0.5, 0.3, -0.8, 1.2]))
    R, t, scale = alignment(1.1 * points, points @ T[:3, :3].T + T[:3, 3])
    np.testing.assert_allclose(R, T[:3, :3], atol=1e-12)
    np.testing.assert_allclose(scale, 1.1, rtol=1e-12)
    np.testing.assert_allclose(
        R @ (1.1 * points.mean(0)) + t, T[:3, :3] @ points.mean(0) + T[:3, 3]
    )


def test_relative_errors_do_not_depend_on_the_world():
    stamps_ns = np.arange(0, 3_000_000_000, 100_000_000)
    xi = np.linspace(0.0, 1.0, len(stamps_ns))[:, None] * np.array([1.0, 0.2, 0.0, 0.1, 0.5, -0.3])
    Ts = np.array([se3_exp(one) for one in xi])
    T = se3_exp(np.array([5.0, 1.0, 2.0, 0.4, -1.0, 0.2]))
    rms, median = relative_errors(stamps_ns, T @ Ts, Ts, 1.0)
    assert max(rms, median) < 1e-12
    longer = Ts.copy()
    longer[:, :3, 3] *= 1.01
    rms, _ = relative_errors(stamps_ns, longer, Ts, 1.0)
    assert 0.002 < rms < 0.005
    assert displacement_scale(stamps_ns, T @ longer, Ts, 1.0) == pytest.approx(1.01)
    assert np.isnan(displacement_scale(stamps_ns, Ts, Ts, 10.0))


def test_drift_moves_the_scale_of_an_alignment_and_not_that_of_displacements():
    """A heading that drifts bends the trajectory; every second of it is as long as before."""
    stamps_ns = np.arange(0, 60_000_000_000, 100_000_000)
    t = np.arange(len(stamps_ns)) / 10.0
    true_Ts = np.tile(np.eye(4), (len(t), 1, 1))
    true_Ts[:, 0, 3], true_Ts[:, 1, 3] = np.sin(0.5 * t), np.cos(0.7 * t)
    Ts = true_Ts.copy()
    Ts[:, :3, :3] = [so3_exp(np.array([0.0, 0.0, 0.01 * s])) for s in t]
    steps = np.einsum("kij,kj->ki", Ts[:-1, :3, :3], np.diff(true_Ts[:, :3, 3], axis=0))
    Ts[1:, :3, 3] = Ts[0, :3, 3] + np.cumsum(steps, axis=0)
    assert displacement_scale(stamps_ns, Ts, true_Ts, 1.0) == pytest.approx(1.0, abs=2e-4)
    assert alignment(Ts[:, :3, 3], true_Ts[:, :3, 3])[2] > 1.01


@pytest.mark.slow
def test_errors_match_their_covariance_over_thirty_minutes():
    nees = []
    for seed in range(30):
        ride = simulated_ride(100 + seed, duration_s=60.0)
        nees.append(errors_of(ride, tracked(ride)).nees)
    mean = {part: np.mean([one[part] for one in nees]) for part in nees[0]}
    assert all(0.8 < mean[part] < 1.25 for part in ("velocity", "gravity", "gyro_bias")), mean
    # What drifts has a few independent values in a minute: heading gains nothing from linearizing.
    assert all(0.6 < mean[part] < 1.4 for part in ("orientation", "position")), mean


@pytest.mark.parametrize(("sensor", "size"), [("gyro", 0.01), ("gyro", 0.02), ("acc", 0.2)])
def test_a_bias_that_jumps_is_said_and_a_new_start_made(sensor, size):
    """Too little to have single relative poses rejected; taken for visual noise, the state would
    follow the IMU for ever."""
    ride = simulated_ride(401, 40.0)
    samples = getattr(ride.imu, sensor).copy()
    jumped_ns = int(ride.imu.stamps_ns[0]) + 20 * NS
    samples[ride.imu.stamps_ns > jumped_ns, 0] += size
    imu = replace(ride.imu, **{sensor: samples})
    found = track(imu, ride.vision, ride.T_b_c, ride.walks, ride.vision.stamps_ns)
    assert len(found.contradicted_ns) == 1
    assert jumped_ns < found.contradicted_ns[0] < jumped_ns + 8 * NS
    assert found.verdict.status == "weak"
    assert "contradicted" in found.verdict.reasons[0]
    last = [state for state in found.states if state.stamp_ns > found.contradicted_ns[0] + NS]
    assert {(state.health, state.segment) for state in last} == {("tracking", 1)}
    errors = track_errors(last, np.zeros((len(last), 3)), ride.truth)
    assert errors.nees["velocity"] < 2.0
    assert errors.nees["gravity"] < 2.0


def test_sound_rides_contradict_nothing():
    for seed, kind in ((405, "handheld"), (406, "drone")):
        ride = simulated_ride(seed, 30.0, kind=kind)
        found = track(ride.imu, ride.vision, ride.T_b_c, ride.walks, ride.vision.stamps_ns)
        assert (found.verdict.status, found.contradicted_ns) == ("ok", ())


def test_half_a_minute_without_images_is_bridged_by_the_imu():
    """Keyframes thirty seconds apart and nothing measured between them: the state stays tied."""
    ride = simulated_ride(402, 50.0)
    since_s = (ride.vision.stamps_ns - ride.vision.stamps_ns[0]) / NS
    stamps_ns = ride.vision.stamps_ns[(since_s < 12.0) | (since_s > 42.0)]
    vision = poses_from_truth(ride.truth, stamps_ns, ride.T_b_c, pose_noise(0.05, 0.003), (402,))
    reasons = list(vision.reasons)
    reasons[int(np.argmax(np.diff(stamps_ns)))] = "too far apart"
    vision = replace(vision, reasons=tuple(reasons))
    found = track(ride.imu, vision, ride.T_b_c, ride.walks, stamps_ns)
    assert {state.segment for state in found.states} == {0}
    errors = track_errors(found.states, np.zeros((len(found.states), 3)), ride.truth, found.origins)
    assert errors.nees["velocity"] < 2.0
    assert np.nanmax(errors.nees_over_time["position"]) < 5.0


def test_an_imu_that_covers_a_part_is_tracked_there():
    ride = simulated_ride(402, 20.0)
    first_ns = int(ride.imu.stamps_ns[0])
    for begin_s, end_s in ((0, 12), (6, 20)):
        imu = ride.imu.between(first_ns + begin_s * NS, first_ns + end_s * NS)
        found = track(imu, ride.vision, ride.T_b_c, ride.walks, ride.vision.stamps_ns)
        since_s = np.array([state.stamp_ns - first_ns for state in found.states]) / NS
        assert since_s[0] < begin_s + 3.0
        assert end_s - 0.3 < since_s[-1] <= end_s


def test_keyframes_too_far_apart_for_a_window_are_named(ride):
    keyframes_ns = ride.vision.stamps_ns[::5]
    seldom = poses_from_truth(ride.truth, keyframes_ns, ride.T_b_c, pose_noise(0.05, 0.003), (1,))
    with pytest.raises(DatasetError, match=r"A window needs five keyframes over 2.5 s; here are"):
        tracked(replace(ride, vision=seldom))
