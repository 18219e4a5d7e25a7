"""Residuals of every measurement, with their derivatives.

Each function writes r and its derivatives into rows of J. Of s unknowns per state (15, or 9 where
biases are shared) and q + 1 states that a factor touches, the columns are

    [ state k (s) .. state k + q (s) | r | shared biases (6) | gravity (3) | what it shares else ]

where gravity has two tilts and its norm. The last part is the gyroscope's scale (3) for the IMU;
T_b_c (6), scale of vision and clock for the camera; T_b_m (6), clock and its drift for a marker.
"""

import math
from typing import NamedTuple

import numpy as np

from maci2.estimator.problem import MOTION, STATE, Shared, States
from maci2.geometry.se3 import se3_adj, se3_inv, se3_jl_inv, se3_jr_inv, se3_log, se3_mul
from maci2.geometry.so3 import (
    half_cot_over,
    norm3,
    one_minus_cos_over,
    polynomial,
    product,
    product_t,
    sin_over,
    so3_jr_inv,
    so3_log,
    t_minus_sin_over,
)
from maci2.imu import VerticalPrior
from maci2.jit import kernel
from maci2.types import Array

BIASES, GRAVITY, OWN = 1, 7, 10
"""Columns after those of the states, counted from the residual's: shared biases, gravity, and what
a kind of factor shares besides."""

IMU_TAIL, CAMERA_TAIL, MARKER_TAIL = OWN + 3, OWN + 8, OWN + 8
"""Columns from the residual on."""

CARRIED = 19
"""Columns of the derivative of a state at another instant: state (15), gravity (3), instant (1)."""


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
    """(m, 6) angular rate and specific force as read at the end of a span [rad/s, m/s^2]; (0, 6)
    where nothing is carried beyond it."""
    by_scale: Array
    """(m, 9, 3) derivative by the gyroscope's scale; (0, 9, 3) where that is known."""
    gyro_scale: Array
    """(3,) scale errors with which the samples were integrated."""


@kernel
def corrected(
    spans: Spans,
    k: int,
    states: States,
    index: int,
    shared: Shared,
    turn: Array,
    beta: Array,
    alpha: Array,
) -> None:
    """Rotation vector by which changes of biases and scale since the integration move gamma; beta
    and alpha with these changes, to first order."""
    bg, ba = states.bias_gyro, states.bias_acc
    for i in range(3):
        turn[i], beta[i], alpha[i] = 0.0, spans.beta[k, i], spans.alpha[k, i]
        for j in range(3):
            d_bg, d_ba = bg[index, j] - spans.bias[k, j], ba[index, j] - spans.bias[k, 3 + j]
            turn[i] += spans.by_bias[k, i, j] * d_bg
            beta[i] += spans.by_bias[k, 3 + i, j] * d_bg + spans.by_bias[k, 3 + i, 3 + j] * d_ba
            alpha[i] += spans.by_bias[k, 6 + i, j] * d_bg + spans.by_bias[k, 6 + i, 3 + j] * d_ba
            if len(spans.by_scale) > 0:
                d_scale = shared.scalars[7 + j] - spans.gyro_scale[j]
                turn[i] += spans.by_scale[k, i, j] * d_scale
                beta[i] += spans.by_scale[k, 3 + i, j] * d_scale
                alpha[i] += spans.by_scale[k, 6 + i, j] * d_scale


@kernel
def add_cross_columns(R: Array, a: Array, factor: float, J: Array, row: int, col: int) -> None:
    """J[row:row+3, col:col+3] += factor R [a]x."""
    for i in range(3):
        for j in range(3):
            k, m = (j + 1) % 3, (j + 2) % 3
            J[row + i, col + j] += factor * (R[i, k] * a[m] - R[i, m] * a[k])


