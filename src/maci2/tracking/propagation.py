"""A state carried along IMU samples, with its covariance."""

from typing import NamedTuple

import numpy as np

from maci2.chain import Border, States
from maci2.imu import ALPHA, BETA, GAMMA, ImuMeasurements, Preintegrated, preintegrate
from maci2.lie import skew
from maci2.types import Array, Stamps

BG, BA = slice(9, 12), slice(12, 15)


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
    border: Border,
    walks: tuple[float, float],
) -> Propagation:
    """Propagate one state with its covariance over segment k, integrated with its biases."""
    F, Q = _transition(pre, k, state, walks)
    return Propagation(_carried(pre, k, state, border), F @ cov @ F.T + Q, F, Q)


def propagated(
    imu: ImuMeasurements,
    stamps_ns: Stamps,
    state: States,
    cov: Array,
    border: Border,
    walks: tuple[float, float],
) -> tuple[States, Array]:
    """The states at stamps_ns[1:] and their covariances (m, 15, 15), order [phi, v, p, bg, ba]."""
    pre = preintegrate(imu, stamps_ns, state.bias_gyro[0], state.bias_acc[0])
    states, covs = [], []
    for k in range(len(pre.dt)):
        state, cov, _, _ = propagate(pre, k, state, cov, border, walks)
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


def _carried(pre: Preintegrated, k: int, state: States, border: Border) -> States:
    """One state after segment k, which was integrated with its biases."""
    T, v_w, dt = state.Ts_w_b[0], state.v_w[0], float(pre.dt[k])
    g_w = -border.scalars[0] * border.R_w_g[:, 2]
    out = np.eye(4)
    out[:3, :3] = T[:3, :3] @ pre.gamma[k]
    out[:3, 3] = T[:3, 3] + dt * v_w + 0.5 * dt * dt * g_w + T[:3, :3] @ pre.alpha[k]
    v1_w = v_w + dt * g_w + T[:3, :3] @ pre.beta[k]
    return States(out[None], v1_w[None], state.bias_gyro, state.bias_acc)
