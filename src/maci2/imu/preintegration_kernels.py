"""Preintegration with covariance and bias derivatives as plain sums (Eqs. 2-3, App. C).

The usual recursion multiplies 9x9 matrices at every sample. In the coordinates

    psi = R_bi_bk dphi,   c_v = dv + [beta]x psi,   c_p = dp - t dv + [alpha - beta t]x psi

errors only add up, so covariance and bias derivatives are plain sums of 3x3 blocks, and the
initial covariance enters as it is. `tests/imu` holds the recursion and compares.
"""

import numpy as np

from maci2.compile import kernel
from maci2.imu.integration_steps import (
    Motion,
    Steps,
    place,
    resample,
    room_for,
    rotate,
    sum_motion,
)
from maci2.types import NS, Array, Stamps

ROUND = 8
"""Steps for which there is room are a multiple of this."""


@kernel
def preintegrate_segments(
    stamps_ns: Stamps,
    gyro: Array,
    acc: Array,
    var_gyro: Array,
    var_acc: Array,
    cov_0: Array,
    starts_ns: Stamps,
    ends_ns: Stamps,
    bias: Array,
    midpoint: bool,
    rotations_only: bool,
) -> tuple[Array, Array, Array, Array, Array, Array]:
    """dt, gamma, beta, alpha, cov of m segments (see `Preintegrated`), and (m, 9, 6) by both
    biases; (m, 6) biases of gyroscope and accelerometer are taken off.

    With `rotations_only` what does not belong to gamma is left at zero.
    """
    m = len(starts_ns)
    dt = np.empty(m)
    gamma, beta, alpha = np.empty((m, 3, 3)), np.zeros((m, 3)), np.zeros((m, 3))
    cov, by_bias = np.empty((m, 9, 9)), np.empty((m, 9, 6))
    sums, half, sums_bias = np.zeros((9, 9)), np.empty((9, 9)), np.zeros((9, 6))
    steps, turns, motion = room_for(0)
    errors = np.zeros((9, 6, 0))
    for k in range(m):
        start_ns, end_ns = starts_ns[k], ends_ns[k]
        dt[k] = (end_ns - start_ns) / NS
        first = np.searchsorted(stamps_ns, start_ns, side="right") - 1
        n = np.searchsorted(stamps_ns, end_ns, side="left") - first
        # Segments are about as long as one another, so that their steps fit into the same room.
        room = (n + ROUND - 1) // ROUND * ROUND
        if room != len(steps.dt):
            steps, turns, motion = room_for(room)
            errors = motion.whole if rotations_only else np.zeros((9, 6, room))
        position, value, std = steps.position, steps.value, steps.std
        place(stamps_ns, first, n, start_ns, dt[k], midpoint, steps)
        resample(gyro, var_gyro, bias[k, 0:3], first, n, position, value[0:3], std[0:3])
        rotate(steps, midpoint, turns, motion, gamma[k])
        if not rotations_only:
            resample(acc, var_acc, bias[k, 3:6], first, n, position, value[3:6], std[3:6])
            sum_motion(steps, motion, beta[k], alpha[k])
            _errors(steps, motion, errors)
        _sum_errors(errors, steps.std, cov_0, sums, sums_bias)
        # D (D sums)' is D sums D', for sums are symmetric.
        _errors_from_sums(gamma[k], beta[k], alpha[k], dt[k], sums, half)
        for i in range(9):
            for j in range(9):
                sums[i, j] = half[j, i]
        _errors_from_sums(gamma[k], beta[k], alpha[k], dt[k], sums, cov[k])
        _errors_from_sums(gamma[k], beta[k], alpha[k], dt[k], sums_bias, by_bias[k])
    return dt, gamma, beta, alpha, cov, by_bias