@kernel
def imu_factor(spans: Spans, k: int, states: States, shared: Shared, s: int, J: Array) -> None:
    """Motion between neighbours less the preintegrated one, in b_k (Eqs. 12-14); s rows.

    r_gamma = Log(gamma' R_bk_bk1)
    r_beta  = R_bk_w (v_k1 - v_k - g dt) - beta
    r_alpha = R_bk_w (p_k1 - p_k - v_k dt - g dt^2 / 2) - alpha

    and, of states with biases of their own, the change of the biases.
    """
    T_w_bk, T_w_bk1 = states.Ts_w_b[k], states.Ts_w_b[k + 1]
    v_k, v_k1, bg, ba = states.v_w[k], states.v_w[k + 1], states.bias_gyro, states.bias_acc
    R_w_g, gravity, dt = shared.R_w_g, shared.scalars[0], spans.dt[k]
    # One array for all that is small: making them one by one takes longer than filling them.
    small = np.empty((9, 3, 3))
    turn, beta, alpha = small[0, 0], small[0, 1], small[0, 2]
    dv, dp, dv_b, dp_b = small[1, 0], small[1, 1], small[2, 0], small[2, 1]
    step, by_turn, J_r_inv, R_bk1_bk, by_phi_k = small[3], small[4], small[5], small[6], small[7]
    corrected(spans, k, states, k, shared, turn, beta, alpha)
    rotation_and_jacobian(turn, step, small[8])
    for i in range(3):
        for j in range(3):
            R_bk1_bk[i, j] = (
                T_w_bk1[0, i] * T_w_bk[0, j]
                + T_w_bk1[1, i] * T_w_bk[1, j]
                + T_w_bk1[2, i] * T_w_bk[2, j]
            )
    # gamma' R_bk_bk1, as the transpose of (R_bk1_bk gamma)'.
    multiply(spans.gamma[k], step, by_turn)
    multiply(R_bk1_bk, by_turn, step)
    phi = so3_log(step)
    for i in range(3):
        phi[i] = -phi[i]
    polynomial(phi, 0.5, half_cot_over(norm3(phi)), J_r_inv)
    multiply(J_r_inv, R_bk1_bk, by_phi_k)
    for i in range(3):
        for j in range(3):
            # J_l^-1 is the transpose of J_r^-1.
            by_turn[i, j] = (
                J_r_inv[0, i] * small[8, 0, j]
                + J_r_inv[1, i] * small[8, 1, j]
                + J_r_inv[2, i] * small[8, 2, j]
            )
    r = 2 * s
    bias, g, scale = (MOTION if s == STATE else r + BIASES), r + GRAVITY, r + OWN
    for i in range(s):
        for j in range(r + IMU_TAIL):
            J[i, j] = 0.0
    for i in range(3):
        g_i = -gravity * R_w_g[i, 2]
        dv[i] = v_k1[i] - v_k[i] - dt * g_i
        dp[i] = T_w_bk1[i, 3] - T_w_bk[i, 3] - dt * v_k[i] - 0.5 * dt * dt * g_i
    for i in range(3):
        dv_b[i] = dp_b[i] = 0.0
        for j in range(3):
            dv_b[i] += T_w_bk[j, i] * dv[j]
            dp_b[i] += T_w_bk[j, i] * dp[j]
    for i in range(3):
        J[i, r], J[3 + i, r], J[6 + i, r] = phi[i], dv_b[i] - beta[i], dp_b[i] - alpha[i]
        for j in range(3):
            R_ij = T_w_bk[j, i]
            J[i, j], J[i, s + j] = -by_phi_k[i, j], J_r_inv[i, j]
            for n in range(3):
                J[i, bias + j] -= by_turn[i, n] * spans.by_bias[k, n, j]
            J[3 + i, 3 + j], J[3 + i, s + 3 + j] = -R_ij, R_ij
            J[6 + i, 3 + j], J[6 + i, 6 + j], J[6 + i, s + 6 + j] = -dt * R_ij, -R_ij, R_ij
            for row in (3, 6):
                J[row + i, bias + j] = -spans.by_bias[k, row + i, j]
                J[row + i, bias + 3 + j] = -spans.by_bias[k, row + i, 3 + j]
            # Gravity moves by (y axis, -x axis) of the level frame, and along its -z axis.
            J[3 + i, g] -= dt * gravity * R_ij * R_w_g[j, 1]
            J[3 + i, g + 1] += dt * gravity * R_ij * R_w_g[j, 0]
            J[3 + i, g + 2] += dt * R_ij * R_w_g[j, 2]
        for c in range(g, g + 3):
            J[6 + i, c] = 0.5 * dt * J[3 + i, c]
    for row, turned in ((3, dv_b), (6, dp_b)):
        for i in range(3):
            j, m = (i + 1) % 3, (i + 2) % 3
            J[row + i, m], J[row + i, j] = turned[j], -turned[m]
    if s == STATE:
        for i in range(3):
            J[9 + i, r], J[12 + i, r] = bg[k + 1, i] - bg[k, i], ba[k + 1, i] - ba[k, i]
            J[9 + i, 9 + i] = J[12 + i, 12 + i] = -1.0
            J[9 + i, 24 + i] = J[12 + i, 27 + i] = 1.0
    if len(spans.by_scale) > 0:
        for i in range(3):
            for j in range(3):
                for n in range(3):
                    J[i, scale + j] -= by_turn[i, n] * spans.by_scale[k, n, j]
                J[3 + i, scale + j] = -spans.by_scale[k, 3 + i, j]
                J[6 + i, scale + j] = -spans.by_scale[k, 6 + i, j]


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
def carry(
    spans: Spans,
    k: int,
    states: States,
    index: int,
    shared: Shared,
    s: float,
    T_s: Array,
    J: Array,
) -> None:
    """Pose at `s` seconds after the end of span k of a state, and its derivative J (6, 19).

    A measurement with its own clock belongs to the instant (timestamp + offset). Samples are
    integrated to the instant that the present offset gives, once; what the offset moves after that
    is bridged with the angular rate and specific force there, to second order, and gives the
    derivative by the offset. Rows [phi, p] as in a state; columns: see `CARRIED`.
    """
    T_w_b, v_w = states.Ts_w_b[index], states.v_w[index]
    R_w_g, gravity, dt = shared.R_w_g, shared.scalars[0], spans.dt[k]
    # One array for all that is small: making them one by one takes longer than filling them.
    small = np.empty((12, 3, 3))
    turn, beta, alpha = small[0, 0], small[0, 1], small[0, 2]
    rate, force, angle = small[1, 0], small[1, 1], small[1, 2]
    step, gamma_D, gamma, R0 = small[2], small[3], small[4], small[5]
    R_s, R_s_D, by_phi, by_bg = small[6], small[7], small[8], small[9]
    corrected(spans, k, states, index, shared, turn, beta, alpha)
    rotation_and_jacobian(turn, step, gamma_D)
    multiply(spans.gamma[k], step, gamma)
    multiply(T_w_b, gamma, R0)
    for i in range(3):
        rate[i] = spans.reading[k, i] - states.bias_gyro[index, i]
        force[i] = spans.reading[k, 3 + i] - states.bias_acc[index, i]
        angle[i] = rate[i] * s
    rotation_and_jacobian(angle, R_s, R_s_D)
    multiply(R0, R_s, T_s)
    J.fill(0.0)
    # Rotation at the end of the span, by the state's rotation and gyroscope bias.
    for i in range(3):
        for j in range(3):
            by_phi[i, j], by_bg[i, j] = gamma[j, i], 0.0
            for n in range(3):
                by_bg[i, j] += gamma_D[i, n] * spans.by_bias[k, n, j]
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
        J[i, 18] = rate[i]
        J[3 + i, 18] = v0 + s * a0
        J[3 + i, 3 + i] = dt + s
        J[3 + i, 6 + i] = 1.0
        # Gravity moves by (y axis, -x axis) of the level frame, and along its -z axis.
        fall = 0.5 * (dt + s) * (dt + s)
        J[3 + i, 15] = fall * gravity * R_w_g[i, 1]
        J[3 + i, 16] = -fall * gravity * R_w_g[i, 0]
        J[3 + i, 17] = -fall * R_w_g[i, 2]
    # Position by the state's rotation: R alpha, s R beta and s^2/2 R0 force all rotate with it.
    turned = small[10]
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
    T_s[3, 0] = T_s[3, 1] = T_s[3, 2] = 0.0
    T_s[3, 3] = 1.0


