"""Residuals of the joint problem and all their derivatives (Eqs. 10, 12-14, App. A).

The numba functions write one residual `r` and its derivatives `J` into given arrays. Columns of J:

    XI_K, V_K      pose (left, [rho, phi]) and body velocity of keyframe k
    XI_K1, V_K1    those of keyframe k + 1
    G, BG, BA      gravity vector, gyroscope bias, accelerometer bias
    XI_BC          extrinsics T_b_c (left, [rho, phi])
"""

import numpy as np

from maci2.compile import kernel
from maci2.lie import (
    product,
    product_t,
    se3_adj,
    se3_inv,
    se3_jl_inv,
    se3_log,
    se3_mul,
    so3_exp,
    so3_jl_inv,
    so3_jr,
    so3_log,
)
from maci2.types import Array

XI_K, V_K = slice(0, 6), slice(6, 9)
XI_K1, V_K1 = slice(9, 15), slice(15, 18)
G, BG, BA = slice(18, 21), slice(21, 24), slice(24, 27)
XI_BC = slice(27, 33)
COLUMNS = 33


@kernel
def visual_residual(
    T_ck_ck1: Array, T_c0_bk: Array, T_c0_bk1: Array, T_b_c: Array, r: Array, J: Array
) -> None:
    """Difference between the camera motion of the state and the one vision measured (Eq. 10).

    Zero when they agree; order [rho, phi], [m, rad]. r is (6,), J (6, 33), or (6, 27) where the
    extrinsics are given.
    """
    T_ck_bk1 = se3_mul(T_ck_ck1, se3_inv(T_b_c))
    T_ck_c0 = se3_mul(T_ck_bk1, se3_inv(T_c0_bk1))
    T_ck_bk = se3_mul(T_ck_c0, T_c0_bk)
    xi = se3_log(se3_mul(T_ck_bk, T_b_c))

    # What moves a frame inside the chain moves its left end by an adjoint. The two bodies meet in
    # inv(T_c0_bk1) @ T_c0_bk, so only their signs differ; T_b_c stands at both ends. Differs from
    # the paper's print, where C is inverted: docs/research/paper_notes.md, note 13.
    J_l_inv = se3_jl_inv(xi)
    _adjoint_product(J_l_inv, se3_adj(T_ck_c0), 0, J)
    for i in range(6):
        r[i] = xi[i]
        for j in range(6):
            J[i, 9 + j] = -J[i, j]
    if J.shape[1] == COLUMNS:
        by_xi_bc, adj_ck_bk1 = se3_adj(T_ck_bk), se3_adj(T_ck_bk1)
        for i in range(6):
            for j in range(6):
                by_xi_bc[i, j] -= adj_ck_bk1[i, j]
        _adjoint_product(J_l_inv, by_xi_bc, 27, J)


@kernel
def _adjoint_product(A: Array, B: Array, first: int, out: Array) -> None:
    """out = A B from column `first` on; both are [[X, Y], [0, X]], and so is their product."""
    for i in range(3):
        for j in range(3):
            diagonal, above = 0.0, 0.0
            for k in range(3):
                diagonal += A[i, k] * B[k, j]
                above += A[i, k] * B[k, 3 + j] + A[i, 3 + k] * B[k, j]
            out[i, first + j] = out[3 + i, first + 3 + j] = diagonal
            out[i, first + 3 + j] = above
            out[3 + i, first + j] = 0.0


