"""The joint optimization (Eq. 9): Levenberg-Marquardt on the chain of keyframes.

The paper transports each covariance to its residual, Sigma_r = J_l^-1(r) Sigma J_l^-T(r). Since
J_l(r) r = r (and J_r(r) r = r), that leaves the cost r' Sigma_r^-1 r unchanged, so residuals are
whitened by the measurements' own covariances and the cost is a sum of squares throughout.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from maci2.estimation.arrow import BLOCK, back_substitute, factor, inverse_blocks
from maci2.estimation.residuals import (
    BG,
    COLUMNS,
    XI_BC,
    XI_K,
    G,
    imu_residual,
    visual_residual,
)
from maci2.gaussian import Array
from maci2.lie import se3_adj, se3_exp, se3_inv, skew

BORDER = COLUMNS - 2 * BLOCK
"""Unknowns that all keyframes share: gravity, two biases, extrinsics."""

ROWS = 15
"""Residuals of one step: six visual, nine inertial."""

LEVER_ARM_STD = 1.0
"""Prior of the extrinsic translation [m]: a camera sits within a metre or so of its IMU. It
matters only where the motion says nothing about the translation."""

DECREMENT = 1e-8
"""Stop when a step promises to lower the cost by less: it then moves nothing by more than 1e-4
standard deviations."""


class Measurements(NamedTuple):
    """What vision and IMU say of m steps, ready for whitening."""

    Ts_ck_ck1: Array
    """(m, 4, 4)"""
    white_visual: Array
    """(m, 6, 6) W with W'W = cov^-1."""
    dt: Array
    gamma: Array
    beta: Array
    alpha: Array
    D_bg: Array
    D_ba: Array
    white_imu: Array
    """(m, 9, 9), for residuals in the paper's sign."""
    bias_gyro: Array
    """(3,) at which the preintegration was made."""
    bias_acc: Array


class Priors(NamedTuple):
    """Gaussian priors; information zero says that nothing is known."""

    mean_bg: Array
    info_bg: Array
    mean_ba: Array
    info_ba: Array


class Unknowns(NamedTuple):
    """Which of the shared unknowns are free."""

    sphere: bool
    """Gravity keeps its norm."""
    bias_gyro: bool
    bias_acc: bool
    extrinsics: bool


class Variables(NamedTuple):
    """The state as arrays; see VIState."""

    Ts_c0_b: Array
    v_b: Array
    g_c0: Array
    bg: Array
    ba: Array
    T_b_c: Array


class System(NamedTuple):
    """Normal equations in block-arrow form."""

    A: Array
    B: Array
    C: Array
    D: Array
    rhs: Array
    rhs_border: Array


class Optimum(NamedTuple):
    """Where the optimization ended."""

    x: Variables
    cost: float
    iterations: int
    converged: bool
    cov_keyframes: Array
    """(n, 9, 9) [xi, v]; the first pose's block is meaningless (gauge)."""
    cov_border: Array
    """(15, 15) [gravity, gyro bias, acc bias, extrinsics] in the tangent space of `gravity_basis`."""
    positive: bool
    """The normal equations at the end were positive definite, so the covariances exist."""


@njit(cache=True)
def gravity_basis(g_c0: Array, sphere: bool) -> Array:
    """(3, 3) derivative of gravity by its unknowns: two angles [rad] on the sphere (the third
    column is zero), or the vector itself [m/s^2]."""
    if not sphere:
        return np.eye(3)
    norm = np.sqrt(g_c0 @ g_c0)
    axis = np.zeros(3)
    axis[np.argmin(np.abs(g_c0))] = 1.0
    across = np.cross(g_c0, axis)
    across *= norm / np.sqrt(across @ across)
    basis = np.zeros((3, 3))
    basis[:, 0] = across
    basis[:, 1] = np.cross(g_c0, across) / norm
    return basis


@njit(cache=True)
def _retract(
    x: Variables, dx: Array, dx_border: Array, unknowns: Unknowns
) -> tuple[Array, Array, Array, Array, Array, Array]:
    Ts_c0_b = np.empty_like(x.Ts_c0_b)
    T_b_c = se3_exp(dx_border[9:15]) @ x.T_b_c
    # Gauge: the first camera is the origin, so the first body pose is the inverse extrinsics.
    Ts_c0_b[0] = se3_inv(T_b_c)
    for k in range(1, len(Ts_c0_b)):
        Ts_c0_b[k] = se3_exp(dx[k, 0:6]) @ x.Ts_c0_b[k]
    g_c0 = x.g_c0 + gravity_basis(x.g_c0, unknowns.sphere) @ dx_border[0:3]
    if unknowns.sphere:
        g_c0 *= np.sqrt((x.g_c0 @ x.g_c0) / (g_c0 @ g_c0))
    return (
        Ts_c0_b,
        x.v_b + dx[:, 6:9],
        g_c0,
        x.bg + dx_border[3:6],
        x.ba + dx_border[6:9],
        T_b_c,
    )