@kernel
def between(T_a_b: Array, T_a_c: Array, T_b_c: Array) -> None:
    """T_b_c of two poses."""
    for i in range(3):
        T_b_c[i, 3] = T_b_c[3, i] = 0.0
        for j in range(3):
            T_b_c[i, 3] += T_a_b[j, i] * (T_a_c[j, 3] - T_a_b[j, 3])
            T_b_c[i, j] = (
                T_a_b[0, i] * T_a_c[0, j] + T_a_b[1, i] * T_a_c[1, j] + T_a_b[2, i] * T_a_c[2, j]
            )
    T_b_c[3, 3] = 1.0


@kernel
def _through_body(
    by_twist: Array, T_w_b: Array, carried: Array, s: int, state: int, r: int, row: int, J: Array
) -> None:
    """Rows of J by a state and gravity, from derivatives by the twist [rho, phi] of its body where
    it was carried to: rho is R' dp. `state` is the state's first column."""
    by_phi_p = np.empty((6, 6))
    for i in range(6):
        for j in range(3):
            by_phi_p[i, j], by_phi_p[i, 3 + j] = by_twist[i, 3 + j], 0.0
            for n in range(3):
                by_phi_p[i, 3 + j] += by_twist[i, n] * T_w_b[j, n]
        for c in range(CARRIED):
            total = 0.0
            for n in range(6):
                total += by_phi_p[i, n] * carried[n, c]
            if c < s:
                J[row + i, state + c] += total
            elif c < 18:
                J[row + i, r + BIASES + c - MOTION] += total
            else:
                J[row + i, r + CAMERA_TAIL - 1] += total


