"""A state carried to another instant: along IMU samples, then at constant rate and force.

A measurement with its own clock belongs to the instant (timestamp + offset). Samples are
integrated to the instant that the present offset gives, once; what the offset moves after that is
bridged with the angular rate and specific force there, to second order, and gives the derivative
by the offset.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maci2.chain.chain_state import Border, States
from maci2.compile import kernel
from maci2.imu import ImuMeasurements
from maci2.imu.preintegration import integrate_segments
from maci2.lie import one_minus_cos_over, sin_over, t_minus_sin_over
from maci2.lie.so3 import norm3, polynomial
from maci2.types import Array

CARRIED = 18
"""Columns of a carried state's derivative: state (15), gravity (2), the instant [s] (1)."""


class Spans(NamedTuple):
    """IMU motion over m stretches of time, each with the biases it was integrated with."""

    dt: Array
    """(m,) [s]"""
    gamma: Array
    """(m, 3, 3) rotation from the start of a span to its end."""
    beta: Array
    """(m, 3) velocity change without gravity, in the first frame [m/s]."""
    alpha: Array
    """(m, 3) position change without gravity and initial velocity, in the first frame [m]."""
    cov: Array
    """(m, 9, 9) order [gamma, beta, alpha]."""
    by_bias: Array
    """(m, 9, 6) derivative by gyroscope and accelerometer bias."""
    bias: Array
    """(m, 6) gyroscope and accelerometer bias taken off the samples [rad/s, m/s^2]."""
    reading: Array
    """(m, 6) angular rate and specific force as read at the end of a span [rad/s, m/s^2]."""


def integrate_spans(
    imu: ImuMeasurements, starts_ns: NDArray[np.int64], ends_ns: NDArray[np.int64], bias: Array
) -> Spans:
    """Integrate the samples over each span [start, end]; `bias` (m, 6) is taken off."""
    starts_ns = np.asarray(starts_ns, dtype=np.int64)
    ends_ns = np.asarray(ends_ns, dtype=np.int64)
    bias = np.ascontiguousarray(bias, dtype=np.float64)
    dt, gamma, beta, alpha, cov, by_bias = integrate_segments(imu, starts_ns, ends_ns, bias, True)
    after = np.clip(np.searchsorted(imu.stamps_ns, ends_ns), 1, len(imu.stamps_ns) - 1)
    before_ns = imu.stamps_ns[after - 1]
    share = ((ends_ns - before_ns) / (imu.stamps_ns[after] - before_ns))[:, None]
    earlier, later = (np.hstack([imu.gyro[at], imu.acc[at]]) for at in (after - 1, after))
    reading = earlier + share * (later - earlier)
    return Spans(dt, gamma, beta, alpha, cov, by_bias, bias, reading)


@kernel
def corrected(
    spans: Spans, k: int, bg: Array, ba: Array, turn: Array, beta: Array, alpha: Array
) -> None:
    """Rotation vector by which a bias change moves gamma; beta and alpha for that bias."""
    for i in range(3):
        turn[i], beta[i], alpha[i] = 0.0, spans.beta[k, i], spans.alpha[k, i]
        for j in range(3):
            d_bg, d_ba = bg[j] - spans.bias[k, j], ba[j] - spans.bias[k, 3 + j]
            turn[i] += spans.by_bias[k, i, j] * d_bg
            beta[i] += spans.by_bias[k, 3 + i, j] * d_bg + spans.by_bias[k, 3 + i, 3 + j] * d_ba
            alpha[i] += spans.by_bias[k, 6 + i, j] * d_bg + spans.by_bias[k, 6 + i, 3 + j] * d_ba


@kernel
def rotation_and_jacobian(phi: Array, R: Array, J_r: Array) -> None:
    """R = Exp(phi) and its right Jacobian, without new arrays."""
    t = norm3(phi)
    half = one_minus_cos_over(t)
    polynomial(phi, sin_over(t), half, R)
    polynomial(phi, -half, t_minus_sin_over(t), J_r)


@kernel
def multiply(A: Array, B: Array, out: Array) -> None:
    """out = A B of 3x3 matrices, or of the rotations in 4x4 ones."""
    for i in range(3):
        for j in range(3):
            out[i, j] = A[i, 0] * B[0, j] + A[i, 1] * B[1, j] + A[i, 2] * B[2, j]


@kernel
def add_cross_columns(R: Array, a: Array, factor: float, J: Array, row: int, col: int) -> None:
    """J[row:row+3, col:col+3] += factor R [a]x."""
    for i in range(3):
        for j in range(3):
            k, m = (j + 1) % 3, (j + 2) % 3
            J[row + i, col + j] += factor * (R[i, k] * a[m] - R[i, m] * a[k])


