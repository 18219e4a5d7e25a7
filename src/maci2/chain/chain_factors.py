"""Residuals of a chain and all their derivatives.

Each function writes r and its derivatives into J. Columns:

    factors of a pair     state k (15), state k + 1 (15), r, -, gravity (2),
                          camera (6), scale, camera clock
    factors of a state    state (15), r, gravity (2), marker (6), clock offset and drift
"""

import math

import numpy as np

from maci2.chain.chain_state import Border, States
from maci2.chain.propagation import Spans, add_cross_columns, corrected
from maci2.compile import kernel
from maci2.lie import (
    product,
    product_t,
    se3_adj,
    se3_inv,
    se3_jl_inv,
    se3_jr_inv,
    se3_log,
    se3_mul,
    so3_exp,
    so3_jl_inv,
    so3_jr,
    so3_jr_inv,
    so3_log,
)
from maci2.types import Array


@kernel
def imu_factor(spans: Spans, k: int, states: States, border: Border, J: Array) -> None:
    """How far two neighbours are from what the IMU measured between them; 15 rows.

    Rows [gamma, beta, alpha, gyro bias, acc bias]: the states' motion less the preintegrated one,
    in b_k, and the change of the biases.
    """
    T_w_bk, T_w_bk1 = states.Ts_w_b[k], states.Ts_w_b[k + 1]
    v_k, v_k1, bg, ba = states.v_w[k], states.v_w[k + 1], states.bias_gyro, states.bias_acc
    R_w_g, gravity, dt = border.R_w_g, border.scalars[0], spans.dt[k]
    turn, beta, alpha = np.empty(3), np.empty(3), np.empty(3)
    corrected(spans, k, bg[k], ba[k], turn, beta, alpha)
    R_bk1_bk = product_t(T_w_bk1, T_w_bk)
    gamma = product(spans.gamma[k], so3_exp(turn))
    # gamma' R_bk_bk1, as the transpose of (R_bk1_bk gamma)'.
    phi = so3_log(product(R_bk1_bk, gamma))
    for i in range(3):
        phi[i] = -phi[i]
    J_r_inv, by_turn = so3_jr_inv(phi), product(so3_jl_inv(phi), so3_jr(turn))
    by_phi_k = product(J_r_inv, R_bk1_bk)
    dv, dp = np.empty(3), np.empty(3)
    for i in range(15):
        for j in range(34):
            J[i, j] = 0.0
    for i in range(3):
        g_i = -gravity * R_w_g[i, 2]
        dv[i] = v_k1[i] - v_k[i] - dt * g_i
        dp[i] = T_w_bk1[i, 3] - T_w_bk[i, 3] - dt * v_k[i] - 0.5 * dt * dt * g_i
    dv_b, dp_b = np.zeros(3), np.zeros(3)
    for i in range(3):
        for j in range(3):
            dv_b[i] += T_w_bk[j, i] * dv[j]
            dp_b[i] += T_w_bk[j, i] * dp[j]
    for i in range(3):
        J[i, 30] = phi[i]
        J[3 + i, 30] = dv_b[i] - beta[i]
        J[6 + i, 30] = dp_b[i] - alpha[i]
        J[9 + i, 30], J[12 + i, 30] = bg[k + 1, i] - bg[k, i], ba[k + 1, i] - ba[k, i]
        J[9 + i, 9 + i] = J[12 + i, 12 + i] = -1.0
        J[9 + i, 24 + i] = J[12 + i, 27 + i] = 1.0
        for j in range(3):
            R_ij = T_w_bk[j, i]
            J[i, j], J[i, 15 + j] = -by_phi_k[i, j], J_r_inv[i, j]
            for n in range(3):
                J[i, 9 + j] -= by_turn[i, n] * spans.by_bias[k, n, j]
            J[3 + i, 3 + j], J[3 + i, 18 + j] = -R_ij, R_ij
            J[6 + i, 3 + j], J[6 + i, 6 + j], J[6 + i, 21 + j] = -dt * R_ij, -R_ij, R_ij
            for row in (3, 6):
                J[row + i, 9 + j] = -spans.by_bias[k, row + i, j]
                J[row + i, 12 + j] = -spans.by_bias[k, row + i, 3 + j]
            # Gravity moves by (y axis, -x axis) of the level frame.
            J[3 + i, 32] -= dt * gravity * R_ij * R_w_g[j, 1]
            J[3 + i, 33] += dt * gravity * R_ij * R_w_g[j, 0]
        J[6 + i, 32], J[6 + i, 33] = 0.5 * dt * J[3 + i, 32], 0.5 * dt * J[3 + i, 33]
    identity = np.eye(3)
    add_cross_columns(identity, dv_b, 1.0, J, 3, 0)
    add_cross_columns(identity, dp_b, 1.0, J, 6, 0)


