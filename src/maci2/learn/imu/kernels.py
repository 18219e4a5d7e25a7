"""The sums of `maci2.learn.imu.integration` and their gradient, sample by sample in compiled code.

On a CPU tensors of thousands of 3x3 matrices spend their time in moving memory; one pass over the
samples forwards and one backwards does not. Forwards as in `maci2.imu.preintegration`, midpoint;
backwards each line below undoes one line above it. `x_bar` is the gradient by x; the gradient by a
rotation is kept as the vector that belongs to a rotation psi in the start frame.
"""

import numpy as np

from maci2.compile import kernel
from maci2.learn.imu.matrices import (
    add_axial,
    add_cross,
    add_jl_gradient,
    add_mtv,
    coefficients,
    mm,
    mmt,
    mtm,
    polynomial,
)
from maci2.types import Array


@kernel
def _step(
    h: float, gyro: Array, acc: Array, t: float, R: Array, beta: Array, alpha: Array,
    x: Array, half: Array, J: Array, R_at: Array, part: Array, whole: Array, d_beta: Array,
    beta_after: Array, alpha_after: Array, lever_p: Array, rows: Array, acc_rows: Array,
) -> None:  # fmt: skip
    """One step: the motion after it, and what its noise adds to [psi, c_v, c_p].

    `t` is the time after the step; everything from `x` on is written.
    """
    for i in range(3):
        x[i] = 0.5 * h * gyro[i]
    c0, c1, c2, _, _ = coefficients(x[0] * x[0] + x[1] * x[1] + x[2] * x[2])
    polynomial(x, 1.0, c0, c1, half)
    polynomial(x, 0.5 * h, c1, c2, J)
    mm(R, half, R_at)
    mm(R, J, part)
    mm(R_at, J, whole)
    tau = 0.5 * h - t
    for i in range(3):
        d_beta[i] = h * (R_at[i, 0] * acc[0] + R_at[i, 1] * acc[1] + R_at[i, 2] * acc[2])
        alpha_after[i] = alpha[i] + h * (beta[i] + 0.5 * d_beta[i])
        beta_after[i] = beta[i] + d_beta[i]
        lever_p[i] = alpha_after[i] - t * beta_after[i]
        for j in range(3):
            whole[i, j] += part[i, j]
            rows[i, j] = whole[i, j]
            rows[3 + i, j] = rows[6 + i, j] = 0.0
            acc_rows[i, j] = h * R_at[i, j]
            acc_rows[3 + i, j] = tau * h * R_at[i, j]
    add_cross(-1.0, d_beta, part, rows[3:6])
    add_cross(-tau, d_beta, part, rows[6:9])
    add_cross(1.0, beta_after, whole, rows[3:6])
    add_cross(1.0, lever_p, whole, rows[6:9])


@kernel
def _rows_gradient(
    C: Array, rows: Array, first: int, var: Array, var_bar: Array, rows_bar: Array
) -> None:
    """Through rows diag(var) rows^T, whose gradient is half of the symmetric C from `first` on."""
    for i in range(rows.shape[0]):
        s0, s1, s2 = 0.0, 0.0, 0.0
        for m in range(rows.shape[0]):
            c = C[first + i, first + m]
            s0 += c * rows[m, 0]
            s1 += c * rows[m, 1]
            s2 += c * rows[m, 2]
        var_bar[0] += 0.5 * rows[i, 0] * s0
        var_bar[1] += 0.5 * rows[i, 1] * s1
        var_bar[2] += 0.5 * rows[i, 2] * s2
        rows_bar[i, 0], rows_bar[i, 1], rows_bar[i, 2] = s0 * var[0], s1 * var[1], s2 * var[2]


