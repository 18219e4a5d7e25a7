"""Zero motion: used where a device stands still, and never where it only moves slowly."""

from dataclasses import replace

import numpy as np
import pytest

from maci2.geometry import se3_inv, so3_exp
from maci2.metrics.track_errors import known_stamps, track_errors
from maci2.odometry.settings import tracker_settings
from maci2.odometry.track import Tracker, track
from maci2.pipeline.options import RunOptions
from maci2.pipeline.prepare import open_inputs
from maci2.pipeline.track_recording import keyframes_of
from maci2.sensors import truth_at
from maci2.types import GRAVITY_NORM
from maci2.vision import pose_noise, poses_from_truth
from tracking_cases import simulated_ride

TURNING_FROM_S = 6.0


def standing_ride(seed: int, duration_s: float = 12.0):
    """A ride with the sensors' noise and no motion at all; biases are constant."""
    ride = simulated_ride(seed, duration_s, kind="static")
    rng = np.random.default_rng(seed)
    truth, imu = ride.truth, ride.imu
    T_w_b, bias_gyro, bias_acc = truth.Ts_w_b[0], truth.bias_gyro[0], truth.bias_acc[0]
    force_b = T_w_b[:3, :3].T @ np.array([0.0, 0.0, GRAVITY_NORM])
    gyro = bias_gyro + rng.standard_normal(imu.gyro.shape) * np.sqrt(imu.var_gyro)
    acc = force_b + bias_acc + rng.standard_normal(imu.acc.shape) * np.sqrt(imu.var_acc)
    still = replace(
        truth,
        Ts_w_b=np.tile(T_w_b, (len(truth.stamps_ns), 1, 1)),
        v_w=np.zeros_like(truth.v_w),
        bias_gyro=np.tile(bias_gyro, (len(truth.stamps_ns), 1)),
        bias_acc=np.tile(bias_acc, (len(truth.stamps_ns), 1)),
    )
    noise = pose_noise(0.05, 0.003)
    vision = poses_from_truth(still, ride.vision.stamps_ns, ride.T_b_c, noise, seed=(seed,))
    return replace(ride, imu=replace(imu, gyro=gyro, acc=acc), vision=vision, truth=still)


@pytest.fixture(scope="module")
def standing():
    return standing_ride(11)


def turning(ride, rate: float):
    """The ride with a slow rotation about the vertical that begins after some seconds: images
    measure it and hide it in their noise, the accelerometer does not see it."""
    T_w_b = ride.truth.Ts_w_b[0]
    up_b = T_w_b[2, :3]
    since_s = (ride.imu.stamps_ns - ride.vision.stamps_ns[0]) / 1e9
    gyro = ride.imu.gyro + np.outer(since_s > TURNING_FROM_S, rate * up_b)
    T_c_b = se3_inv(np.ascontiguousarray(ride.T_b_c))
    Ts = ride.vision.Ts_ck_ck1.copy()
    at_s = (ride.vision.stamps_ns - ride.vision.stamps_ns[0]) / 1e9
    turned_s = np.diff(np.maximum(at_s - TURNING_FROM_S, 0.0))
    for k in np.flatnonzero(turned_s):
        T_bk_bk1 = np.eye(4)
        T_bk_bk1[:3, :3] = so3_exp(rate * turned_s[k] * up_b)
        Ts[k] = T_c_b @ T_bk_bk1 @ ride.T_b_c @ Ts[k]
    return replace(
        ride, imu=replace(ride.imu, gyro=gyro), vision=replace(ride.vision, Ts_ck_ck1=Ts)
    )


def bias_sigmas(ride) -> np.ndarray:
    """(n, 3) errors of the gyroscope bias at the keyframes, in standard deviations."""
    found = track(ride.imu, ride.vision, ride.T_b_c, ride.walks, ride.vision.stamps_ns)
    true = ride.truth_at(np.array([state.stamp_ns for state in found.states])).bias_gyro
    errors = np.array([state.gyro_bias for state in found.states]) - true
    return errors / np.sqrt([np.diag(state.cov)[9:12] for state in found.states])


@pytest.mark.parametrize("rate", [0.001, 0.003, 0.008, 0.03])
def test_a_slow_rotation_that_begins_is_not_taken_for_the_gyroscope_bias(standing, rate):
    assert np.abs(bias_sigmas(turning(standing, rate))).max() < 5.0


def test_swaying_by_a_tenth_of_a_degree_is_not_standing_still():
    assert np.abs(bias_sigmas(simulated_ride(11, kind="static"))).max() < 5.0


def test_a_device_that_stands_still_knows_that_it_has_no_velocity(standing):
    tracker = Tracker(standing.T_b_c, standing.walks)
    for k in range(1, len(standing.vision)):
        tracker.advance(standing.imu, standing.vision, k, "")
    state, cov = tracker.smoother.latest
    assert np.sqrt(np.diag(cov))[3:6].max() < 0.004
    assert np.linalg.norm(state.v_w[0]) < 0.01


@pytest.mark.slow
def test_errors_of_standing_devices_are_no_larger_than_their_covariance_says():
    last = [bias_sigmas(standing_ride(200 + seed, duration_s=20.0))[-1] for seed in range(30)]
    assert 0.6 < np.mean(np.square(last)) < 1.4, np.mean(np.square(last))


@pytest.mark.dataset
def test_a_drone_that_takes_off_does_not_take_its_first_rotation_for_a_bias(data_root):
    """MH_05 stands for three seconds, then rotates by 0.1 deg, which DROID's noise hides."""
    file = "visual/droid_stereo_Twc_tum.txt"
    options = RunOptions(vision=f"trajectory:{file}", vision_frame="rectified", imu="raw")
    inputs = open_inputs(data_root / "euroc" / "MH_05_difficult", options)
    keyframes_ns = keyframes_of(inputs, inputs.measurable_ns(), 0.2)[:60]
    vision = inputs.vision.motion(keyframes_ns, 0)
    walks, config = tracker_settings(inputs.recording.rig, options.imu)
    found = track(inputs.imu, vision, inputs.T_b_c, walks, keyframes_ns, config)
    assert inputs.truth is not None
    gyro = np.array([state.gyro_bias for state in found.states])
    errors = track_errors(found.states, gyro, inputs.truth, found.origins)
    assert errors.velocity_rmse < 0.05
    stamps_ns = np.array([state.stamp_ns for state in found.states])
    stamps_ns = stamps_ns[known_stamps(inputs.truth, stamps_ns)]
    true = truth_at(inputs.truth, stamps_ns, 0.25).bias_gyro
    assert np.abs(gyro[-len(true) :] - true).max() < 0.003