@njit(cache=True)
def _residuals(m: Measurements, x: Variables, k: int, r: Array, J: Array) -> None:
    """All residuals of step k and their derivatives, not whitened: r (15,), J (15, 33)."""
    visual_residual(m.Ts_ck_ck1[k], x.Ts_c0_b[k], x.Ts_c0_b[k + 1], x.T_b_c, r[0:6], J[0:6])
    imu_residual(
        m.dt[k],
        m.gamma[k],
        m.beta[k],
        m.alpha[k],
        m.D_bg[k],
        m.D_ba[k],
        x.Ts_c0_b[k],
        x.v_b[k],
        x.Ts_c0_b[k + 1],
        x.v_b[k + 1],
        x.g_c0,
        x.bg - m.bias_gyro,
        x.ba - m.bias_acc,
        r[6:15],
        J[6:15],
    )


@njit(cache=True)
def _whiten(m: Measurements, k: int, r: Array, J: Array, white: Array) -> None:
    """white (34, 15): whitened derivatives, one unknown a row, and the residual in the last."""
    for first, size, W in ((0, 6, m.white_visual[k]), (6, 9, m.white_imu[k])):
        for i in range(size):
            for c in range(COLUMNS):
                white[c, first + i] = 0.0
            white[COLUMNS, first + i] = 0.0
            for j in range(i + 1):
                w = W[i, j]
                for c in range(COLUMNS):
                    white[c, first + i] += w * J[first + j, c]
                white[COLUMNS, first + i] += w * r[first + j]


@njit(cache=True)
def _prior_cost(priors: Priors, unknowns: Unknowns, x: Variables) -> float:
    cost = 0.0
    for i in range(3):
        cost += priors.info_bg[i] * (x.bg[i] - priors.mean_bg[i]) ** 2
        cost += priors.info_ba[i] * (x.ba[i] - priors.mean_ba[i]) ** 2
        if unknowns.extrinsics:
            cost += (x.T_b_c[i, 3] / LEVER_ARM_STD) ** 2
    return cost


@njit(cache=True)
def _cost(m: Measurements, priors: Priors, unknowns: Unknowns, x: Variables) -> float:
    r, J, white = np.empty(ROWS), np.zeros((ROWS, COLUMNS)), np.empty((COLUMNS + 1, ROWS))
    cost = _prior_cost(priors, unknowns, x)
    for k in range(len(m.dt)):
        _residuals(m, x, k, r, J)
        _whiten(m, k, r, J, white)
        for i in range(ROWS):
            cost += white[COLUMNS, i] ** 2
    return cost


@njit(cache=True)
def _constrain(J: Array, k: int, basis: Array, adj_c_b: Array, unknowns: Unknowns) -> None:
    """Express the derivatives by the unknowns that are really free."""
    if k == 0:
        # The first pose is the inverse extrinsics: it moves only with them.
        J[:, XI_BC] -= J[:, XI_K] @ adj_c_b
        J[:, XI_K] = 0.0
    J[:, G] = J[:, G] @ basis
    if not unknowns.bias_gyro:
        J[:, BG] = 0.0
    if not unknowns.bias_acc:
        J[:, 24:27] = 0.0
    if not unknowns.extrinsics:
        J[:, XI_BC] = 0.0


@njit(cache=True, fastmath=True)
def _outer(white: Array, H: Array) -> None:
    """H = white white^T, lower triangle."""
    n, rows = white.shape
    for i in range(n):
        for j in range(i + 1):
            total = 0.0
            for c in range(rows):
                total += white[i, c] * white[j, c]
            H[i, j] = total


@njit(cache=True)
def _linearize(
    m: Measurements, priors: Priors, unknowns: Unknowns, x: Variables
) -> tuple[System, float]:
    n = len(x.v_b)
    A, B = np.zeros((n, BLOCK, BLOCK)), np.zeros((n, BLOCK, BLOCK))
    C, D = np.zeros((n, BLOCK, BORDER)), np.zeros((BORDER, BORDER))
    rhs, rhs_border = np.zeros((n, BLOCK)), np.zeros(BORDER)
    r, J, white = np.empty(ROWS), np.zeros((ROWS, COLUMNS)), np.empty((COLUMNS + 1, ROWS))
    H = np.empty((COLUMNS + 1, COLUMNS + 1))
    basis = gravity_basis(x.g_c0, unknowns.sphere)
    adj_c_b = se3_adj(se3_inv(x.T_b_c))
    cost = _prior_cost(priors, unknowns, x)
    for k in range(n - 1):
        J[:] = 0.0
        _residuals(m, x, k, r, J)
        _constrain(J, k, basis, adj_c_b, unknowns)
        _whiten(m, k, r, J, white)
        _outer(white, H)
        cost += H[COLUMNS, COLUMNS]
        for i in range(BLOCK):
            for j in range(i + 1):
                A[k, i, j] += H[i, j]
                A[k + 1, i, j] += H[BLOCK + i, BLOCK + j]
            for j in range(BLOCK):
                B[k, i, j] = H[BLOCK + j, i]
            for j in range(BORDER):
                C[k, i, j] += H[2 * BLOCK + j, i]
                C[k + 1, i, j] += H[2 * BLOCK + j, BLOCK + i]
            rhs[k, i] -= H[COLUMNS, i]
            rhs[k + 1, i] -= H[COLUMNS, BLOCK + i]
        for i in range(BORDER):
            for j in range(i + 1):
                D[i, j] += H[2 * BLOCK + i, 2 * BLOCK + j]
            rhs_border[i] -= H[COLUMNS, 2 * BLOCK + i]
    _add_priors(priors, unknowns, x, D, rhs_border)
    _pin(A, D, unknowns)
    return System(A, B, C, D, rhs, rhs_border), cost