@kernel
def _forward_window(
    dt: Array, gyro: Array, acc: Array, var_gyro: Array, var_acc: Array, at: Array,
    gamma: Array, beta_out: Array, alpha_out: Array, cov: Array, bias: Array,
    Rs: Array, betas: Array, alphas: Array,
) -> None:  # fmt: skip
    x, d_beta, lever_p = np.empty(3), np.empty(3), np.empty(3)
    half, J, R_at = np.empty((3, 3)), np.empty((3, 3)), np.empty((3, 3))
    part, whole = np.empty((3, 3)), np.empty((3, 3))
    rows, acc_rows = np.empty((9, 3)), np.empty((6, 3))
    cov_sum, bias_sum = np.zeros((9, 9)), np.zeros((9, 6))
    for i in range(3):
        betas[0, i] = alphas[0, i] = 0.0
        for j in range(3):
            Rs[0, i, j] = 1.0 if i == j else 0.0
    t, out = 0.0, 0
    for k in range(len(dt)):
        t += dt[k]
        _step(
            dt[k], gyro[k], acc[k], t, Rs[k], betas[k], alphas[k], x, half, J, R_at, part, whole,
            d_beta, betas[k + 1], alphas[k + 1], lever_p, rows, acc_rows,
        )  # fmt: skip
        mm(R_at, half, Rs[k + 1])
        for i in range(9):
            r0, r1 = rows[i, 0] * var_gyro[k, 0], rows[i, 1] * var_gyro[k, 1]
            r2 = rows[i, 2] * var_gyro[k, 2]
            for j in range(i + 1):
                cov_sum[i, j] += r0 * rows[j, 0] + r1 * rows[j, 1] + r2 * rows[j, 2]
            for j in range(3):
                bias_sum[i, j] += rows[i, j]
        for i in range(6):
            a0, a1 = acc_rows[i, 0] * var_acc[k, 0], acc_rows[i, 1] * var_acc[k, 1]
            a2 = acc_rows[i, 2] * var_acc[k, 2]
            for j in range(i + 1):
                cov_sum[3 + i, 3 + j] += (
                    a0 * acc_rows[j, 0] + a1 * acc_rows[j, 1] + a2 * acc_rows[j, 2]
                )
            for j in range(3):
                bias_sum[3 + i, 3 + j] += acc_rows[i, j]
        if out < len(at) and k + 1 == at[out]:
            for i in range(3):
                beta_out[out, i], alpha_out[out, i] = betas[k + 1, i], alphas[k + 1, i]
                for j in range(3):
                    gamma[out, i, j] = Rs[k + 1, i, j]
            for i in range(9):
                for j in range(6):
                    bias[out, i, j] = bias_sum[i, j]
                for j in range(i + 1):
                    cov[out, i, j] = cov[out, j, i] = cov_sum[i, j]
            out += 1


@kernel
def _noise_gradient(
    C: Array, B: Array, rows: Array, acc_rows: Array, var_gyro: Array, var_acc: Array,
    var_gyro_bar: Array, var_acc_bar: Array, rows_bar: Array, acc_rows_bar: Array,
) -> None:  # fmt: skip
    """Gradient by a step's variances, and by what its noise adds to covariance (C) and bias
    sums (B)."""
    for j in range(3):
        var_gyro_bar[j] = var_acc_bar[j] = 0.0
    _rows_gradient(C, rows, 0, var_gyro, var_gyro_bar, rows_bar)
    _rows_gradient(C, acc_rows, 3, var_acc, var_acc_bar, acc_rows_bar)
    for j in range(3):
        for i in range(9):
            rows_bar[i, j] += B[i, j]
        for i in range(6):
            acc_rows_bar[i, j] += B[3 + i, 3 + j]


