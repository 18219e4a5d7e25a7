"""Metrics: values worked out by hand, and no dependence on the world frame."""

import numpy as np
import pytest

from maci2.estimator import Posterior, VIState
from maci2.geometry import se3_exp
from maci2.metrics.init_errors import angle_deg, initialization_errors
from maci2.sensors import GroundTruth
from maci2_lab.evaluation.summary import is_success

STAMPS = np.array([0, 10**9], dtype=np.int64)


def a_result(gravity, velocity, poses) -> tuple[VIState, Posterior]:
    state = VIState(STAMPS, poses, velocity, gravity, np.zeros(3), np.zeros(3), np.eye(4))
    cov6 = np.stack([np.eye(6) * 1e-4] * 2)
    posterior = Posterior(
        np.eye(3) * 0.04, cov6, np.stack([np.eye(3) * 0.01] * 2), np.eye(3), np.eye(3), cov6[0]
    )
    return state, posterior


def a_truth(Ts_w_b, v_w) -> GroundTruth:
    bias = np.tile([0.03, 0.0, 0.04], (2, 1))
    return GroundTruth(STAMPS, Ts_w_b, v_w, bias, bias)


def test_errors_equal_the_values_worked_out_by_hand():
    poses = np.stack([np.eye(4), np.eye(4)])
    tilt = np.deg2rad(1.0)
    state, posterior = a_result(
        9.81 * np.array([np.sin(tilt), 0.0, -np.cos(tilt)]),
        np.array([[0.3, 0.4, 0.0], [0.0, 0.0, 0.0]]),
        poses,
    )
    errors = initialization_errors(
        state,
        a_truth(poses, np.zeros((2, 3))),
        np.eye(4),
        gyro_bias=np.array([0.0, 0.03, 0.04]),
        mean_bias=np.array([0.03, 0.0, 0.04]),
        posterior=posterior,
    )
    assert errors.gravity_deg == pytest.approx(1.0, abs=1e-9)
    assert errors.velocity_rmse == pytest.approx(0.5 / np.sqrt(2))
    assert errors.velocity_paper == pytest.approx(0.5 / 2)
    assert errors.speed_rmse == pytest.approx(0.5 / np.sqrt(2))
    assert errors.gyro_bias_pct == pytest.approx(100 * 0.03 * np.sqrt(2) / 0.05)
    assert errors.gyro_bias_norm_pct == pytest.approx(0.0, abs=1e-9)
    assert errors.rotation_deg == 0.0
    assert errors.nees["velocity"] == pytest.approx(0.25 / 0.01 / 2 / 3)
    gravity_error = 9.81 * np.tan(tilt) * np.cos(tilt)
    assert errors.nees["gravity"] == pytest.approx(gravity_error**2 / 0.04 / 2, rel=1e-3)
    assert not is_success(errors)


def test_errors_do_not_depend_on_where_the_world_is_and_where_it_looks():
    rng = np.random.default_rng(4)
    T_b_c = se3_exp(rng.normal(size=6) * 0.5)
    poses = np.stack([se3_exp(rng.normal(size=6)) for _ in range(2)])
    velocity = rng.normal(size=(2, 3))
    state, posterior = a_result(np.array([1.0, 2.0, -9.0]), rng.normal(size=(2, 3)), poses)
    yaw = se3_exp(np.array([5.0, -3.0, 2.0, 0.0, 0.0, 1.2]))
    bias = np.ones(3)
    near = initialization_errors(state, a_truth(poses, velocity), T_b_c, bias, bias, posterior)
    far = initialization_errors(
        state, a_truth(yaw @ poses, velocity @ yaw[:3, :3].T), T_b_c, bias, bias, posterior
    )
    for name in ("gravity_deg", "velocity_rmse", "rotation_deg", "translation_m"):
        assert getattr(near, name) == pytest.approx(getattr(far, name), rel=1e-9), name
    assert near.nees == pytest.approx(far.nees)
    assert initialization_errors(state, a_truth(poses, velocity), T_b_c, bias, bias).nees == {}


def test_a_tiny_angle_is_not_lost_to_rounding():
    small = 1e-9
    assert angle_deg(np.array([1.0, 0, 0]), np.array([1.0, small, 0])) == pytest.approx(
        np.rad2deg(small)
    )