@kernel
def carry(
    spans: Spans,
    k: int,
    states: States,
    index: int,
    border: Border,
    s: float,
    T_s: Array,
    J: Array,
) -> None:
    """Pose at `s` seconds after the end of span k of a state, and its derivative J (6, 18).

    Rows [phi, p] as in a state; columns: see `CARRIED`.
    """
    T_w_b, v_w = states.Ts_w_b[index], states.v_w[index]
    bg, ba = states.bias_gyro[index], states.bias_acc[index]
    R_w_g, gravity, dt = border.R_w_g, border.scalars[0], spans.dt[k]
    # One array for all that is small: making them one by one takes longer than filling them.
    small = np.empty((12, 3, 3))
    turn, beta, alpha = small[0, 0], small[0, 1], small[0, 2]
    rate, force, angle = small[1, 0], small[1, 1], small[1, 2]
    step, gamma_D, gamma, R0 = small[2], small[3], small[4], small[5]
    R_s, R_s_D, by_phi, by_bg = small[6], small[7], small[8], small[9]
    corrected(spans, k, bg, ba, turn, beta, alpha)
    rotation_and_jacobian(turn, step, gamma_D)
    multiply(spans.gamma[k], step, gamma)
    multiply(T_w_b, gamma, R0)
    for i in range(3):
        rate[i] = spans.reading[k, i] - bg[i]
        force[i] = spans.reading[k, 3 + i] - ba[i]
        angle[i] = rate[i] * s
    rotation_and_jacobian(angle, R_s, R_s_D)
    multiply(R0, R_s, T_s)
    J.fill(0.0)
    _end_of_span(spans, k, gamma, gamma_D, by_phi, by_bg)
    for i in range(3):
        a0, v0 = 0.0, v_w[i]
        g_i = -gravity * R_w_g[i, 2]
        p0 = T_w_b[i, 3] + dt * v_w[i] + 0.5 * dt * dt * g_i
        for j in range(3):
            a0 += R0[i, j] * force[j]
            v0 += T_w_b[i, j] * beta[j]
            p0 += T_w_b[i, j] * alpha[j]
            for n in range(3):
                J[i, j] += R_s[n, i] * by_phi[n, j]
                J[i, 9 + j] += R_s[n, i] * by_bg[n, j]
                lever = T_w_b[i, n] * (spans.by_bias[k, 6 + n, j] + s * spans.by_bias[k, 3 + n, j])
                J[3 + i, 9 + j] += lever
                J[3 + i, 12 + j] += T_w_b[i, n] * (
                    spans.by_bias[k, 6 + n, 3 + j] + s * spans.by_bias[k, 3 + n, 3 + j]
                )
            J[i, 9 + j] -= s * R_s_D[i, j]
            J[3 + i, 12 + j] -= 0.5 * s * s * R0[i, j]
        a0 += g_i
        v0 += dt * g_i
        T_s[i, 3] = p0 + s * v0 + 0.5 * s * s * a0
        J[i, 17] = rate[i]
        J[3 + i, 17] = v0 + s * a0
        J[3 + i, 3 + i] = dt + s
        J[3 + i, 6 + i] = 1.0
        # Gravity moves by (y axis, -x axis) of the level frame.
        fall = 0.5 * (dt + s) * (dt + s) * gravity
        J[3 + i, 15] = fall * R_w_g[i, 1]
        J[3 + i, 16] = -fall * R_w_g[i, 0]
    _turned_position(T_w_b, alpha, beta, R0, force, by_phi, by_bg, s, small[10], J)
    T_s[3, 0] = T_s[3, 1] = T_s[3, 2] = 0.0
    T_s[3, 3] = 1.0


@kernel
def _end_of_span(
    spans: Spans, k: int, gamma: Array, gamma_D: Array, by_phi: Array, by_bg: Array
) -> None:
    """Rotation at the end of a span, by the state's rotation and gyroscope bias."""
    for i in range(3):
        for j in range(3):
            by_phi[i, j], by_bg[i, j] = gamma[j, i], 0.0
            for n in range(3):
                by_bg[i, j] += gamma_D[i, n] * spans.by_bias[k, n, j]


@kernel
def _turned_position(
    T_w_b: Array,
    alpha: Array,
    beta: Array,
    R0: Array,
    force: Array,
    by_phi: Array,
    by_bg: Array,
    s: float,
    turned: Array,
    J: Array,
) -> None:
    """Position by the state's rotation: R alpha, s R beta and s^2/2 R0 force all rotate with it."""
    for i in range(3):
        alpha[i] += s * beta[i]
    add_cross_columns(T_w_b, alpha, -1.0, J, 3, 0)
    turned.fill(0.0)
    add_cross_columns(R0, force, -0.5 * s * s, turned, 0, 0)
    for i in range(3):
        for j in range(3):
            for n in range(3):
                J[3 + i, j] += turned[i, n] * by_phi[n, j]
                J[3 + i, 9 + j] += turned[i, n] * by_bg[n, j]
