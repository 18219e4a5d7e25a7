"""Gyroscope bias and extrinsic rotation from rotations alone (Eq. 8), with their covariance."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from maci2.estimator.normal_equations import eliminate, inverse_spd
from maci2.geometry.so3 import product, product_t, so3_exp, so3_jl_inv, so3_jr, so3_log
from maci2.imu import BiasPrior, Preintegrated
from maci2.jit import kernel
from maci2.types import Array

if TYPE_CHECKING:
    from maci2.vision import RelativePoses

MAX_ITERATIONS = 30
STEP_TOLERANCE = 1e-7
"""Largest entry of the last step [rad/s, rad]; each step is a thousandth of the one before."""

UNKNOWNS = 6
"""Number of unknowns: bias and rotation."""

ROW = 3 + UNKNOWNS + 1
"""Columns of a row block: covariance, derivatives, residual."""


class RotationAlignment(NamedTuple):
    """Alignment of the rotations of vision and gyroscope."""

    bias_gyro: Array
    """(3,) [rad/s]"""

    R_b_c: Array
    """(3, 3), as given or as estimated."""

    cov: Array
    """(6, 6) of [bias, rotation (left)]; the rotation block is zero where it was given."""

    residuals: Array
    """(m, 3) residuals [rad]."""

    cost: float
    """Sum of squared whitened residuals."""


def align_rotations(
    pre: Preintegrated,
    vision: "RelativePoses",
    R_b_c: Array,
    prior: BiasPrior,
    estimate_rotation: bool,
) -> RotationAlignment:
    """Minimise Eq. 8 from the given rotation and the bias that `pre` was integrated with."""
    delta_bg, R_b_c, cov, residuals, cost = _align(
        pre.gamma,
        pre.D_bg,
        pre.cov,
        vision.Ts_ck_ck1,
        vision.covs_T_ck_ck1,
        np.ascontiguousarray(R_b_c),
        prior.mean_gyro - pre.bias_gyro,
        prior.info_gyro,
        estimate_rotation,
    )
    if not estimate_rotation:
        cov[3:6, 3:6] = 0.0
    return RotationAlignment(pre.bias_gyro + delta_bg, R_b_c, cov, residuals, cost)


def rotation_from_rates(pre: Preintegrated, vision: "RelativePoses") -> Array:
    """Extrinsic rotation R_b_c without initial guess, by registration of the two sets of mean
    rotation rates.

    A constant gyroscope bias shifts one set as a whole, so it drops out with the centroids. Steps
    that vision did not measure are skipped.
    """
    rates_b = np.array([so3_log(R) for R in pre.gamma]) / pre.dt[:, None]
    rates_c = np.array([so3_log(np.ascontiguousarray(T[:3, :3])) for T in vision.Ts_ck_ck1])
    rates_c /= pre.dt[:, None]
    rates_b, rates_c = rates_b[vision.measured], rates_c[vision.measured]
    if len(rates_b) == 0:
        return np.eye(3)
    spread = (rates_b - rates_b.mean(axis=0)).T @ (rates_c - rates_c.mean(axis=0))
    U, _, Vt = np.linalg.svd(spread)
    return U @ np.diag([1.0, 1.0, np.linalg.det(U @ Vt)]) @ Vt


@kernel
def gyro_residual(
    R_ck_ck1: Array, gamma: Array, gamma_D_bg: Array, R_b_c: Array, delta_bg: Array
) -> tuple[Array, Array, Array]:
    """Difference between the gyroscope's rotation and vision's, r (3,) [rad], right of gamma.

    Also its derivatives by the gyroscope bias and by R_b_c (left). The inverse of the measured
    R_ck_ck1 stands between the extrinsics. Of larger matrices the upper left 3x3 is read.
    """
    phi_bg = np.zeros(3)
    for i in range(3):
        for j in range(3):
            phi_bg[i] += gamma_D_bg[i, j] * delta_bg[j]
    gamma_hat = product(gamma, so3_exp(phi_bg))
    r = so3_log(product(R_b_c, product_t(R_ck_ck1, product_t(R_b_c, gamma_hat))))
    J_l_inv = so3_jl_inv(r)
    # J_r^-1 is the transpose of J_l^-1.
    r_D_bg = product_t(J_l_inv, product(so3_jr(phi_bg), gamma_D_bg))
    right = product(gamma_hat, J_l_inv)
    r_D_theta = np.empty((3, 3))
    for i in range(3):
        for j in range(3):
            r_D_theta[i, j] = J_l_inv[i, j] - right[j, i]
    return r, r_D_bg, r_D_theta


@kernel
def _align(
    gamma: Array,
    D_bg: Array,
    cov_imu: Array,
    Ts_ck_ck1: Array,
    covs_T: Array,
    R_b_c: Array,
    mean_bg: Array,
    info_bg: Array,
    estimate_rotation: bool,
) -> tuple[Array, Array, Array, Array, float]:
    delta_bg, step = np.zeros(3), np.empty(6)
    residuals = np.empty((len(gamma), 3))
    # Of each step [cov | J | r], and of all [J | r]' cov^-1 [J | r].
    rows, H = np.empty((3, ROW)), np.empty((UNKNOWNS + 1, UNKNOWNS + 1))
    cov, cost = np.empty((UNKNOWNS, UNKNOWNS)), 0.0
    for _ in range(MAX_ITERATIONS):
        H.fill(0.0)
        _add_prior(mean_bg, delta_bg, info_bg, estimate_rotation, H)
        for k in range(len(gamma)):
            r, J_bg, J_theta = gyro_residual(Ts_ck_ck1[k], gamma[k], D_bg[k], R_b_c, delta_bg)
            _residual_covariance(product_t(gamma[k], R_b_c), covs_T[k], cov_imu[k], rows)
            for i in range(3):
                residuals[k, i] = rows[i, ROW - 1] = r[i]
                for j in range(3):
                    rows[i, 3 + j] = J_bg[i, j]
                    rows[i, 6 + j] = J_theta[i, j] if estimate_rotation else 0.0
            _add_weighted(rows, H)
        cost = H[UNKNOWNS, UNKNOWNS]
        cov = inverse_spd(H, UNKNOWNS)
        largest = 0.0
        for i in range(UNKNOWNS):
            step[i] = 0.0
            for j in range(UNKNOWNS):
                step[i] -= cov[i, j] * H[j, UNKNOWNS]
            largest = max(largest, abs(step[i]))
        for i in range(3):
            delta_bg[i] += step[i]
        if estimate_rotation:
            R_b_c = product(so3_exp(step[3:6]), R_b_c)
        if largest < STEP_TOLERANCE:
            break
    return delta_bg, R_b_c, cov, residuals, cost


@kernel
def _add_prior(
    mean_bg: Array, delta_bg: Array, info_bg: Array, estimate_rotation: bool, H: Array
) -> None:
    for i in range(3):
        away = mean_bg[i] - delta_bg[i]
        H[i, i] += info_bg[i]
        H[i, UNKNOWNS] -= info_bg[i] * away
        H[UNKNOWNS, UNKNOWNS] += info_bg[i] * away**2
        # A rotation about which nothing is known lies within half a turn.
        H[3 + i, 3 + i] += 1.0 / np.pi**2 if estimate_rotation else 1.0


@kernel
def _residual_covariance(R_bk1_ck: Array, cov_T: Array, cov_imu: Array, rows: Array) -> None:
    """rows[:, 0:3] = covariance of the residual: vision's, rotated, plus the gyroscope's.

    J_r(r) r = r, so the residual is weighed by the noise itself: paper_notes, note 11.
    """
    for i in range(3):
        for j in range(3):
            total = cov_imu[i, j]
            for k in range(3):
                for m in range(3):
                    total += R_bk1_ck[i, k] * cov_T[3 + k, 3 + m] * R_bk1_ck[j, m]
            rows[i, j] = total


@kernel
def _add_weighted(rows: Array, H: Array) -> None:
    """H += X' cov^-1 X from rows [cov | X]."""
    if not eliminate(rows):
        H.fill(np.nan)
    for i in range(UNKNOWNS + 1):
        for j in range(UNKNOWNS + 1):
            for k in range(3):
                H[i, j] += rows[k, 3 + i] * rows[k, 3 + j]