@njit(cache=True)
def _add_priors(
    priors: Priors, unknowns: Unknowns, x: Variables, D: Array, rhs_border: Array
) -> None:
    for i in range(3):
        if unknowns.bias_gyro:
            D[3 + i, 3 + i] += priors.info_bg[i]
            rhs_border[3 + i] += priors.info_bg[i] * (priors.mean_bg[i] - x.bg[i])
        if unknowns.bias_acc:
            D[6 + i, 6 + i] += priors.info_ba[i]
            rhs_border[6 + i] += priors.info_ba[i] * (priors.mean_ba[i] - x.ba[i])
    if unknowns.extrinsics:
        p = x.T_b_c[:3, 3].copy()
        p_D_xi = np.zeros((3, 6))
        p_D_xi[:, 0:3] = np.eye(3)
        p_D_xi[:, 3:6] = -skew(p)
        p_D_xi /= LEVER_ARM_STD
        D[9:15, 9:15] += p_D_xi.T @ p_D_xi
        rhs_border[9:15] -= p_D_xi.T @ p / LEVER_ARM_STD
        for i in range(3):
            # A rotation about which nothing is known lies within half a turn.
            D[12 + i, 12 + i] += 1.0 / np.pi**2


@njit(cache=True)
def _pin(A: Array, D: Array, unknowns: Unknowns) -> None:
    """Give unknowns that are not free a unit diagonal: their step is then zero."""
    for i in range(6):
        A[0, i, i] = 1.0
        if not unknowns.extrinsics:
            D[9 + i, 9 + i] = 1.0
    if unknowns.sphere:
        D[2, 2] = 1.0
    for i in range(3):
        if not unknowns.bias_gyro:
            D[3 + i, 3 + i] = 1.0
        if not unknowns.bias_acc:
            D[6 + i, 6 + i] = 1.0


@njit(cache=True)
def _damped_step(system: System, damping: float) -> tuple[bool, Array, Array]:
    A, D = system.A.copy(), system.D.copy()
    for i in range(BLOCK):
        for k in range(len(A)):
            A[k, i, i] *= 1.0 + damping
    for i in range(BORDER):
        D[i, i] *= 1.0 + damping
    B, C = system.B.copy(), system.C.copy()
    rhs, rhs_border = system.rhs.copy(), system.rhs_border.copy()
    if not factor(A, B, C, D, rhs, rhs_border):
        return False, rhs, rhs_border
    dx, dx_border = back_substitute(A, B, C, D, rhs, rhs_border)
    return True, dx, dx_border


@njit(cache=True)
def levenberg_marquardt(
    m: Measurements,
    priors: Priors,
    unknowns: Unknowns,
    x: Variables,
    max_iterations: int,
) -> Optimum:
    """Minimise the joint cost from x; covariances are those at the end, without damping."""
    damping = 1e-6
    converged = False
    iterations = 0
    system, cost = _linearize(m, priors, unknowns, x)
    while iterations < max_iterations and not converged and damping < 1e12:
        iterations += 1
        solved, dx, dx_border = _damped_step(system, damping)
        if not solved:
            damping *= 10.0
            continue
        moved = Variables(*_retract(x, dx, dx_border, unknowns))
        new_cost = _cost(m, priors, unknowns, moved)
        decrement = np.sum(system.rhs * dx) + np.sum(system.rhs_border * dx_border)
        if new_cost <= cost or decrement < DECREMENT:
            x = moved
            converged = decrement < DECREMENT * max(1.0, 1e-6 * cost)
            damping = max(0.1 * damping, 1e-12)
            system, cost = _linearize(m, priors, unknowns, x)
        else:
            damping *= 10.0
    positive = factor(system.A, system.B, system.C, system.D, system.rhs, system.rhs_border)
    if positive:
        cov_keyframes, cov_border = inverse_blocks(system.A, system.B, system.C, system.D)
    else:
        cov_keyframes, cov_border = system.A, system.D
    return Optimum(x, cost, iterations, converged, cov_keyframes, cov_border, positive)
