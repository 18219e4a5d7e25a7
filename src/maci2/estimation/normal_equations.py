"""Normal equations of the joint problem in block-arrow form (see `arrow`).

The paper transports each covariance to its residual, Sigma_r = J_l^-1(r) Sigma J_l^-T(r). Since
J_l(r) r = r (and J_r(r) r = r), that leaves the cost r' Sigma_r^-1 r unchanged, so residuals are
whitened by the measurements' own covariances and the cost is a sum of squares throughout.
"""

import math
from typing import NamedTuple

import numpy as np

from maci2.compile import kernel
from maci2.estimation.prior_equations import add_priors
from maci2.estimation.problem import (
    Measurements,
    Priors,
    Unknowns,
    Variables,
    gravity_basis,
)
from maci2.estimation.residuals import (
    COLUMNS,
    XI_BC,
    by_offset,
    by_scale,
    imu_residual,
    later,
    lengthened,
    motion_D_offset,
    visual_residual,
)
from maci2.estimation.small_cholesky import BLOCK, gram, padded, whiten
from maci2.lie import se3_adj, se3_inv
from maci2.types import Array

GIVEN = XI_BC.start - 2 * BLOCK
"""Number of shared unknowns if the extrinsics are given: gravity and two biases."""

VISUAL = 6
"""Number of visual residuals between two keyframes; there are `BLOCK` inertial ones."""


class System(NamedTuple):
    """Normal equations in block-arrow form; the border excludes extrinsics that are given."""

    A: Array
    B: Array
    C: Array
    D: Array
    rhs: Array
    rhs_border: Array


@kernel
def empty_system(keyframes: int, unknowns: Unknowns) -> System:
    """Allocate the normal equations for this many keyframes."""
    border = GIVEN + (6 if unknowns.extrinsics else 0) + (2 if unknowns.constants else 0)
    return System(
        np.empty((keyframes, BLOCK, BLOCK)),
        np.empty((keyframes, BLOCK, BLOCK)),
        np.empty((keyframes, BLOCK, border)),
        np.empty((border, border)),
        np.empty((keyframes, BLOCK)),
        np.empty(border),
    )


@kernel
def linearize(
    m: Measurements, priors: Priors, unknowns: Unknowns, x: Variables, system: System
) -> float:
    """Fill `system` with the normal equations at x; returns the cost there."""
    border = len(system.D)
    last, last_visual = 2 * BLOCK + border, VISUAL + border - GIVEN
    W_visual, r = np.zeros((BLOCK, BLOCK)), np.zeros(BLOCK)
    J = np.zeros((VISUAL, COLUMNS if unknowns.extrinsics else XI_BC.start))
    visual = np.zeros((BLOCK, padded(last_visual + 1)))
    imu = np.zeros((BLOCK, padded(last + 1)))
    H_visual = np.empty((visual.shape[1], visual.shape[1]))
    H = np.empty((imu.shape[1], imu.shape[1]))
    white_visual, white = np.empty(visual.shape), np.empty(imu.shape)
    basis = gravity_basis(x.g_c0, unknowns.sphere)
    adj_c_b = se3_adj(se3_inv(x.T_b_c))
    delta_bg, delta_ba = np.empty(3), np.empty(3)
    for i in range(3):
        delta_bg[i], delta_ba[i] = x.bg[i] - m.bias_gyro[i], x.ba[i] - m.bias_acc[i]
    _clear(system)
    cost = add_priors(priors, unknowns, x, system.D, system.rhs_border)
    D_offset = np.zeros(9)
    for k in range(len(m.dt)):
        T_c0_bk, T_c0_bk1, T_ck_ck1 = x.Ts_c0_b[k], x.Ts_c0_b[k + 1], m.Ts_ck_ck1[k]
        gamma, beta, alpha = m.gamma[k], m.beta[k], m.alpha[k]
        if unknowns.constants:
            T_ck_ck1 = lengthened(T_ck_ck1, x.inverse_scale)
            D_offset = motion_D_offset(m.dt[k], gamma, beta, alpha, m.rates[k], m.rates[k + 1])
            gamma, beta, alpha = later(gamma, beta, alpha, D_offset, x.offset_s)
        visual_residual(T_ck_ck1, T_c0_bk, T_c0_bk1, x.T_b_c, r, J)
        _visual_columns(J, adj_c_b, k == 0, unknowns.extrinsics, visual)
        if unknowns.constants:
            by_scale(T_ck_ck1, x.inverse_scale, r, last_visual - 2, visual)
        for i in range(VISUAL):
            visual[i, last_visual] = r[i]
        for i in range(VISUAL):
            for j in range(VISUAL):
                W_visual[i, j] = m.white_visual[k, i, j]
        cost += _whitened_gram(
            W_visual, visual, last_visual, m.visual_limit, white_visual, H_visual
        )
        _add_visual(H_visual, k, last_visual, system)
        imu_residual(
            m.dt[k],
            gamma,
            beta,
            alpha,
            m.D_bg[k],
            m.D_ba[k],
            T_c0_bk,
            x.v_b[k],
            T_c0_bk1,
            x.v_b[k + 1],
            x.g_c0,
            delta_bg,
            delta_ba,
            r,
            imu,
        )
        _constrain_shared(basis, unknowns, imu)
        _constrain_first_pose(adj_c_b, k == 0, unknowns.extrinsics, imu)
        if unknowns.constants:
            by_offset(D_offset, r, last - 1, imu)
        for i in range(BLOCK):
            imu[i, last] = r[i]
        cost += _whitened_gram(m.white_imu[k], imu, last, np.inf, white, H)
        _add_step(H, k, system)
    _pin(unknowns, system)
    return cost


