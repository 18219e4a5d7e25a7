"""The IMU's prediction of the next keyframe: derivatives and covariances."""

from dataclasses import replace

import numpy as np

from helpers import numerical_jacobian
from maci2.estimator.problem import States, shared_parameters
from maci2.estimator.smoother import predict
from maci2.geometry import se3_exp, se3_inv, se3_log, so3_exp, so3_log
from tracking_cases import simulated_ride

WALKS = (1e-12, 1e-12)


def case():
    ride = simulated_ride(7, duration_s=4.0)
    rng = np.random.default_rng(0)
    T_w_b = se3_exp(rng.standard_normal(6))
    state = States(T_w_b[None], *(s * rng.standard_normal((1, 3)) for s in (1.0, 0.01, 0.1)))
    shared = shared_parameters(T_b_c=ride.T_b_c, log_scale=0.02)
    return ride.imu, ride.vision.stamps_ns[4:6], state, shared


def moved(state: States, dx) -> States:
    T = state.Ts_w_b[0].copy()
    T[:3, :3] = T[:3, :3] @ so3_exp(dx[0:3])
    T[:3, 3] += dx[6:9]
    return States(
        T[None], state.v_w + dx[3:6], state.bias_gyro + dx[9:12], state.bias_acc + dx[12:]
    )


def difference(one: States, other: States):
    """(15,) `one` less `other`, in the coordinates of a state."""
    R = other.Ts_w_b[0, :3, :3].T @ one.Ts_w_b[0, :3, :3]
    parts = (
        so3_log(np.ascontiguousarray(R)),
        (one.v_w - other.v_w)[0],
        (one.Ts_w_b[:, :3, 3] - other.Ts_w_b[:, :3, 3])[0],
        (one.bias_gyro - other.bias_gyro)[0],
        (one.bias_acc - other.bias_acc)[0],
    )
    return np.concatenate(parts)


def test_derivatives_by_the_state_before():
    imu, span_ns, state, shared = case()
    at = predict(imu, span_ns, state, np.eye(15), shared, WALKS)

    def carried(dx):
        found = predict(imu, span_ns, moved(state, dx), np.eye(15), shared, WALKS)
        return difference(found.end.state, at.end.state)

    def motion(dx):
        found = predict(imu, span_ns, moved(state, dx), np.eye(15), shared, WALKS)
        return se3_log(found.T_ck_ck1 @ se3_inv(at.T_ck_ck1))

    np.testing.assert_allclose(at.end.F, numerical_jacobian(carried, dim=15), atol=2e-6)
    np.testing.assert_allclose(at.J, numerical_jacobian(motion, dim=15), atol=2e-6)


def test_covariances_are_those_of_sampled_states_and_samples():
    imu, span_ns, state, shared = case()
    stds = np.repeat([2e-3, 0.01, 0.01, 1e-3, 0.02], 3)
    at = predict(imu, span_ns, state, np.diag(stds**2), shared, WALKS)
    rng, errors = np.random.default_rng(1), []
    for _ in range(1500):
        noisy = replace(
            imu,
            gyro=imu.gyro + np.sqrt(imu.var_gyro) * rng.standard_normal(imu.gyro.shape),
            acc=imu.acc + np.sqrt(imu.var_acc) * rng.standard_normal(imu.acc.shape),
        )
        start = moved(state, stds * rng.standard_normal(15))
        found = predict(noisy, span_ns, start, np.eye(15), shared, WALKS)
        apart = se3_log(found.T_ck_ck1 @ se3_inv(at.T_ck_ck1))
        errors.append(np.concatenate([difference(found.end.state, at.end.state), apart]))
    stated = np.block([[at.end.cov, at.cross], [at.cross.T, at.cov]])
    scale = np.sqrt(np.diag(stated))
    sampled = np.cov(np.array(errors).T) / np.outer(scale, scale)
    np.testing.assert_allclose(sampled, stated / np.outer(scale, scale), atol=0.13)


def test_the_innovation_of_what_was_predicted_is_zero_in_vision_s_unit_of_length():
    imu, span_ns, state, shared = case()
    at = predict(imu, span_ns, state, np.eye(15), shared, WALKS)
    measured = at.T_ck_ck1.copy()
    measured[:3, 3] /= np.exp(0.02)
    np.testing.assert_allclose(at.innovation(measured).r, 0.0, atol=1e-12)