@kernel
def imu_residual(
    dt: float,
    gamma: Array,
    beta: Array,
    alpha: Array,
    D_bg: Array,
    D_ba: Array,
    T_c0_bk: Array,
    v_bk: Array,
    T_c0_bk1: Array,
    v_bk1: Array,
    g_c0: Array,
    delta_bg: Array,
    delta_ba: Array,
    r: Array,
    J: Array,
) -> None:
    """Difference between the motion of the state and the preintegrated one (Eqs. 12-14).

    Order [gamma, beta, alpha], [rad, m/s, m]. `delta_bg`, `delta_ba` are what the biases have moved
    since preintegration; correction is first-order. r is (9,), J (9, 33).
    """
    _rotation_rows(gamma, D_bg, T_c0_bk, T_c0_bk1, delta_bg, r, J)
    half_dt2 = 0.5 * dt * dt
    v_c0_bk1, p_c0_bk1 = np.empty(3), np.empty(3)
    v_less_fall, p_less_fall = np.empty(3), np.empty(3)
    for i in range(3):
        v_c0_bk1[i] = (
            T_c0_bk1[i, 0] * v_bk1[0] + T_c0_bk1[i, 1] * v_bk1[1] + T_c0_bk1[i, 2] * v_bk1[2]
        )
        p_c0_bk1[i] = T_c0_bk1[i, 3]
        v_less_fall[i] = v_c0_bk1[i] - dt * g_c0[i]
        p_less_fall[i] = p_c0_bk1[i] - half_dt2 * g_c0[i]
    _turned_rows(T_c0_bk, v_less_fall, v_c0_bk1, J[3:6])
    # p_c0_bk and R_bk_c0 rotate together under a left perturbation: only p_c0_bk1 is seen.
    _turned_rows(T_c0_bk, p_less_fall, p_c0_bk1, J[6:9])
    for i in range(3):
        r[3 + i] = -v_bk[i] - beta[i]
        r[6 + i] = -dt * v_bk[i] - alpha[i]
        J[3 + i, 6 + i] = -1.0
        J[6 + i, 6 + i] = -dt
        for j in range(3):
            R_bk_c0 = T_c0_bk[j, i]
            r[3 + i] += R_bk_c0 * v_less_fall[j]
            r[6 + i] += R_bk_c0 * (p_less_fall[j] - T_c0_bk[j, 3])
            J[3 + i, 15 + j] = (
                T_c0_bk[0, i] * T_c0_bk1[0, j]
                + T_c0_bk[1, i] * T_c0_bk1[1, j]
                + T_c0_bk[2, i] * T_c0_bk1[2, j]
            )
            J[3 + i, 18 + j] = -dt * R_bk_c0
            J[6 + i, j] = -R_bk_c0
            J[6 + i, 9 + j] = R_bk_c0
            J[6 + i, 18 + j] = -half_dt2 * R_bk_c0
    for i in range(3, 9):
        for j in range(3):
            r[i] -= D_bg[i, j] * delta_bg[j] + D_ba[i, j] * delta_ba[j]
            J[i, 21 + j] = -D_bg[i, j]
            J[i, 24 + j] = -D_ba[i, j]


@kernel
def _rotation_rows(
    gamma: Array, D_bg: Array, T_c0_bk: Array, T_c0_bk1: Array, delta_bg: Array, r: Array, J: Array
) -> None:
    """Rows 0 to 2 of the IMU residual: log(R_bk1_bk gamma Exp(gamma_D_bg delta_bg))."""
    phi_bg = np.empty(3)
    for i in range(3):
        phi_bg[i] = D_bg[i, 0] * delta_bg[0] + D_bg[i, 1] * delta_bg[1] + D_bg[i, 2] * delta_bg[2]
    gamma_hat = product(gamma, so3_exp(phi_bg))
    phi = so3_log(product_t(T_c0_bk1, product(T_c0_bk, gamma_hat)))
    J_l_inv = so3_jl_inv(phi)
    # J_r^-1 is the transpose of J_l^-1.
    by_bg = product_t(J_l_inv, product(so3_jr(phi_bg), D_bg))
    for i in range(3):
        r[i] = phi[i]
        for j in range(3):
            turn = (
                J_l_inv[i, 0] * T_c0_bk1[j, 0]
                + J_l_inv[i, 1] * T_c0_bk1[j, 1]
                + J_l_inv[i, 2] * T_c0_bk1[j, 2]
            )
            J[i, 3 + j] = turn
            J[i, 12 + j] = -turn
            J[i, 21 + j] = by_bg[i, j]