@kernel
def _column(c: int) -> int:
    """Where column c of a carried state (state, gravity, instant) goes in a state's factor."""
    if c < 15:
        return c
    return c + 1 if c < 17 else 24


@kernel
def position_factor(
    T_w_b: Array, carried: Array, border: Border, p_w_m: Array, elapsed: float, J: Array
) -> None:
    """Where the carried state (`carry`) has the marker, less where it was measured; 3 rows, w.

    p_w_m is (3, 1).
    """
    p_b_m = np.empty(3)
    for i in range(3):
        p_b_m[i] = border.T_b_m[i, 3]
    # By rotation of the carried body and, alike, of the marker about the body's origin.
    turned = np.zeros((3, 3))
    add_cross_columns(T_w_b, p_b_m, -1.0, turned, 0, 0)
    for i in range(3):
        r = T_w_b[i, 3] - p_w_m[i, 0]
        for j in range(3):
            r += T_w_b[i, j] * p_b_m[j]
            J[i, 18 + j], J[i, 21 + j] = T_w_b[i, j], turned[i, j]
        for c in range(18):
            total = carried[3 + i, c]
            for n in range(3):
                total += turned[i, n] * carried[n, c]
            J[i, _column(c)] = total
        J[i, 25] = elapsed * J[i, 24]
        J[i, 15] = r


@kernel
def orientation_factor(
    T_w_b: Array, carried: Array, border: Border, R_w_m: Array, elapsed: float, J: Array
) -> None:
    """Rotation from the measured marker to where the carried state has it; 3 rows, marker frame."""
    phi = so3_log(product_t(R_w_m, product(T_w_b, border.T_b_m)))
    J_r_inv = so3_jr_inv(phi)
    for i in range(3):
        for j in range(3):
            total = 0.0
            for n in range(3):
                total += J_r_inv[i, n] * border.T_b_m[j, n]
            J[i, 18 + j], J[i, 21 + j] = 0.0, total
        for c in range(18):
            J[i, _column(c)] = (
                J[i, 21] * carried[0, c] + J[i, 22] * carried[1, c] + J[i, 23] * carried[2, c]
            )
        J[i, 25] = elapsed * J[i, 24]
        J[i, 15] = phi[i]


@kernel
def camera_factor(
    T_ck_ck1: Array,
    T_w_bk: Array,
    carried_k: Array,
    T_w_bk1: Array,
    carried_k1: Array,
    border: Border,
    J: Array,
) -> None:
    """How far vision's relative pose is from the carried states'; 6 rows [rho, phi], vision's unit.

    Measured times inverse predicted, so that r is the left error whose covariance vision states.
    """
    shrink = math.exp(-border.scalars[1])
    T_c_b = se3_inv(border.T_b_c)
    T_w_ck1 = se3_mul(T_w_bk1, border.T_b_c)
    predicted = se3_mul(se3_mul(T_c_b, se3_inv(T_w_bk)), T_w_ck1)
    # A twist of camera k + 1 seen from camera k, before lengths shrink.
    adj_pred, adj_c_b = se3_adj(predicted), se3_adj(T_c_b)
    for i in range(3):
        predicted[i, 3] *= shrink
    r = se3_log(se3_mul(T_ck_ck1, se3_inv(predicted)))
    J_r_inv = se3_jr_inv(r)
    left, by_k, by_k1 = np.zeros((6, 6)), np.zeros((6, 6)), np.zeros((6, 6))
    for i in range(6):
        for j in range(6):
            left[i, j] = J_r_inv[i, j] * (shrink if j < 3 else 1.0)
    twist_k1 = np.zeros((6, 6))
    for i in range(6):
        for j in range(6):
            for n in range(6):
                by_k[i, j] += left[i, n] * adj_c_b[n, j]
                twist_k1[i, j] += adj_pred[i, n] * adj_c_b[n, j]
    for i in range(6):
        for j in range(6):
            for n in range(6):
                by_k1[i, j] -= left[i, n] * twist_k1[n, j]
    _through_bodies(by_k, T_w_bk, carried_k, by_k1, T_w_bk1, carried_k1, J)
    for i in range(6):
        for j in range(6):
            J[i, 34 + j] = by_k[i, j] + by_k1[i, j]
        J[i, 40] = 0.0
        for n in range(3):
            J[i, 40] += J_r_inv[i, n] * predicted[n, 3]
        J[i, 30], J[i, 31] = r[i], 0.0


