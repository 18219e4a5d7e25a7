"""Gyroscope bias and extrinsic rotation from rotations alone (Eq. 8), with their covariance."""

from typing import NamedTuple

import numpy as np
from numba import njit

from maci2.gaussian import Array
from maci2.imu import BiasPrior, Preintegrated
from maci2.lie import so3_exp, so3_jl_inv, so3_jr, so3_jr_inv, so3_log
from maci2.vision import RelativePoses

MAX_ITERATIONS = 30
STEP_TOLERANCE = 1e-10


class RotationAlignment(NamedTuple):
    """How vision's rotations and the gyroscope's fit together."""

    bias_gyro: Array
    """(3,) [rad/s]"""

    R_b_c: Array
    """(3, 3), as given or as estimated."""

    cov: Array
    """(6, 6) of [bias, rotation (left)]; the rotation block is zero where it was given."""

    residuals: Array
    """(m, 3) what is left of each step [rad]."""

    cost: float
    """Sum of squared whitened residuals."""


def align_rotations(
    pre: Preintegrated,
    vision: RelativePoses,
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
        prior.std_gyro**-2.0,
        estimate_rotation,
    )
    return RotationAlignment(pre.bias_gyro + delta_bg, R_b_c, cov, residuals, cost)


def rotation_from_rates(pre: Preintegrated, vision: RelativePoses) -> Array:
    """R_b_c with no guess: register the two sets of mean rotation rates.

    A constant gyroscope bias shifts one set as a whole, so it drops out with the centroids.
    """
    rates_b = np.array([so3_log(R) for R in pre.gamma]) / pre.dt[:, None]
    rates_c = np.array([so3_log(np.ascontiguousarray(T[:3, :3])) for T in vision.Ts_ck_ck1])
    rates_c /= pre.dt[:, None]
    spread = (rates_b - rates_b.mean(axis=0)).T @ (rates_c - rates_c.mean(axis=0))
    U, _, Vt = np.linalg.svd(spread)
    return U @ np.diag([1.0, 1.0, np.linalg.det(U @ Vt)]) @ Vt


@njit(cache=True)
def gyro_residual(
    R_ck_ck1: Array, gamma: Array, gamma_D_bg: Array, R_b_c: Array, delta_bg: Array
) -> tuple[Array, Array, Array]:
    """How far the gyroscope's rotation is from vision's, r (3,) [rad], right of gamma.

    Also its derivatives by the gyroscope bias and by R_b_c (left). Needs the inverse of the measured
    R_ck_ck1 between the extrinsics.
    """
    phi_bg = gamma_D_bg @ delta_bg
    gamma_hat = gamma @ so3_exp(phi_bg)
    r = so3_log(R_b_c @ R_ck_ck1.T @ R_b_c.T @ gamma_hat)
    r_D_bg = so3_jr_inv(r) @ so3_jr(phi_bg) @ gamma_D_bg
    r_D_theta = so3_jl_inv(r) - so3_jr_inv(r) @ gamma_hat.T
    return r, r_D_bg, r_D_theta


@njit(cache=True)
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
    m = len(gamma)
    delta_bg = np.zeros(3)
    residuals = np.empty((m, 3))
    H, b, J = np.zeros((6, 6)), np.zeros(6), np.empty((3, 6))
    cost = 0.0
    for _ in range(MAX_ITERATIONS):
        H[:] = 0.0
        b[:] = 0.0
        cost = 0.0
        for i in range(3):
            H[i, i] = info_bg[i]
            b[i] = info_bg[i] * (mean_bg[i] - delta_bg[i])
            cost += info_bg[i] * (mean_bg[i] - delta_bg[i]) ** 2
            # A rotation about which nothing is known lies within half a turn.
            H[3 + i, 3 + i] = 1.0 / np.pi**2 if estimate_rotation else 1.0
        for k in range(m):
            R_ck_ck1 = np.ascontiguousarray(Ts_ck_ck1[k, :3, :3])
            r, J_bg, J_theta = gyro_residual(
                R_ck_ck1, gamma[k], np.ascontiguousarray(D_bg[k, 0:3]), R_b_c, delta_bg
            )
            # J_r(r) r = r, so the residual is weighed by the noise itself: paper_notes, note 11.
            A = gamma[k].T @ R_b_c
            info = np.linalg.inv(
                A @ np.ascontiguousarray(covs_T[k, 3:6, 3:6]) @ A.T
                + np.ascontiguousarray(cov_imu[k, 0:3, 0:3])
            )
            residuals[k] = r
            cost += r @ info @ r
            J[:, 0:3] = J_bg
            J[:, 3:6] = J_theta if estimate_rotation else np.zeros((3, 3))
            H += J.T @ info @ J
            b -= J.T @ (info @ r)
        step = np.linalg.solve(H, b)
        delta_bg += step[0:3]
        if estimate_rotation:
            R_b_c = so3_exp(step[3:6]) @ R_b_c
        if np.max(np.abs(step)) < STEP_TOLERANCE:
            break
    cov = np.linalg.inv(H)
    if not estimate_rotation:
        cov[3:6, 3:6] = 0.0
    return delta_bg, R_b_c, cov, residuals, cost
