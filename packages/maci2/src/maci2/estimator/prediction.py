"""Forward propagation along IMU samples: a state with its covariance, and the camera's motion."""

from typing import NamedTuple

import numpy as np

from maci2.estimator.problem import SCALE, Shared, States
from maci2.estimator.visual_noise import Innovation
from maci2.geometry.se3 import se3_adj, se3_inv, se3_log
from maci2.geometry.so3 import skew
from maci2.imu import ALPHA, BETA, GAMMA, ImuMeasurements, Preintegrated, preintegrate
from maci2.types import Array, Mat4, Stamps

BG, BA = slice(9, 12), slice(12, 15)

_ORDER = np.array([6, 7, 8, 0, 1, 2])
"""Position and rotation of a preintegration."""


class Propagation(NamedTuple):
    """A state after a segment of IMU samples, order [phi, v, p, bg, ba]."""

    state: States
    cov: Array
    """(15, 15)"""

    F: Array
    """(15, 15) derivative of the state by the one before the segment."""

    Q: Array
    """(15, 15) noise added in between."""


def propagate(
    pre: Preintegrated,
    k: int,
    state: States,
    cov: Array,
    shared: Shared,
    walks: tuple[float, float],
) -> Propagation:
    """Propagate one state with its covariance over segment k, integrated with its biases."""
    F, Q = _transition(pre, k, state, walks)
    return Propagation(_carried(pre, k, state, shared), F @ cov @ F.T + Q, F, Q)


def propagated(
    imu: ImuMeasurements,
    stamps_ns: Stamps,
    state: States,
    cov: Array,
    shared: Shared,
    walks: tuple[float, float],
) -> tuple[States, Array]:
    """The states at stamps_ns[1:] and their covariances (m, 15, 15), order [phi, v, p, bg, ba]."""
    pre = preintegrate(imu, stamps_ns, state.bias_gyro[0], state.bias_acc[0])
    states, covs = [], []
    for k in range(len(pre.dt)):
        state, cov, _, _ = propagate(pre, k, state, cov, shared, walks)
        states.append(state)
        covs.append(cov)
    parts = (np.concatenate(values) for values in zip(*states, strict=True))
    return States(*parts), np.array(covs)


def _transition(
    pre: Preintegrated, k: int, state: States, walks: tuple[float, float]
) -> tuple[Array, Array]:
    """(15, 15) derivative of the state after segment k by the one before it, and the noise
    added in between."""
    R, dt = state.Ts_w_b[0, :3, :3], float(pre.dt[k])
    F = np.eye(15)
    F[GAMMA, GAMMA] = pre.gamma[k].T
    F[BETA, GAMMA] = -R @ skew(pre.beta[k])
    F[ALPHA, GAMMA] = -R @ skew(pre.alpha[k])
    F[ALPHA, BETA] = dt * np.eye(3)
    # Biases move beta and alpha in the first body frame; gamma in the last one.
    G = np.zeros((9, 9))
    G[GAMMA, GAMMA], G[BETA, BETA], G[ALPHA, ALPHA] = np.eye(3), R, R
    F[:9, BG] = G @ pre.D_bg[k]
    F[:9, BA] = G @ pre.D_ba[k]
    Q = np.zeros((15, 15))
    Q[:9, :9] = G @ pre.cov[k] @ G.T
    Q[BG, BG], Q[BA, BA] = walks[0] ** 2 * dt * np.eye(3), walks[1] ** 2 * dt * np.eye(3)
    return F, Q


def _carried(pre: Preintegrated, k: int, state: States, shared: Shared) -> States:
    """One state after segment k, which was integrated with its biases."""
    T, v_w, dt = state.Ts_w_b[0], state.v_w[0], float(pre.dt[k])
    g_w = shared.gravity_w
    out = np.eye(4)
    out[:3, :3] = T[:3, :3] @ pre.gamma[k]
    out[:3, 3] = T[:3, 3] + dt * v_w + 0.5 * dt * dt * g_w + T[:3, :3] @ pre.alpha[k]
    v1_w = v_w + dt * g_w + T[:3, :3] @ pre.beta[k]
    return States(out[None], v1_w[None], state.bias_gyro, state.bias_acc)


class Prediction(NamedTuple):
    """The next keyframe as the IMU carries the last one there."""

    state: States

    dt: float
    """Time to it [s]."""

    F: Array
    """(15, 15) derivative of that state by the one before."""

    cov_state: Array
    """(15, 15) covariance of the carried state."""

    T_ck_ck1: Mat4
    """Motion of the camera, in the world's unit of length."""

    J: Array
    """(6, 15) derivative of that motion (left, [rho, phi]) by the state before."""

    cov: Array
    """(6, 6) covariance of that motion."""

    cross: Array
    """(15, 6) covariance of the carried state with it."""

    log_scale: float
    """Logarithm of true length over vision's."""

    def innovation(self, T_ck_ck1: Mat4) -> Innovation:
        """A measured relative pose against the predicted one."""
        scaled = T_ck_ck1.copy()
        scaled[:3, 3] *= np.exp(self.log_scale)
        r = np.asarray(se3_log(scaled @ se3_inv(self.T_ck_ck1)))
        return Innovation(r, self.cov, self.dt)


def predict(
    imu: ImuMeasurements,
    span_ns: Stamps,
    state: States,
    cov: Array,
    shared: Shared,
    walks: tuple[float, float],
) -> Prediction:
    """Carry a state with its (15, 15) covariance to the end of a span."""
    pre = preintegrate(imu, span_ns, state.bias_gyro[0], state.bias_acc[0])
    propagated = propagate(pre, 0, state, cov, shared, walks)
    R_w_b = state.Ts_w_b[0, :3, :3]
    g_w = shared.gravity_w
    dt = float(pre.dt[0])
    fall = R_w_b.T @ (dt * state.v_w[0] + 0.5 * dt * dt * g_w)
    T_bk_bk1 = np.eye(4)
    T_bk_bk1[:3, :3] = pre.gamma[0]
    T_bk_bk1[:3, 3] = p = fall + pre.alpha[0]
    # Motion of the body by the state before: position in the first body frame, gamma on the right.
    J = np.zeros((6, 15))
    J[0:3, 0:3] = skew(fall)  # a tilt of the body moves gravity and velocity in it
    J[0:3, 3:6] = dt * R_w_b.T
    J[0:3, 9:12], J[0:3, 12:15] = pre.D_bg[0][6:9], pre.D_ba[0][6:9]
    J[3:6, 9:12] = pre.D_bg[0][0:3]
    # From there to a left perturbation, and on to the camera.
    L = np.eye(6)
    L[3:6, 3:6] = pre.gamma[0]
    L[0:3, 3:6] = skew(p) @ pre.gamma[0]
    T_c_b = se3_inv(shared.T_b_c)
    L = se3_adj(T_c_b) @ L
    J = L @ J
    noise = pre.cov[0][:, _ORDER] @ L.T
    noise[3:9] = np.concatenate([R_w_b @ noise[3:6], R_w_b @ noise[6:9]])
    by_state = cov @ J.T
    cross = propagated.F @ by_state
    cross[:9] += noise
    body = L @ pre.cov[0][_ORDER[:, None], _ORDER] @ L.T
    return Prediction(
        propagated.state,
        dt,
        propagated.F,
        propagated.cov,
        T_c_b @ T_bk_bk1 @ shared.T_b_c,
        J,
        J @ by_state + body,
        cross,
        float(shared.scalars[SCALE]),
    )