@kernel
def _lever_gradient(
    h: float, t: float, d_beta: Array, beta: Array, lever_p: Array, part: Array, whole: Array,
    rows_bar: Array, beta_bar: Array, alpha_bar: Array, seen_bar: Array, lever_p_bar: Array,
    part_bar: Array, whole_bar: Array, d_beta_bar: Array,
) -> None:  # fmt: skip
    """Gradient carried from the rows of a step to its rotations `part` and `whole`, its `d_beta`,
    and to velocity and position before it; everything from `seen_bar` on is written."""
    tau = 0.5 * h - t
    for i in range(3):
        lever_p_bar[i] = d_beta_bar[i] = 0.0
        for j in range(3):
            seen_bar[i, j] = -rows_bar[3 + i, j] - tau * rows_bar[6 + i, j]
            whole_bar[i, j] = rows_bar[i, j]
            part_bar[i, j] = 0.0
    add_cross(-1.0, d_beta, seen_bar, part_bar)
    add_cross(-1.0, beta, rows_bar[3:6], whole_bar)
    add_cross(-1.0, lever_p, rows_bar[6:9], whole_bar)
    # d/dv of <m_bar, [v]x m>: the sum over columns of m_j x m_bar_j.
    add_axial(rows_bar[6:9], whole, lever_p_bar)
    add_axial(rows_bar[3:6], whole, beta_bar)
    add_axial(seen_bar, part, d_beta_bar)
    for i in range(3):
        alpha_bar[i] += lever_p_bar[i]
        beta_bar[i] -= t * lever_p_bar[i]
        d_beta_bar[i] += beta_bar[i] + 0.5 * h * alpha_bar[i]
        beta_bar[i] += h * alpha_bar[i]


@kernel
def _turn_gradient(
    h: float, t: float, acc: Array, x: Array, J: Array, R: Array, R_at: Array, part: Array,
    whole: Array, part_bar: Array, whole_bar: Array, acc_rows_bar: Array, d_beta_bar: Array,
    psi_bar: Array, R_at_bar: Array, J_bar: Array, scratch: Array, at_bar: Array,
    gyro_bar: Array, acc_bar: Array,
) -> None:  # fmt: skip
    """Gradient carried from a step's rotations to its samples, and to all before it (`psi_bar`);
    everything from `R_at_bar` on is written."""
    tau = 0.5 * h - t
    for i in range(3):
        at_bar[i] = acc_bar[i] = gyro_bar[i] = 0.0
    add_mtv(h, R_at, d_beta_bar, acc_bar)
    mmt(whole_bar, J, R_at_bar)
    for i in range(3):
        for j in range(3):
            R_at_bar[i, j] += h * (
                acc_rows_bar[i, j] + tau * acc_rows_bar[3 + i, j] + d_beta_bar[i] * acc[j]
            )
            part_bar[i, j] += whole_bar[i, j]
    mtm(R_at, whole_bar, J_bar)
    mtm(R, part_bar, scratch)
    J_bar += scratch
    add_axial(R_at_bar, R_at, at_bar)
    # A change of this sample's rate rotates R_at by `part` and all that follows by `whole`.
    add_mtv(1.0, part, at_bar, gyro_bar)
    add_mtv(1.0, whole, psi_bar, gyro_bar)
    add_jl_gradient(0.25 * h * h, x, J_bar, gyro_bar)
    mmt(part_bar, J, scratch)
    psi_bar += at_bar
    add_axial(scratch, R, psi_bar)