@kernel
def camera_factor(
    T_ck_ck1: Array,
    Ts_w_b: Array,
    carried: Array,
    shared: Shared,
    s: int,
    first: int,
    r: int,
    J: Array,
) -> None:
    """Measured motion of the camera against that of two carried states (Eq. 10); 6 rows [rho, phi]
    in vision's unit, from row 6 `first` on.

    r = Log(T_ck_ck1 (S T_c_b T_bk_w T_w_bk1 T_b_c)^-1)

    where S shrinks the translation to vision's unit: measured times inverse predicted, so that r is
    the left error whose covariance vision states. States are the `first` of the factor and the next
    one; r is the residual's column. `Ts_w_b` (2, 4, 4) and `carried` (2, 6, 19) are those of
    `carry`; (0, 6, 19) where states are at the camera's instants.
    """
    row, state_k, state_k1 = 6 * first, s * first, s * (first + 1)
    shrink = math.exp(-shared.scalars[1])
    T_w_bk, T_w_bk1, T_b_c = Ts_w_b[0], Ts_w_b[1], shared.T_b_c
    T_c_b, difference = se3_inv(T_b_c), np.empty((4, 4))
    between(T_w_bk, T_w_bk1, difference)
    T_ck_bk1 = se3_mul(T_c_b, difference)
    predicted = se3_mul(T_ck_bk1, T_b_c)
    for i in range(3):
        predicted[i, 3] *= shrink
    for i in range(3):
        difference[i, 3] = T_ck_ck1[i, 3]
        for j in range(3):
            difference[i, j] = (
                T_ck_ck1[i, 0] * predicted[j, 0]
                + T_ck_ck1[i, 1] * predicted[j, 1]
                + T_ck_ck1[i, 2] * predicted[j, 2]
            )
            difference[i, 3] -= difference[i, j] * predicted[j, 3]
    error = se3_log(difference)
    J_r_inv = se3_jr_inv(error)
    # By a twist of body k, seen from camera k, and of body k + 1; rho shrinks, too.
    by_k, by_k1 = np.empty((6, 6)), np.empty((6, 6))
    _shrunk_product(J_r_inv, shrink, se3_adj(T_c_b), 1.0, by_k)
    _shrunk_product(J_r_inv, shrink, se3_adj(T_ck_bk1), -1.0, by_k1)
    for i in range(6):
        for c in range(r + CAMERA_TAIL):
            J[row + i, c] = 0.0
        J[row + i, r] = error[i]
        for j in range(6):
            J[row + i, r + OWN + j] = by_k[i, j] + by_k1[i, j]
        for n in range(3):
            J[row + i, r + OWN + 6] += J_r_inv[i, n] * predicted[n, 3]
    if len(carried) > 0:
        _through_body(by_k, T_w_bk, carried[0], s, state_k, r, row, J)
        _through_body(by_k1, T_w_bk1, carried[1], s, state_k1, r, row, J)
        return
    for i in range(6):
        for j in range(3):
            J[row + i, state_k + j] = by_k[i, 3 + j]
            J[row + i, state_k1 + j] = by_k1[i, 3 + j]
            for n in range(3):
                J[row + i, state_k + 6 + j] += by_k[i, n] * T_w_bk[j, n]
                J[row + i, state_k1 + 6 + j] += by_k1[i, n] * T_w_bk1[j, n]