@kernel
def _errors(steps: Steps, motion: Motion, out: Array) -> None:
    """What one unit of error on axis j of the gyroscope, then of the accelerometer does in a step.

    Gyroscope: whole on psi, [beta]x whole - [d_beta]x part on c_v, and
    [alpha - t beta]x whole - tau [d_beta]x part on c_p. Accelerometer: R dt on c_v and tau R dt on
    c_p. tau is minus the middle of a step: c_p counts from the start of the segment.
    """
    dt, beta, d_beta = steps.dt, motion.beta, motion.d_beta
    whole, part, R_at = motion.whole, motion.part, motion.R_at
    n = len(dt)
    lever, kick, tau = np.empty((3, n)), np.empty(n), np.empty(n)
    for k in range(n):
        tau[k] = 0.5 * dt[k] - motion.t[k]
    for i in range(3):
        for k in range(n):
            lever[i, k] = motion.alpha[i, k] - motion.t[k] * beta[i, k]
    for i in range(3):
        a, b = (i + 1) % 3, (i + 2) % 3
        for j in range(3):
            for k in range(n):
                kick[k] = d_beta[a, k] * part[b, j, k] - d_beta[b, k] * part[a, j, k]
            for k in range(n):
                out[i, j, k] = whole[i, j, k]
            for k in range(n):
                c_v = beta[a, k] * whole[b, j, k] - beta[b, k] * whole[a, j, k]
                out[3 + i, j, k] = c_v - kick[k]
            for k in range(n):
                c_p = lever[a, k] * whole[b, j, k] - lever[b, k] * whole[a, j, k]
                out[6 + i, j, k] = c_p - tau[k] * kick[k]
            for k in range(n):
                out[3 + i, 3 + j, k] = dt[k] * R_at[i, j, k]
            for k in range(n):
                out[6 + i, 3 + j, k] = tau[k] * dt[k] * R_at[i, j, k]


@kernel(fastmath=True)
def _sum_errors(errors: Array, std: Array, cov_0: Array, sums: Array, sums_bias: Array) -> None:
    """Covariance (9, 9) and bias derivatives (9, 6) in the coordinates [psi, c_v, c_p], as far as
    there are errors (9, 6, n) of both sensors or (3, 3, n) of psi by the gyroscope."""
    rows, axes, n = errors.shape
    for i in range(rows):
        for j in range(axes):
            total = 0.0
            for k in range(n):
                total += errors[i, j, k]
            # A bias is -1 in all steps.
            sums_bias[i, j] = -total
            for k in range(n):
                errors[i, j, k] *= std[j, k]
    noise = errors.reshape(rows, axes * n)
    for i in range(rows):
        for j in range(0, i + 1, 3):
            # Three sums at once read half as much.
            a, b, c = cov_0[i, j], cov_0[i, j + 1], cov_0[i, j + 2]
            # The accelerometer, the second half of the columns, does not reach psi.
            for k in range(axes * n if j >= 3 else 3 * n):
                a += noise[i, k] * noise[j, k]
                b += noise[i, k] * noise[j + 1, k]
                c += noise[i, k] * noise[j + 2, k]
            sums[i, j] = sums[j, i] = a
            sums[i, j + 1] = sums[j + 1, i] = b
            sums[i, j + 2] = sums[j + 2, i] = c


@kernel
def _errors_from_sums(
    gamma: Array, beta: Array, alpha: Array, t: float, sums: Array, out: Array
) -> None:
    """Each column from [psi, c_v, c_p] to the errors [dphi, dv, dp]."""
    for c in range(sums.shape[1]):
        for i in range(3):
            j, k = (i + 1) % 3, (i + 2) % 3
            psi_i, psi_j, psi_k = sums[i, c], sums[j, c], sums[k, c]
            c_v, c_p = sums[3 + i, c], sums[6 + i, c]
            out[i, c] = gamma[i, i] * psi_i + gamma[j, i] * psi_j + gamma[k, i] * psi_k
            out[3 + i, c] = c_v - (beta[j] * psi_k - beta[k] * psi_j)
            out[6 + i, c] = c_p + t * c_v - (alpha[j] * psi_k - alpha[k] * psi_j)


@kernel
def interpolate_samples(
    stamps_ns: Stamps, gyro: Array, acc: Array, bias_gyro: Array, bias_acc: Array, at_ns: Stamps
) -> Array:
    """(n, 6) what gyroscope and accelerometer measure at n times, less their biases."""
    rates = np.empty((len(at_ns), 6))
    for k in range(len(at_ns)):
        i = min(np.searchsorted(stamps_ns, at_ns[k], side="right") - 1, len(stamps_ns) - 2)
        share = (at_ns[k] - stamps_ns[i]) / (stamps_ns[i + 1] - stamps_ns[i])
        for j in range(3):
            rates[k, j] = gyro[i, j] + share * (gyro[i + 1, j] - gyro[i, j]) - bias_gyro[j]
            rates[k, 3 + j] = acc[i, j] + share * (acc[i + 1, j] - acc[i, j]) - bias_acc[j]
    return rates
