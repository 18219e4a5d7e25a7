"""Errors that last for seconds: found in corrections, covered by what is handed out."""

from dataclasses import replace

import numpy as np
import pytest

from maci2.chain import States
from maci2.evaluation.track_errors import track_errors
from maci2.lie import se3_exp, so3_exp
from maci2.tracking import SmootherConfig, track
from maci2.tracking.slow_errors import SlowFactors, correction
from tracking_cases import simulated_ride


def slowly_wrong(ride, std_rate: float, lasting_s: float, seed: int):
    """The ride with rotations that are wrong by a rate which lasts for seconds [rad/s]."""
    rng, Ts = np.random.default_rng(seed), ride.vision.Ts_ck_ck1.copy()
    kept, rate = np.exp(-0.2 / lasting_s), std_rate * rng.standard_normal(3)
    for k in range(len(Ts)):
        rate = kept * rate + np.sqrt(1.0 - kept**2) * std_rate * rng.standard_normal(3)
        Ts[k] = se3_exp(np.concatenate([np.zeros(3), 0.2 * rate])) @ Ts[k]
    return replace(ride, vision=replace(ride.vision, Ts_ck_ck1=Ts))


def tracked(ride, **choices):
    config = SmootherConfig(**choices)
    found = track(ride.imu, ride.vision, ride.T_b_c, ride.walks, ride.vision.stamps_ns, config)
    gyro = np.array([state.gyro_bias for state in found.states])
    return found, track_errors(found.states, gyro, ride.truth, found.origins)


@pytest.fixture(scope="module")
def ride():
    return simulated_ride(31, duration_s=40.0)


def test_a_consistent_estimate_keeps_its_covariance(ride):
    factors = tracked(ride)[0].slow_factors
    assert factors.vertical < 1.6
    assert factors.gyro_bias < 1.6


def test_rotations_that_are_wrong_for_seconds_widen_the_gyroscope_bias(ride):
    wrong = slowly_wrong(ride, 0.004, 3.0, seed=1)
    found, errors = tracked(wrong)
    _, unwidened = tracked(wrong, adapt_visual_noise=False)
    assert found.slow_factors.gyro_bias > 1.5
    assert errors.nees["gyro_bias"] < 0.6 * unwidened.nees["gyro_bias"]


def test_a_correction_is_the_carried_state_less_the_estimated_one():
    rng = np.random.default_rng(2)
    step = 1e-4 * rng.standard_normal(15)
    T_w_b = se3_exp(rng.standard_normal(6))
    state = States(T_w_b[None], *(rng.standard_normal((1, 3)) for _ in range(3)))
    moved = T_w_b.copy()
    moved[:3, :3] = T_w_b[:3, :3] @ so3_exp(step[0:3])
    moved[:3, 3] += step[6:9]
    carried = States(
        moved[None], state.v_w + step[3:6], state.bias_gyro + step[9:12], state.bias_acc + step[12:]
    )
    np.testing.assert_allclose(correction(carried, state), step, atol=1e-12)


def test_a_wider_covariance_leaves_velocity_and_position_as_they_are():
    A = np.random.default_rng(0).standard_normal((2, 15, 15))
    cov = A @ np.swapaxes(A, 1, 2)
    wide = SlowFactors(4.0, 9.0).covered(cov)
    np.testing.assert_allclose(wide[:, 0:3, 0:3], 4.0 * cov[:, 0:3, 0:3])
    np.testing.assert_allclose(wide[:, 9:12, 9:12], 9.0 * cov[:, 9:12, 9:12])
    np.testing.assert_allclose(wide[:, 12:15, 12:15], 4.0 * cov[:, 12:15, 12:15])
    np.testing.assert_array_equal(wide[:, 3:9, 3:9], cov[:, 3:9, 3:9])
    assert np.linalg.eigvalsh(wide).min() > 0.0