@kernel
def _backward_window(
    dt: Array, gyro: Array, acc: Array, var_gyro: Array, var_acc: Array, at: Array,
    gamma_bar: Array, beta_out_bar: Array, alpha_out_bar: Array, cov_bar: Array, bias_bar: Array,
    Rs: Array, betas: Array, alphas: Array, gamma: Array,
    gyro_bar: Array, acc_bar: Array, var_gyro_bar: Array, var_acc_bar: Array,
) -> None:  # fmt: skip
    x, d_beta, lever_p = np.empty(3), np.empty(3), np.empty(3)
    beta, alpha = np.empty(3), np.empty(3)
    half, J, R_at = np.empty((3, 3)), np.empty((3, 3)), np.empty((3, 3))
    part, whole = np.empty((3, 3)), np.empty((3, 3))
    rows, acc_rows = np.empty((9, 3)), np.empty((6, 3))
    rows_bar, acc_rows_bar = np.empty((9, 3)), np.empty((6, 3))
    seen_bar, part_bar, whole_bar = np.empty((3, 3)), np.empty((3, 3)), np.empty((3, 3))
    R_at_bar, J_bar, scratch = np.empty((3, 3)), np.empty((3, 3)), np.empty((3, 3))
    psi_bar, beta_bar, alpha_bar = np.zeros(3), np.zeros(3), np.zeros(3)
    d_beta_bar, lever_p_bar, at_bar = np.empty(3), np.empty(3), np.empty(3)
    C, B = np.zeros((9, 9)), np.zeros((9, 6))
    t, out = 0.0, len(at) - 1
    for k in range(len(dt)):
        t += dt[k]
    for k in range(len(dt) - 1, -1, -1):
        if out >= 0 and k + 1 == at[out]:
            add_axial(gamma_bar[out], gamma[out], psi_bar)
            for i in range(3):
                beta_bar[i] += beta_out_bar[out, i]
                alpha_bar[i] += alpha_out_bar[out, i]
            for i in range(9):
                for j in range(9):
                    C[i, j] += cov_bar[out, i, j] + cov_bar[out, j, i]
                for j in range(6):
                    B[i, j] += bias_bar[out, i, j]
            out -= 1
        h = dt[k]
        _step(
            h, gyro[k], acc[k], t, Rs[k], betas[k], alphas[k], x, half, J, R_at, part, whole,
            d_beta, beta, alpha, lever_p, rows, acc_rows,
        )  # fmt: skip
        _noise_gradient(
            C, B, rows, acc_rows, var_gyro[k], var_acc[k], var_gyro_bar[k], var_acc_bar[k],
            rows_bar, acc_rows_bar,
        )  # fmt: skip
        _lever_gradient(
            h, t, d_beta, beta, lever_p, part, whole, rows_bar, beta_bar, alpha_bar, seen_bar,
            lever_p_bar, part_bar, whole_bar, d_beta_bar,
        )  # fmt: skip
        _turn_gradient(
            h, t, acc[k], x, J, Rs[k], R_at, part, whole, part_bar, whole_bar, acc_rows_bar,
            d_beta_bar, psi_bar, R_at_bar, J_bar, scratch, at_bar, gyro_bar[k], acc_bar[k],
        )  # fmt: skip
        t -= h


@kernel
def forward(
    dt: Array, gyro: Array, acc: Array, var_gyro: Array, var_acc: Array, at: Array
) -> tuple[Array, Array, Array, Array, Array, Array, Array, Array]:
    """Sums of b windows up to their steps `at`; last the motion before each step."""
    b, n = dt.shape
    m = len(at)
    gamma, beta, alpha = np.empty((b, m, 3, 3)), np.empty((b, m, 3)), np.empty((b, m, 3))
    cov, bias = np.empty((b, m, 9, 9)), np.empty((b, m, 9, 6))
    Rs = np.empty((b, n + 1, 3, 3))
    betas, alphas = np.empty((b, n + 1, 3)), np.empty((b, n + 1, 3))
    for w in range(b):
        _forward_window(
            dt[w], gyro[w], acc[w], var_gyro[w], var_acc[w], at, gamma[w], beta[w], alpha[w],
            cov[w], bias[w], Rs[w], betas[w], alphas[w],
        )  # fmt: skip
    return gamma, beta, alpha, cov, bias, Rs, betas, alphas


@kernel
def backward(
    dt: Array, gyro: Array, acc: Array, var_gyro: Array, var_acc: Array, at: Array,
    gamma_bar: Array, beta_bar: Array, alpha_bar: Array, cov_bar: Array, bias_bar: Array,
    Rs: Array, betas: Array, alphas: Array, gamma: Array,
) -> tuple[Array, Array, Array, Array]:  # fmt: skip
    """Gradients by gyro, acc and their variances."""
    b, n = dt.shape
    bars = (np.empty((b, n, 3)), np.empty((b, n, 3)), np.empty((b, n, 3)), np.empty((b, n, 3)))
    for w in range(len(dt)):
        _backward_window(
            dt[w], gyro[w], acc[w], var_gyro[w], var_acc[w], at, gamma_bar[w], beta_bar[w],
            alpha_bar[w], cov_bar[w], bias_bar[w], Rs[w], betas[w], alphas[w], gamma[w],
            bars[0][w], bars[1][w], bars[2][w], bars[3][w],
        )  # fmt: skip
    return bars