@kernel
def _clear(system: System) -> None:
    system.A.fill(0.0)
    system.B.fill(0.0)
    system.C.fill(0.0)
    system.D.fill(0.0)
    system.rhs.fill(0.0)
    system.rhs_border.fill(0.0)


@kernel
def _visual_columns(J: Array, adj_c_b: Array, is_first: bool, extrinsics: bool, out: Array) -> None:
    """Derivatives of a visual residual by xi_k (xi_k1: opposite sign) and free extrinsics."""
    for i in range(VISUAL):
        for j in range(6):
            out[i, j] = J[i, j]
            if extrinsics:
                by_xi_bc = J[i, XI_BC.start + j]
                if is_first:
                    # The first pose is the inverse extrinsics: it moves only with them.
                    for n in range(6):
                        by_xi_bc -= J[i, n] * adj_c_b[n, j]
                out[i, VISUAL + j] = by_xi_bc


@kernel
def _constrain_shared(basis: Array, unknowns: Unknowns, J: Array) -> None:
    """Express the derivatives of an IMU residual by the shared unknowns that are free."""
    for i in range(BLOCK):
        g0, g1, g2 = J[i, 18], J[i, 19], J[i, 20]
        for j in range(3):
            J[i, 18 + j] = g0 * basis[0, j] + g1 * basis[1, j] + g2 * basis[2, j]
            if not unknowns.bias_gyro:
                J[i, 21 + j] = 0.0
            if not unknowns.bias_acc:
                J[i, 24 + j] = 0.0


@kernel
def _constrain_first_pose(adj_c_b: Array, is_first: bool, extrinsics: bool, J: Array) -> None:
    """Derivatives of the first IMU residual by the extrinsics, whose inverse is the first pose; its
    own columns are removed."""
    for row in range(BLOCK):
        if extrinsics:
            for j in range(6):
                by_xi_bc = 0.0
                if is_first:
                    for i in range(6):
                        by_xi_bc -= J[row, i] * adj_c_b[i, j]
                J[row, XI_BC.start + j] = by_xi_bc
        if is_first:
            for i in range(6):
                J[row, i] = 0.0


@kernel
def _whitened_gram(W: Array, J: Array, last: int, limit: float, white: Array, H: Array) -> float:
    """H = w X' X with X = W J; the last column of J is the residual. Returns the cost.

    Beyond `limit` the residual counts by Huber's loss: w falls and the cost grows linearly.
    """
    whiten(W, J, white)
    square = 0.0
    for i in range(BLOCK):
        square += white[i, last] ** 2
    cost = square
    length = math.sqrt(square)
    if length > limit:
        cost = limit * (2.0 * length - limit)
        root_weight = math.sqrt(limit / length)
        for i in range(BLOCK):
            for c in range(white.shape[1]):
                white[i, c] *= root_weight
    gram(white, H)
    return cost


@kernel
def _add_visual(H: Array, k: int, last: int, system: System) -> None:
    """Add a visual residual's [k | constants | residual] to the blocks of k and k + 1, where its
    sign is opposite; the first pose is fixed."""
    A, B, C, D, rhs, rhs_border = system
    for i in range(VISUAL):
        for j in range(VISUAL):
            A[k + 1, i, j] += H[i, j]
            if k > 0:
                A[k, i, j] += H[i, j]
                B[k, i, j] = -H[i, j]
        for j in range(VISUAL, last):
            C[k + 1, i, GIVEN - VISUAL + j] -= H[i, j]
            if k > 0:
                C[k, i, GIVEN - VISUAL + j] += H[i, j]
        rhs[k + 1, i] += H[i, last]
        if k > 0:
            rhs[k, i] -= H[i, last]
    for i in range(VISUAL, last):
        for j in range(VISUAL, last):
            D[GIVEN - VISUAL + i, GIVEN - VISUAL + j] += H[i, j]
        rhs_border[GIVEN - VISUAL + i] -= H[i, last]


@kernel
def _add_step(H: Array, k: int, system: System) -> None:
    """Add an IMU residual's [k | k + 1 | border | residual] to the blocks."""
    A, B, C, D, rhs, rhs_border = system
    border = len(D)
    last = 2 * BLOCK + border
    for i in range(BLOCK):
        for j in range(BLOCK):
            A[k, i, j] += H[i, j]
            A[k + 1, i, j] += H[BLOCK + i, BLOCK + j]
            B[k, i, j] += H[i, BLOCK + j]
        for j in range(border):
            C[k, i, j] += H[i, 2 * BLOCK + j]
            C[k + 1, i, j] += H[BLOCK + i, 2 * BLOCK + j]
        rhs[k, i] -= H[i, last]
        rhs[k + 1, i] -= H[BLOCK + i, last]
    for i in range(border):
        for j in range(border):
            D[i, j] += H[2 * BLOCK + i, 2 * BLOCK + j]
        rhs_border[i] -= H[2 * BLOCK + i, last]


@kernel
def _pin(unknowns: Unknowns, system: System) -> None:
    """Give fixed unknowns a unit diagonal, so that their step is zero."""
    for i in range(6):
        system.A[0, i, i] = 1.0
    if unknowns.sphere:
        system.D[2, 2] = 1.0
    for i in range(3):
        if not unknowns.bias_gyro:
            system.D[3 + i, 3 + i] = 1.0
        if not unknowns.bias_acc:
            system.D[6 + i, 6 + i] = 1.0