@kernel
def _shrunk_product(A: Array, shrink: float, B: Array, sign: float, out: Array) -> None:
    """out = sign A S B, where S shrinks rho; A and B are [[X, Y], [0, X]]."""
    for i in range(3):
        for j in range(3):
            diagonal, above = 0.0, 0.0
            for k in range(3):
                diagonal += A[i, k] * B[k, j]
                above += shrink * A[i, k] * B[k, 3 + j] + A[i, 3 + k] * B[k, j]
            out[i, j], out[3 + i, 3 + j] = sign * shrink * diagonal, sign * diagonal
            out[i, 3 + j], out[3 + i, j] = sign * above, 0.0


@kernel
def _marker_columns(by_phi: Array, by_p: Array, carried: Array, s: int, J: Array) -> None:
    """Rows of J by the state, gravity and the instant, from derivatives by the carried pose."""
    for i in range(3):
        for c in range(CARRIED):
            total = 0.0
            for n in range(3):
                total += by_phi[i, n] * carried[n, c] + by_p[i, n] * carried[3 + n, c]
            if c < s:
                J[i, c] = total
            elif c < 18:
                J[i, s + BIASES + c - MOTION] = total
            else:
                J[i, s + OWN + 6] = total


@kernel
def position_factor(
    T_w_b: Array, carried: Array, shared: Shared, p_w_m: Array, elapsed: float, s: int, J: Array
) -> None:
    """Position of the marker on the carried state less the measured one, in w; 3 rows.

    r = p_w_b + R_w_b p_b_m - p_w_m; p_w_m is (3, 1).
    """
    p_b_m, by_phi = np.empty(3), np.zeros((3, 3))
    for i in range(3):
        p_b_m[i] = shared.T_b_m[i, 3]
    # By rotation of the carried body and, alike, of the marker about the body's origin.
    add_cross_columns(T_w_b, p_b_m, -1.0, by_phi, 0, 0)
    _marker_columns(by_phi, np.eye(3), carried, s, J)
    for i in range(3):
        r = T_w_b[i, 3] - p_w_m[i, 0]
        for j in range(3):
            r += T_w_b[i, j] * p_b_m[j]
            J[i, s + OWN + j], J[i, s + OWN + 3 + j] = T_w_b[i, j], by_phi[i, j]
        J[i, s + OWN + 7] = elapsed * J[i, s + OWN + 6]
        J[i, s] = r


@kernel
def orientation_factor(
    T_w_b: Array, carried: Array, shared: Shared, R_w_m: Array, elapsed: float, s: int, J: Array
) -> None:
    """Rotation from the measured marker to that on the carried state, in the marker; 3 rows.

    r = Log(R_m_w R_w_b R_b_m).
    """
    phi = so3_log(product_t(R_w_m, product(T_w_b, shared.T_b_m)))
    J_r_inv, by_phi = so3_jr_inv(phi), np.zeros((3, 3))
    for i in range(3):
        for j in range(3):
            for n in range(3):
                by_phi[i, j] += J_r_inv[i, n] * shared.T_b_m[j, n]
    _marker_columns(by_phi, np.zeros((3, 3)), carried, s, J)
    for i in range(3):
        for j in range(3):
            J[i, s + OWN + j], J[i, s + OWN + 3 + j] = 0.0, by_phi[i, j]
        J[i, s + OWN + 7] = elapsed * J[i, s + OWN + 6]
        J[i, s] = phi[i]


