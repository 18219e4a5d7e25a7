"""Noise of relative rotations from all windows of a recording: right, never above the stated."""

from dataclasses import replace

import numpy as np
import pytest

from consistency.devices import device
from maci2.consistency import estimate_rotation_noise
from maci2.consistency.rotation import LEAST_FACTOR
from maci2.geometry import se3_exp, so3_exp
from maci2.types import NS


def factor_of(one, T_b_c=None):
    noise = estimate_rotation_noise(one.imu, one.windows, one.T_b_c if T_b_c is None else T_b_c)
    assert noise.windows == len(one.windows)
    return noise.factor


@pytest.mark.parametrize("noise", [0.4, 0.6])
def test_noise_below_the_stated_one_is_found(noise):
    found = [factor_of(device(seed=200 + seed, windows=24, noise=noise)) for seed in range(4)]
    # The stated noise counts like 10 numbers beside 576 within and 69 between windows, and the
    # larger of the two is taken.
    assert noise**2 < np.mean(found) < noise**2 + 0.25 * (1.0 - noise**2)


def test_few_windows_stay_near_what_was_stated():
    few, many = (factor_of(device(seed=5, windows=n, noise=0.4)) for n in (2, 24))
    assert few > many + 0.2


def test_noise_above_the_stated_one_and_faults_are_not_taken_for_noise():
    assert factor_of(device(seed=6, noise=3.0)) == 1.0
    one = device(seed=6, noise=0.3)
    scaled = replace(one.imu, gyro=1.3 * one.imu.gyro)
    assert factor_of(replace(one, imu=scaled)) == 1.0


def test_wrong_extrinsics_do_not_matter_and_a_wrong_clock_does_not_narrow():
    one = device(seed=8, windows=24, noise=0.5)
    right = factor_of(one)
    turned = one.T_b_c.copy()
    turned[:3, :3] = so3_exp(np.array([0.4, -1.0, 0.3])) @ turned[:3, :3]
    assert factor_of(one, turned) == pytest.approx(right, rel=1e-2)
    late = [replace(w, stamps_ns=w.stamps_ns + round(0.008 * NS)) for w in one.windows]
    assert factor_of(replace(one, windows=late)) >= right


def test_exact_poses_are_believed_to_a_third_of_the_stated_noise():
    assert factor_of(device(seed=9, windows=40, noise=1e-3)) == pytest.approx(LEAST_FACTOR, abs=0.1)


def test_slow_errors_between_windows_count_though_steps_look_exact():
    one = device(seed=10, windows=24, noise=0.3)
    rng = np.random.default_rng(1)
    slow = []
    for window in one.windows:
        # The same small rotation in every step of a window looks like a bias of the gyroscope.
        turn = se3_exp(np.append(np.zeros(3), rng.normal(0.0, np.deg2rad(0.015), 3)))
        slow.append(replace(window, Ts_ck_ck1=turn @ window.Ts_ck_ck1))
    assert factor_of(replace(one, windows=slow)) > factor_of(one) + 0.3


def test_nothing_measured_says_nothing():
    one = device(seed=0, windows=2)
    assert estimate_rotation_noise(one.imu, [], one.T_b_c) is None