@kernel
def _turned_rows(T_c0_bk: Array, by_k: Array, by_k1: Array, J: Array) -> None:
    """Derivatives by the rotations of both poses: R_bk_c0 [by_k]x and -R_bk_c0 [by_k1]x."""
    for i in range(3):
        for j in range(3):
            k, m = (j + 1) % 3, (j + 2) % 3
            # (a' [b]x)_j is (a x b)_j, a' the row i of R_bk_c0.
            a_k, a_m = T_c0_bk[k, i], T_c0_bk[m, i]
            J[i, 3 + j] = a_k * by_k[m] - a_m * by_k[k]
            J[i, 12 + j] = a_m * by_k1[k] - a_k * by_k1[m]


@kernel
def lengthened(T_ck_ck1: Array, inverse_scale: float) -> Array:
    """Measured motion with its translation multiplied by a scale."""
    T = T_ck_ck1.copy()
    for i in range(3):
        T[i, 3] /= inverse_scale
    return T


@kernel
def motion_D_offset(
    dt: float, gamma: Array, beta: Array, alpha: Array, rates_k: Array, rates_k1: Array
) -> Array:
    """(9,) derivative of the preintegrated motion by an offset that delays both keyframes, given
    their angular rate and specific force; gamma on the right."""
    D_offset = np.empty(9)
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        turn, gained = rates_k1[i], -rates_k[3 + i]
        for n in range(3):
            turn -= gamma[n, i] * rates_k[n]
            gained += gamma[i, n] * rates_k1[3 + n]
        D_offset[i] = turn
        # What is expressed in b_k turns against the rotation of b_k.
        D_offset[3 + i] = gained - (rates_k[j] * beta[k] - rates_k[k] * beta[j])
        D_offset[6 + i] = (
            beta[i] - dt * rates_k[3 + i] - (rates_k[j] * alpha[k] - rates_k[k] * alpha[j])
        )
    return D_offset


@kernel
def later(
    gamma: Array, beta: Array, alpha: Array, D_offset: Array, offset_s: float
) -> tuple[Array, Array, Array]:
    """Preintegrated motion between keyframes delayed by an offset, to first order."""
    turned, later_beta, later_alpha = np.empty(3), np.empty(3), np.empty(3)
    for i in range(3):
        turned[i] = D_offset[i] * offset_s
        later_beta[i] = beta[i] + D_offset[3 + i] * offset_s
        later_alpha[i] = alpha[i] + D_offset[6 + i] * offset_s
    return product(gamma, so3_exp(turned)), later_beta, later_alpha


@kernel
def by_scale(T_ck_ck1: Array, inverse_scale: float, r: Array, column: int, J: Array) -> None:
    """Derivative of a visual residual by the inverse scale, for `T_ck_ck1` scaled by it.

    Noise is lengthened too: translations are compared at their measured length.
    """
    J_l_inv = so3_jl_inv(r[3:6])
    for i in range(3):
        J[i, column] = r[i]
        for j in range(3):
            J[i, column] -= J_l_inv[i, j] * T_ck_ck1[j, 3]
        r[i] *= inverse_scale
        for j in range(column):
            J[i, j] *= inverse_scale


@kernel
def by_offset(D_offset: Array, r: Array, column: int, J: Array) -> None:
    """Derivative of an IMU residual by the time offset."""
    J_l_inv = so3_jl_inv(r[0:3])
    for i in range(3):
        # J_r^-1 is the transpose of J_l^-1.
        J[i, column] = (
            J_l_inv[0, i] * D_offset[0] + J_l_inv[1, i] * D_offset[1] + J_l_inv[2, i] * D_offset[2]
        )
        J[3 + i, column] = -D_offset[3 + i]
        J[6 + i, column] = -D_offset[6 + i]