@kernel
def vertical_factor(prior: VerticalPrior, states: States, shared: Shared, s: int, J: Array) -> None:
    """Gravity at the first state against the vertical of earlier samples, whitened; 2 rows, and a
    third of zeros.

    r = W [g x down_b, b - b_tracked], with g the unit vector of gravity in the body.
    """
    R_w_b, W = states.Ts_w_b[0], prior.white
    g_b, away = np.zeros(3), np.empty(9)
    for i in range(3):
        for j in range(3):
            g_b[i] -= R_w_b[j, i] * shared.R_w_g[j, 2]
        away[3 + i] = states.bias_gyro[0, i] - prior.bias[i]
        away[6 + i] = states.bias_acc[0, i] - prior.bias[3 + i]
    down = prior.down_b
    by_phi = np.empty((3, 5))
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        away[i] = g_b[j] * down[k] - g_b[k] * down[j]
    # By rotation of the body, g moves by g x phi; by the two tilts, by axes y and -x of the level
    # frame.
    moved = np.zeros((5, 3))
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        moved[i, j], moved[i, k] = g_b[k], -g_b[j]
        for n in range(3):
            moved[3, i] += R_w_b[n, i] * shared.R_w_g[n, 1]
            moved[4, i] -= R_w_b[n, i] * shared.R_w_g[n, 0]
    for c in range(5):
        for i in range(3):
            j, k = (i + 1) % 3, (i + 2) % 3
            by_phi[i, c] = moved[c, j] * down[k] - moved[c, k] * down[j]
    bias = MOTION if s == STATE else s + BIASES
    for row in range(3):
        for c in range(s + OWN):
            J[row, c] = 0.0
    for row in range(2):
        for n in range(9):
            J[row, s] += W[row, n] * away[n]
        for n in range(3):
            for c in range(3):
                J[row, c] += W[row, n] * by_phi[n, c]
            for c in range(2):
                J[row, s + GRAVITY + c] += W[row, n] * by_phi[n, 3 + c]
        for n in range(6):
            J[row, bias + n] = W[row, 3 + n]


@kernel
def prior_coordinates(
    states: States, k: int, shared: Shared, mean: States, i: int, mean_shared: Shared,
    delta: Array, J: Array,
) -> None:  # fmt: skip
    """Coordinates delta (39,) of state k and the shared parameters about state i of the means, and
    their derivative J (39, 39)."""
    T_w_b, mean_T_w_b = states.Ts_w_b[k], mean.Ts_w_b[i]
    J.fill(0.0)
    phi = so3_log(product_t(mean_T_w_b, T_w_b))
    J_r_inv = so3_jr_inv(phi)
    for a in range(3):
        delta[a] = phi[a]
        delta[3 + a] = states.v_w[k, a] - mean.v_w[i, a]
        delta[6 + a] = T_w_b[a, 3] - mean_T_w_b[a, 3]
        delta[9 + a] = states.bias_gyro[k, a] - mean.bias_gyro[i, a]
        delta[12 + a] = states.bias_acc[k, a] - mean.bias_acc[i, a]
        for b in range(3):
            J[a, b] = J_r_inv[a, b]
    for a in range(3, 15):
        J[a, a] = 1.0
    # Down in the mean's level frame: (-y, x, -1) for a small tilt (x, y).
    M = product_t(mean_shared.R_w_g, shared.R_w_g)
    delta[15], delta[16] = -M[1, 2], M[0, 2]
    J[15, 15], J[16, 15] = M[1, 1], -M[0, 1]
    J[15, 16], J[16, 16] = -M[1, 0], M[0, 0]
    for pose in range(2):
        at = 18 if pose == 0 else 26
        T = shared.T_b_c if pose == 0 else shared.T_b_m
        mean_T = mean_shared.T_b_c if pose == 0 else mean_shared.T_b_m
        xi = se3_log(se3_mul(T, se3_inv(mean_T)))
        J_l_inv = se3_jl_inv(xi)
        for a in range(6):
            delta[at + a] = xi[a]
            for b in range(6):
                J[at + a, at + b] = J_l_inv[a, b]
    for place, scalar in ((17, 0), (24, 1), (25, 2), (32, 3), (34, 4), (33, 5), (35, 6),
                          (36, 7), (37, 8), (38, 9)):  # fmt: skip
        delta[place] = shared.scalars[scalar] - mean_shared.scalars[scalar]
        J[place, place] = 1.0
