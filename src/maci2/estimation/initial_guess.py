"""Initial guess of the optimization: poses from vision, velocities and gravity in closed form.

Position rows give each velocity as a function of gravity; put into the velocity rows they leave,
for two neighbouring steps,

    u_k+1 - u_k - R_k beta_k = (dt_k + dt_k+1) / 2 g,    u_k = (p_k+1 - p_k - R_k alpha_k) / dt_k

so gravity is a mean, and with an unknown lever arm a small least-squares problem.
"""

import numpy as np

from maci2.calibration_prior import UNKNOWN
from maci2.compile import kernel
from maci2.imu import BiasPrior, Preintegrated
from maci2.lie import product, product_t, se3_inv, se3_mul
from maci2.types import Array
from maci2.vision import RelativePoses


@kernel
def chain(Ts_ck_ck1: Array) -> Array:
    """(n, 4, 4) camera poses T_c0_ck from the n - 1 relative poses."""
    n = len(Ts_ck_ck1) + 1
    Ts_c0_c = np.empty((n, 4, 4))
    T_c0_ck = np.eye(4)
    for k in range(n):
        for i in range(4):
            for j in range(4):
                Ts_c0_c[k, i, j] = T_c0_ck[i, j]
        if k < n - 1:
            T_c0_ck = se3_mul(T_c0_ck, Ts_ck_ck1[k])
    return Ts_c0_c


def start_values(
    pre: Preintegrated, vision: RelativePoses, T_b_c: Array, gravity_norm: float
) -> tuple[Array, Array, Array]:
    """Body poses T_c0_b, body velocities, and gravity of the given norm.

    Rotations are the gyroscope's, whose bias is known by now and which drifts less than vision's
    over many steps; translations are vision's.
    """
    start: tuple[Array, Array, Array] = _start_values(
        pre.dt, pre.gamma, pre.beta, pre.alpha, vision.Ts_ck_ck1, T_b_c, gravity_norm
    )
    return start


@kernel
def _start_values(
    dt: Array,
    gamma: Array,
    beta: Array,
    alpha: Array,
    Ts_ck_ck1: Array,
    T_b_c: Array,
    gravity_norm: float,
) -> tuple[Array, Array, Array]:
    steps = Ts_ck_ck1.copy()
    for k in range(len(steps)):
        R_ck_ck1 = product_t(T_b_c, product(gamma[k], T_b_c))
        for i in range(3):
            for j in range(3):
                steps[k, i, j] = R_ck_ck1[i, j]
    Ts_c0_b, T_c_b = chain(steps), se3_inv(T_b_c)
    for k in range(len(Ts_c0_b)):
        T_c0_bk = se3_mul(Ts_c0_b[k], T_c_b)
        for i in range(4):
            for j in range(4):
                Ts_c0_b[k, i, j] = T_c0_bk[i, j]
    v_b, g_c0 = _velocities_and_gravity(dt, beta, alpha, Ts_c0_b, gravity_norm)
    return Ts_c0_b, v_b, g_c0


@kernel
def _velocities_and_gravity(
    dt: Array, beta: Array, alpha: Array, Ts_c0_b: Array, gravity_norm: float
) -> tuple[Array, Array]:
    """Velocities (n, 3), each in its body, and gravity in c0, given poses."""
    m = len(dt)
    u, turned_beta = np.empty((m, 3)), np.empty((m, 3))
    g = np.zeros(3)
    for k in range(m):
        for i in range(3):
            R = Ts_c0_b[k, i]
            turned_alpha = R[0] * alpha[k, 0] + R[1] * alpha[k, 1] + R[2] * alpha[k, 2]
            turned_beta[k, i] = R[0] * beta[k, 0] + R[1] * beta[k, 1] + R[2] * beta[k, 2]
            u[k, i] = (Ts_c0_b[k + 1, i, 3] - Ts_c0_b[k, i, 3] - turned_alpha) / dt[k]
            if k > 0:
                g[i] += u[k, i] - u[k - 1, i] - turned_beta[k - 1, i]
    scale = gravity_norm / np.sqrt(g[0] * g[0] + g[1] * g[1] + g[2] * g[2])
    for i in range(3):
        g[i] *= scale
    v_b = np.zeros((m + 1, 3))
    for k in range(m + 1):
        for i in range(3):
            if k < m:
                v_c0 = u[k, i] - 0.5 * dt[k] * g[i]
            else:
                # No position row follows the last keyframe; the velocity row before it does.
                v_c0 = u[m - 1, i] + 0.5 * dt[m - 1] * g[i] + turned_beta[m - 1, i]
            for j in range(3):
                v_b[k, j] += Ts_c0_b[k, i, j] * v_c0
    return v_b, g


def lever_arm(pre: Preintegrated, vision: RelativePoses, R_b_c: Array, prior: BiasPrior) -> Array:
    """Lever arm p_b_c without initial guess, together with gravity and accelerometer bias, by
    linear least squares.

    Where vision measured nothing the gyroscope rotates the frame, and no row tells the position.
    """
    measured = vision.measured
    steps = vision.Ts_ck_ck1.copy()
    steps[~measured, :3, :3] = (R_b_c.T @ pre.gamma @ R_b_c)[~measured]
    Ts_c0_c = chain(steps)
    Q, q = Ts_c0_c[:, :3, :3], Ts_c0_c[:, :3, 3]
    R = Q[:-1] @ R_b_c.T
    dt = pre.dt[:, None]
    # u_k = known_k + by_lever_k p_c_b + by_bias_k b_a
    known = (np.diff(q, axis=0) - np.einsum("kij,kj->ki", R, pre.alpha)) / dt
    by_lever = np.diff(Q, axis=0) / dt[:, :, None]
    by_bias = -R @ pre.D_ba[:, 6:9] / dt[:, :, None]
    by_gravity = 0.5 * (pre.dt[:-1] + pre.dt[1:])[:, None, None] * np.eye(3)
    bias_rows = np.diff(by_bias, axis=0) - R[:-1] @ pre.D_ba[:-1, 3:6]
    rows = np.concatenate([-by_gravity, np.diff(by_lever, axis=0), bias_rows], axis=2)
    right = np.einsum("kij,kj->ki", R[:-1], pre.beta[:-1]) - np.diff(known, axis=0)
    both = measured[:-1] & measured[1:]
    rows, right = rows[both], right[both]

    variances = np.trace(vision.covs_T_ck_ck1[:, 0:3, 0:3], axis1=1, axis2=2)
    variance = variances[measured].mean() / 3.0 if measured.any() else variances.mean()
    noise = 2.0 * np.sqrt(variance) / pre.dt.mean()
    prior_rows = np.zeros((6, 9))
    prior_rows[0:3, 3:6] = np.eye(3) * noise / UNKNOWN.lever_m
    prior_rows[3:6, 6:9] = np.diag(noise / prior.std_acc)
    prior_right = np.concatenate([np.zeros(3), prior_rows[3:6, 6:9] @ prior.mean_acc])
    solution = np.linalg.lstsq(
        np.concatenate([rows.reshape(-1, 9), prior_rows]),
        np.concatenate([right.ravel(), prior_right]),
        rcond=None,
    )[0]
    return -R_b_c @ solution[3:6]
