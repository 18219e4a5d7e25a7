"""The watchdog: quiet where an odometry is right, prompt where not, with a state that holds."""

from dataclasses import replace

import numpy as np
import pytest

from maci2.estimator.problem import States
from maci2.geometry import se3_exp, se3_inv, so3_exp
from maci2.geometry.gaussian import nees
from maci2.odometry.settings import window_start
from maci2.tools.watchdog import Watchdog
from maci2.tools.watchdog.watch import Comparison, sigmas_of
from maci2.tools.watchdog.watched_recording import openvins_state
from tracking_cases import simulated_ride

AT = 45
"""Relative pose after which faults begin."""


@pytest.fixture(scope="module")
def ride():
    return simulated_ride(7, duration_s=14.0)


def watched(ride, Ts=None):
    """Alarms of a ride whose relative poses are replaced."""
    vision = ride.vision if Ts is None else replace(ride.vision, Ts_ck_ck1=Ts)
    stamps_ns = vision.stamps_ns
    dog = Watchdog(ride.T_b_c, ride.walks)
    for k in range(1, len(stamps_ns)):
        stamp_ns = int(stamps_ns[k])
        if not dog.is_watching:
            first = window_start(stamps_ns, k)
            if first is not None:
                dog.start(ride.imu.between(int(stamps_ns[first]), stamp_ns), vision.part(first, k))
            continue
        samples = ride.imu.between(dog.needed_from_ns, stamp_ns)
        T, cov = vision.Ts_ck_ck1[k - 1], vision.covs_T_ck_ck1[k - 1]
        alarm = dog.add(samples, stamp_ns, T, cov)
        if alarm is not None:
            return alarm
    return None


def with_fault(ride, fault):
    Ts = ride.vision.Ts_ck_ck1.copy()
    if fault == "jump":
        Ts[AT, :3, 3] += [0.06, -0.06, 0.05]
    elif fault == "tilt":
        Ts[AT] = Ts[AT] @ se3_exp(np.array([0.0, 0.0, 0.0, np.deg2rad(2.0), 0.0, 0.0]))
    elif fault == "scale":
        Ts[AT:, :3, 3] *= 1.2
    else:
        Ts[AT:] = np.eye(4)
    return Ts


def test_a_sound_odometry_raises_no_alarm(ride):
    assert watched(ride) is None


@pytest.mark.parametrize("fault", ["jump", "tilt", "scale", "stall"])
def test_a_fault_is_found_within_two_seconds_and_named(ride, fault):
    alarm = watched(ride, with_fault(ride, fault))
    assert alarm is not None
    onset_ns = int(ride.vision.stamps_ns[AT])
    assert 0 <= alarm.stamp_ns - onset_ns <= 2_000_000_000
    assert alarm.fault == fault
    assert alarm.sigmas > 6.5


def test_the_size_of_a_jump_is_told(ride):
    alarm = watched(ride, with_fault(ride, "jump"))
    assert np.linalg.norm(alarm.size) == pytest.approx(np.linalg.norm([0.06, 0.06, 0.05]), rel=0.2)


def test_the_state_to_restart_from_is_that_of_before_the_fault(ride):
    restart = watched(ride, with_fault(ride, "jump")).restart
    truth = ride.truth_at(np.array([restart.stamp_ns]))
    R, true_R = restart.T_w_b[:3, :3], truth.Ts_w_b[0, :3, :3]
    v_error = R.T @ restart.v_w - true_R.T @ truth.v_w[0]
    assert np.linalg.norm(v_error) < 5.0 * np.sqrt(np.trace(restart.cov[3:6, 3:6]))
    down = restart.gravity_b / np.linalg.norm(restart.gravity_b)
    assert np.rad2deg(np.arccos(down @ -true_R[2])) < 1.0
    assert nees(restart.gyro_bias - truth.bias_gyro[0], restart.cov[9:12, 9:12]) / 3.0 < 5.0


def test_openvins_gets_seventeen_numbers_with_the_rotation_from_the_world(ride):
    restart = watched(ride, with_fault(ride, "jump")).restart
    T = restart.T_w_b.copy()
    T[:3, :3] = so3_exp(np.array([0.0, 0.0, np.pi / 2.0]))
    numbers = openvins_state(replace(restart, T_w_b=T), np.zeros(3), np.ones(3)).split()
    assert len(numbers) == 17
    # JPL's q_GtoI of a body that is rotated by +90 deg about z.
    np.testing.assert_allclose([float(x) for x in numbers[1:5]], [0, 0, 0.5**0.5, 0.5**0.5])
    assert numbers[-3:] == ["1", "1", "1"]


