"""Residuals of the joint problem and all their derivatives (Eqs. 10, 12-14, App. A).

The numba functions write one residual `r` and its derivatives `J` into given arrays. Columns of J:

    XI_K, V_K      pose (left, [rho, phi]) and body velocity of keyframe k
    XI_K1, V_K1    those of keyframe k + 1
    G, BG, BA      gravity vector, gyroscope bias, accelerometer bias
    XI_BC          extrinsics T_b_c (left, [rho, phi])
"""

import numpy as np
from numba import njit

from maci2.gaussian import Array
from maci2.lie import (
    se3_adj,
    se3_inv,
    se3_jl_inv,
    se3_jr_inv,
    se3_log,
    skew,
    so3_exp,
    so3_jl_inv,
    so3_jr,
    so3_jr_inv,
    so3_log,
)

XI_K, V_K = slice(0, 6), slice(6, 9)
XI_K1, V_K1 = slice(9, 15), slice(15, 18)
G, BG, BA = slice(18, 21), slice(21, 24), slice(24, 27)
XI_BC = slice(27, 33)
COLUMNS = 33


@njit(cache=True)
def visual_residual(
    T_ck_ck1: Array, T_c0_bk: Array, T_c0_bk1: Array, T_b_c: Array, r: Array, J: Array
) -> None:
    """How far the state's camera motion is from the one vision measured (Eq. 10).

    Zero when they agree; order [rho, phi], [m, rad]. r is (6,), J (6, 33).
    """
    T_c_b = se3_inv(T_b_c)
    T_ck_bk1 = T_ck_ck1 @ T_c_b
    T_ck_c0 = T_ck_bk1 @ se3_inv(T_c0_bk1)
    r[:] = se3_log(T_ck_c0 @ T_c0_bk @ T_b_c)

    J_l_inv = se3_jl_inv(r)
    r_D_xi_k = J_l_inv @ se3_adj(T_ck_c0)
    J[:, XI_K] = r_D_xi_k
    # The two bodies meet in inv(T_c0_bk1) @ T_c0_bk, so only the sign differs.
    J[:, XI_K1] = -r_D_xi_k
    # T_b_c stands at both ends of the chain: one right term, one left term. Differs from the
    # paper's print, where C is inverted: docs/paper_notes.md, note 13.
    J[:, XI_BC] = se3_jr_inv(r) @ se3_adj(T_c_b) - J_l_inv @ se3_adj(T_ck_bk1)


@njit(cache=True)
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
    """How far the state's motion is from the preintegrated one (Eqs. 12-14).

    Order [gamma, beta, alpha], [rad, m/s, m]. `delta_bg`, `delta_ba` are what the biases have moved
    since preintegration; correction is first-order. r is (9,), J (9, 33).
    """
    R_bk_c0 = np.ascontiguousarray(T_c0_bk[:3, :3].T)
    R_bk1_c0 = np.ascontiguousarray(T_c0_bk1[:3, :3].T)
    R_bk_bk1 = R_bk_c0 @ R_bk1_c0.T
    p_c0_bk1 = T_c0_bk1[:3, 3].copy()

    phi_bg = D_bg[0:3] @ delta_bg
    r_gamma = so3_log(R_bk_bk1.T @ gamma @ so3_exp(phi_bg))
    J_l_inv = so3_jl_inv(r_gamma)
    r[0:3] = r_gamma
    J[0:3, 3:6] = J_l_inv @ R_bk1_c0
    J[0:3, 12:15] = -J[0:3, 3:6]
    J[0:3, BG] = so3_jr_inv(r_gamma) @ (so3_jr(phi_bg) @ D_bg[0:3])

    v_c0_bk1 = R_bk1_c0.T @ v_bk1
    J_v = R_bk_c0 @ skew(v_c0_bk1)
    J_p = R_bk_c0 @ skew(p_c0_bk1)
    J_g = R_bk_c0 @ skew(g_c0)
    half_dt2 = 0.5 * dt * dt
    predicted_beta = R_bk_c0 @ (v_c0_bk1 - dt * g_c0) - v_bk
    predicted_alpha = R_bk_c0 @ (p_c0_bk1 - T_c0_bk[:3, 3] - half_dt2 * g_c0) - dt * v_bk
    for i in range(3):
        measured_beta, measured_alpha = beta[i], alpha[i]
        for j in range(3):
            measured_beta += D_bg[3 + i, j] * delta_bg[j] + D_ba[3 + i, j] * delta_ba[j]
            measured_alpha += D_bg[6 + i, j] * delta_bg[j] + D_ba[6 + i, j] * delta_ba[j]
        r[3 + i] = predicted_beta[i] - measured_beta
        r[6 + i] = predicted_alpha[i] - measured_alpha
        for j in range(3):
            J[3 + i, 3 + j] = J_v[i, j] - dt * J_g[i, j]
            J[3 + i, 12 + j] = -J_v[i, j]
            J[3 + i, 15 + j] = R_bk_bk1[i, j]
            J[3 + i, 18 + j] = -dt * R_bk_c0[i, j]
            # p_c0_bk and R_bk_c0 turn together under a left perturbation: only p_c0_bk1 is seen.
            J[6 + i, 3 + j] = J_p[i, j] - half_dt2 * J_g[i, j]
            J[6 + i, 12 + j] = -J_p[i, j]
            J[6 + i, j] = -R_bk_c0[i, j]
            J[6 + i, 9 + j] = R_bk_c0[i, j]
            J[6 + i, 18 + j] = -half_dt2 * R_bk_c0[i, j]
            for row in (3 + i, 6 + i):
                J[row, 21 + j] = -D_bg[row, j]
                J[row, 24 + j] = -D_ba[row, j]
        J[3 + i, 6 + i] = -1.0
        J[6 + i, 6 + i] = -dt