@kernel
def _through_bodies(
    by_k: Array,
    T_w_bk: Array,
    carried_k: Array,
    by_k1: Array,
    T_w_bk1: Array,
    carried_k1: Array,
    J: Array,
) -> None:
    """Derivatives by twists [rho, phi] of the bodies, carried to the states: rho is R' dp."""
    at_k, at_k1 = np.empty((6, 6)), np.empty((6, 6))
    for i in range(6):
        for j in range(3):
            at_k[i, j], at_k1[i, j] = by_k[i, 3 + j], by_k1[i, 3 + j]
            at_k[i, 3 + j] = at_k1[i, 3 + j] = 0.0
            for n in range(3):
                at_k[i, 3 + j] += by_k[i, n] * T_w_bk[j, n]
                at_k1[i, 3 + j] += by_k1[i, n] * T_w_bk1[j, n]
        for c in range(18):
            k, k1 = 0.0, 0.0
            for n in range(6):
                k += at_k[i, n] * carried_k[n, c]
                k1 += at_k1[i, n] * carried_k1[n, c]
            if c < 15:
                J[i, c], J[i, 15 + c] = k, k1
            else:
                J[i, c + 17 if c < 17 else 41] = k + k1


@kernel
def prior_factor(
    T_w_b: Array,
    mean_T_w_b: Array,
    mean_rest: Array,
    rest: Array,
    border: Border,
    mean_border: Border,
    delta: Array,
    J: Array,
) -> None:
    """Coordinates delta (35,) of a state and the border about a prior's mean, and J (35, 35).

    Order: state (15), border (20). `rest` is [v, bg, ba] of the state.
    """
    J.fill(0.0)
    phi = so3_log(product_t(mean_T_w_b, T_w_b))
    J_r_inv = so3_jr_inv(phi)
    for i in range(3):
        delta[i] = phi[i]
        delta[3 + i] = rest[i] - mean_rest[i]
        delta[6 + i] = T_w_b[i, 3] - mean_T_w_b[i, 3]
        delta[9 + i], delta[12 + i] = rest[3 + i] - mean_rest[3 + i], rest[6 + i] - mean_rest[6 + i]
        for j in range(3):
            J[i, j] = J_r_inv[i, j]
    for i in range(3, 15):
        J[i, i] = 1.0
    # Down in the mean's level frame: (-y, x, -1) for a small tilt (x, y).
    M = product_t(mean_border.R_w_g, border.R_w_g)
    delta[15], delta[16] = -M[1, 2], M[0, 2]
    J[15, 15], J[16, 15] = M[1, 1], -M[0, 1]
    J[15, 16], J[16, 16] = -M[1, 0], M[0, 0]
    for pose in range(2):
        at = 17 if pose == 0 else 25
        T = border.T_b_c if pose == 0 else border.T_b_m
        mean_T = mean_border.T_b_c if pose == 0 else mean_border.T_b_m
        xi = se3_log(se3_mul(T, se3_inv(mean_T)))
        J_l_inv = se3_jl_inv(xi)
        for i in range(6):
            delta[at + i] = xi[i]
            for j in range(6):
                J[at + i, at + j] = J_l_inv[i, j]
    for place, scalar in ((23, 1), (24, 2), (31, 3), (33, 4), (32, 5), (34, 6)):
        delta[place] = border.scalars[scalar] - mean_border.scalars[scalar]
        J[place, place] = 1.0