def test_probabilities_become_standard_deviations_far_into_the_tail():
    assert sigmas_of(np.log(0.158655)) == pytest.approx(1.0, abs=1e-3)
    assert sigmas_of(-5000.0) == 30.0


def compared(ride, first=20, length=4, T_w_b=None, change=None, scale=0.0, noise=None):
    """Residuals of a comparison that begins at the truth, or a small change away from it."""
    stamps_ns = ride.vision.stamps_ns
    truth = ride.truth_at(stamps_ns[first : first + 1])
    change = np.zeros(15) if change is None else change
    T = truth.Ts_w_b[0].copy()
    T[:3, :3] = T[:3, :3] @ so3_exp(change[0:3])
    T[:3, 3] += change[6:9]
    state = States(
        T[None],
        truth.v_w + change[3:6],
        truth.bias_gyro + change[9:12],
        truth.bias_acc + change[12:15],
    )
    from maci2.estimator.problem import shared_parameters

    shared = shared_parameters(T_b_c=ride.T_b_c, log_scale=scale)
    window = Comparison(int(stamps_ns[first]), state, np.eye(15), shared, 0.0, ride.walks)
    Ts_w_c = ride.truth_at(stamps_ns[first : first + length + 1]).Ts_w_b @ ride.T_b_c
    for j in range(length):
        T_rel = se3_inv(np.ascontiguousarray(Ts_w_c[j])) @ Ts_w_c[j + 1]
        if noise is not None and j == 1:
            T_rel = se3_exp(noise) @ T_rel
        window.extend(ride.imu, int(stamps_ns[first + j + 1]), T_rel, np.eye(6))
    return window


def test_derivatives_of_a_comparison_match_finite_differences(ride):
    window, step = compared(ride), 1e-5
    by_state = np.concatenate([one.by_state for one in window.keyframes])
    by_scale = np.concatenate([one.by_scale for one in window.keyframes])

    def slope(**kinds):
        moved = [compared(ride, **kind).residuals for kind in kinds.values()]
        return (moved[0] - moved[1]) / (2.0 * step)

    for i in range(15):
        unit = step * np.eye(15)[i]
        numerical = slope(plus={"change": unit}, minus={"change": -unit})
        np.testing.assert_allclose(by_state[:, i], numerical, atol=5e-3)
    numerical = slope(plus={"scale": step}, minus={"scale": -step})
    np.testing.assert_allclose(by_scale, numerical, atol=1e-6)
    for i in range(6):
        unit = step * np.eye(6)[i]
        numerical = slope(plus={"noise": unit}, minus={"noise": -unit}).reshape(4, 6)
        for k in range(1, 4):
            np.testing.assert_allclose(
                window.keyframes[k].by_odometry[1][:, i], numerical[k], atol=5e-3
            )


def test_residuals_of_a_sound_odometry_are_as_large_as_their_covariance_says():
    scores = []
    for seed in range(3):
        ride = simulated_ride(40 + seed, duration_s=12.0)
        scores += _scores(ride)
    assert 0.75 < np.mean(scores) < 1.3


def _scores(ride):
    dog, found = Watchdog(ride.T_b_c, ride.walks), []
    stamps_ns = ride.vision.stamps_ns
    for k in range(1, len(stamps_ns)):
        stamp_ns = int(stamps_ns[k])
        if not dog.is_watching:
            first = window_start(stamps_ns, k)
            if first is not None:
                samples = ride.imu.between(int(stamps_ns[first]), stamp_ns)
                dog.start(samples, ride.vision.part(first, k))
            continue
        dog.add(
            ride.imu.between(dog.needed_from_ns, stamp_ns),
            stamp_ns,
            ride.vision.Ts_ck_ck1[k - 1],
            ride.vision.covs_T_ck_ck1[k - 1],
        )
        window = dog._windows[0]
        if len(window.keyframes) == 9:
            e = window.residuals
            found.append(float(nees(e, window.covariance())) / len(e))
    return found
