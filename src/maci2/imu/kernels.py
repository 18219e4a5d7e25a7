"""The numerics of preintegration (Eqs. 2-3, App. C), many steps at a time.

The usual recursion multiplies 9x9 matrices at every sample. In the coordinates

    psi = R_bi_bk dphi,   c_v = dv + [beta]x psi,   c_p = dp - t dv + [alpha - beta t]x psi

errors only add up, so covariance and bias derivatives are plain sums of 3x3 blocks, and the
initial covariance enters as it is. `tests/imu` holds the recursion and compares.

Only the product of rotations runs from step to step. All else is the same for every step, so steps
are the last axis of every array here, (3, n) and (3, 3, n), and the compiler takes several at once.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from maci2.gaussian import Array
from maci2.lie import one_minus_cos_over, sin_over, t_minus_sin_over
from maci2.sensors import NS, Stamps

SHORT_SERIES_BELOW = 1e-3
"""Squared angle of one step [rad^2] below which four terms give the last bit."""


class Steps(NamedTuple):
    """What happens in the n integration steps of one segment."""

    dt: Array
    """(n,) [s]"""
    gyro: Array
    """(3, n) without bias [rad/s]."""
    acc: Array
    """(3, n) without bias [m/s^2]."""
    std_gyro: Array
    """(3, n) noise of the whole step [rad/s]."""
    std_acc: Array
    """(3, n) [m/s^2]"""


class Motion(NamedTuple):
    """How the body moves in them, seen from its first frame b_i."""

    R_at: Array
    """(3, 3, n) rotation where the acceleration of a step is summed: its start, or half way."""
    whole: Array
    """(3, 3, n) gyroscope error to psi, over the whole step,"""
    part: Array
    """(3, 3, n) and up to `R_at`."""
    d_beta: Array
    """(3, n) velocity change of a step [m/s]."""
    beta: Array
    """(3, n) velocity change up to the end of a step [m/s]."""
    alpha: Array
    """(3, n) position change up to the end of a step [m]."""
    t: Array
    """(n,) end of a step [s]."""


@njit(cache=True)
def preintegrate_segments(
    stamps_ns: Stamps,
    gyro: Array,
    acc: Array,
    var_gyro: Array,
    var_acc: Array,
    cov_0: Array,
    keyframes_ns: Stamps,
    bias_gyro: Array,
    bias_acc: Array,
    midpoint: bool,
) -> tuple[Array, Array, Array, Array, Array, Array, Array]:
    """dt, gamma, beta, alpha, cov, D_bg and D_ba of every segment: see `Preintegrated`."""
    m = len(keyframes_ns) - 1
    dt = np.empty(m)
    gamma, beta, alpha = np.empty((m, 3, 3)), np.empty((m, 3)), np.empty((m, 3))
    cov, D_bg, D_ba = np.empty((m, 9, 9)), np.empty((m, 9, 3)), np.empty((m, 9, 3))
    sums, sums_bg, sums_ba = np.empty((9, 9)), np.empty((9, 3)), np.empty((9, 3))
    half = np.empty((9, 9))
    for k in range(m):
        start_ns, end_ns = keyframes_ns[k], keyframes_ns[k + 1]
        dt[k] = (end_ns - start_ns) / NS
        first = np.searchsorted(stamps_ns, start_ns, side="right") - 1
        last = np.searchsorted(stamps_ns, end_ns, side="left")
        steps = _empty_steps(last - first)
        position = _place_steps(stamps_ns, first, start_ns, dt[k], midpoint, steps.dt)
        _resample(gyro, var_gyro, first, position, bias_gyro, steps.gyro, steps.std_gyro)
        _resample(acc, var_acc, first, position, bias_acc, steps.acc, steps.std_acc)
        motion = _integrate(steps, midpoint, gamma[k])
        for i in range(3):
            beta[k, i], alpha[k, i] = motion.beta[i, -1], motion.alpha[i, -1]
        _sum_errors(steps, motion, cov_0, sums, sums_bg, sums_ba)
        # D (D sums)' is D sums D', for sums are symmetric.
        _errors_from_sums(gamma[k], beta[k], alpha[k], dt[k], sums, half)
        _errors_from_sums(gamma[k], beta[k], alpha[k], dt[k], half.T.copy(), cov[k])
        _errors_from_sums(gamma[k], beta[k], alpha[k], dt[k], sums_bg, D_bg[k])
        _errors_from_sums(gamma[k], beta[k], alpha[k], dt[k], sums_ba, D_ba[k])
    return dt, gamma, beta, alpha, cov, D_bg, D_ba


@njit(cache=True)
def _empty_steps(n: int) -> Steps:
    return Steps(
        np.empty(n), np.empty((3, n)), np.empty((3, n)), np.empty((3, n)), np.empty((3, n))
    )


@njit(cache=True, error_model="numpy")
def _place_steps(
    stamps_ns: Stamps, first: int, start_ns: int, end: float, midpoint: bool, dt: Array
) -> Array:
    """Fill dt, the steps between samples, cut to 0..`end` [s].

    Returns (2, n): where in its period a step reads the samples (0 to 1), and how many times longer
    the period is than the step.
    """
    position = np.empty((2, len(dt)))
    for k in range(len(dt)):
        begin = (stamps_ns[first + k] - start_ns) / NS
        period = (stamps_ns[first + k + 1] - stamps_ns[first + k]) / NS
        left, right = max(begin, 0.0), min(begin + period, end)
        dt[k] = right - left
        position[0, k] = ((0.5 * (left + right) if midpoint else left) - begin) / period
        position[1, k] = period / dt[k]
    return position


@njit(cache=True, error_model="numpy")
def _resample(
    values: Array,
    variances: Array,
    first: int,
    position: Array,
    bias: Array,
    value: Array,
    std: Array,
) -> None:
    """Interpolate samples and variances to where the steps read them.

    A shortened step averages its noise over less time; what stays the same is the density.
    """
    for j in range(3):
        for k in range(value.shape[1]):
            s, i = position[0, k], first + k
            value[j, k] = values[i, j] + s * (values[i + 1, j] - values[i, j]) - bias[j]
            variance = variances[i, j] + s * (variances[i + 1, j] - variances[i, j])
            std[j, k] = np.sqrt(position[1, k] * variance)


@njit(cache=True)
def _integrate(steps: Steps, midpoint: bool, gamma: Array) -> Motion:
    """Run through one segment; its rotation is written into gamma."""
    n = len(steps.dt)
    turn, jacobian = np.empty((3, 3, n)), np.empty((3, 3, n))
    R_at, whole, part = np.empty((3, 3, n)), np.empty((3, 3, n)), np.zeros((3, 3, n))
    if midpoint:
        R, turn_twice = np.empty((3, 3, n)), np.empty((3, 3, n))
        _turns(steps.gyro, 0.5 * steps.dt, turn, jacobian)
        _multiply(turn, turn, turn_twice)
        _chain(turn_twice, R, gamma)
        _multiply(R, turn, R_at)
        _multiply(R, jacobian, part)
        _multiply(R_at, jacobian, whole)
        whole += part
    else:
        _turns(steps.gyro, steps.dt, turn, jacobian)
        _chain(turn, R_at, gamma)
        _multiply(R_at, jacobian, whole)
    d_beta, beta, alpha, t = np.empty((3, n)), np.empty((3, n)), np.empty((3, n)), np.empty(n)
    _sum_motion(steps, R_at, d_beta, beta, alpha, t)
    return Motion(R_at, whole, part, d_beta, beta, alpha, t)


@njit(cache=True)
def _turns(gyro: Array, dt: Array, turn: Array, jacobian: Array) -> None:
    """turn = Exp(w dt) and jacobian = J_l(w dt) dt of every step."""
    n = len(dt)
    phi, t2 = np.empty((3, n)), np.zeros(n)
    for i in range(3):
        for k in range(n):
            phi[i, k] = gyro[i, k] * dt[k]
            t2[k] += phi[i, k] * phi[i, k]
    one, s, c, r = np.ones(n), np.empty(n), np.empty(n), np.empty(n)
    _coefficients(t2, s, c, r)
    _polynomials(phi, one, s, c, turn)
    for k in range(n):
        c[k] *= dt[k]
        r[k] *= dt[k]
    _polynomials(phi, dt, c, r, jacobian)


@njit(cache=True)
def _coefficients(t2: Array, s: Array, c: Array, r: Array) -> None:
    """sin(t) / t, (1 - cos t) / t^2 and (t - sin t) / t^3."""
    for k in range(len(t2)):
        x = t2[k]
        s[k] = 1.0 - x / 6.0 * (1.0 - x / 20.0 * (1.0 - x / 42.0))
        c[k] = 0.5 - x / 24.0 * (1.0 - x / 30.0 * (1.0 - x / 56.0))
        r[k] = 1.0 / 6.0 - x / 120.0 * (1.0 - x / 42.0 * (1.0 - x / 72.0))
    for k in range(len(t2)):
        if t2[k] >= SHORT_SERIES_BELOW:
            t = np.sqrt(t2[k])
            s[k], c[k], r[k] = sin_over(t), one_minus_cos_over(t), t_minus_sin_over(t)


@njit(cache=True)
def _polynomials(phi: Array, one: Array, first: Array, second: Array, out: Array) -> None:
    """out = one I + first [phi]x + second [phi]x^2."""
    for i in range(3):
        j, m = (i + 1) % 3, (i + 2) % 3
        for k in range(len(one)):
            out[i, i, k] = one[k] - second[k] * (phi[j, k] * phi[j, k] + phi[m, k] * phi[m, k])
        for k in range(len(one)):
            symmetric, turning = second[k] * phi[i, k] * phi[j, k], first[k] * phi[m, k]
            out[i, j, k] = symmetric - turning
            out[j, i, k] = symmetric + turning


@njit(cache=True)
def _multiply(A: Array, B: Array, out: Array) -> None:
    """out = A B, step by step."""
    for i in range(3):
        for j in range(3):
            for k in range(A.shape[2]):
                out[i, j, k] = (
                    A[i, 0, k] * B[0, j, k] + A[i, 1, k] * B[1, j, k] + A[i, 2, k] * B[2, j, k]
                )


@njit(cache=True)
def _cross(v: Array, M: Array, out: Array) -> None:
    """out = [v]x M, step by step."""
    for i in range(3):
        a, b = (i + 1) % 3, (i + 2) % 3
        for j in range(3):
            for k in range(M.shape[2]):
                out[i, j, k] = v[a, k] * M[b, j, k] - v[b, k] * M[a, j, k]


@njit(cache=True)
def _chain(turn: Array, R: Array, gamma: Array) -> None:
    """R = rotation at the start of every step, gamma = the one at the end of all."""
    for i in range(3):
        for j in range(3):
            gamma[i, j] = 1.0 if i == j else 0.0
    for k in range(turn.shape[2]):
        for i in range(3):
            a, b, c = gamma[i, 0], gamma[i, 1], gamma[i, 2]
            R[i, 0, k], R[i, 1, k], R[i, 2, k] = a, b, c
            for j in range(3):
                gamma[i, j] = a * turn[0, j, k] + b * turn[1, j, k] + c * turn[2, j, k]


@njit(cache=True)
def _sum_motion(
    steps: Steps, R_at: Array, d_beta: Array, beta: Array, alpha: Array, t: Array
) -> None:
    dt, acc = steps.dt, steps.acc
    now = 0.0
    for k in range(len(dt)):
        now += dt[k]
        t[k] = now
    for i in range(3):
        for k in range(len(dt)):
            d_beta[i, k] = dt[k] * (
                R_at[i, 0, k] * acc[0, k] + R_at[i, 1, k] * acc[1, k] + R_at[i, 2, k] * acc[2, k]
            )
        velocity, place = 0.0, 0.0
        for k in range(len(dt)):
            place += dt[k] * (velocity + 0.5 * d_beta[i, k])
            velocity += d_beta[i, k]
            beta[i, k], alpha[i, k] = velocity, place


@njit(cache=True)
def _sum_errors(
    steps: Steps, motion: Motion, cov_0: Array, sums: Array, sums_bg: Array, sums_ba: Array
) -> None:
    """Covariance (9, 9) and bias derivatives (9, 3) in the coordinates [psi, c_v, c_p]."""
    n = len(steps.dt)
    # What one unit of error on axis j of every step does. A bias is -1 in all of them.
    gyro_errors, acc_errors = np.empty((9, 3, n)), np.empty((6, 3, n))
    # Minus the middle of each step: c_p counts position errors from the start of the segment.
    tau = 0.5 * steps.dt - motion.t
    _gyro_errors(motion, tau, gyro_errors)
    _acc_errors(motion, steps.dt, tau, acc_errors)
    sums[:] = cov_0
    sums_ba[:] = 0.0
    for j in range(3):
        for i in range(9):
            sums_bg[i, j] = -_total(gyro_errors[i, j])
        for i in range(6):
            sums_ba[3 + i, j] = -_total(acc_errors[i, j])
    _scale(gyro_errors, steps.std_gyro)
    _scale(acc_errors, steps.std_acc)
    _add_outer(gyro_errors.reshape(9, 3 * n), 0, sums)
    _add_outer(acc_errors.reshape(6, 3 * n), 3, sums)


@njit(cache=True)
def _gyro_errors(motion: Motion, tau: Array, out: Array) -> None:
    """whole on psi, [beta]x whole - [d_beta]x part on c_v, and
    [alpha - t beta]x whole - tau [d_beta]x part on c_p."""
    n = len(tau)
    lever, kick = np.empty((3, n)), np.empty((3, 3, n))
    for i in range(3):
        for k in range(n):
            lever[i, k] = motion.alpha[i, k] - motion.t[k] * motion.beta[i, k]
    _cross(motion.d_beta, motion.part, kick)
    _cross(motion.beta, motion.whole, out[3:6])
    _cross(lever, motion.whole, out[6:9])
    for i in range(3):
        for j in range(3):
            # One store per loop: with more, the compiler gives up proving that they are apart.
            for k in range(n):
                out[i, j, k] = motion.whole[i, j, k]
            for k in range(n):
                out[3 + i, j, k] -= kick[i, j, k]
            for k in range(n):
                out[6 + i, j, k] -= tau[k] * kick[i, j, k]


@njit(cache=True)
def _acc_errors(motion: Motion, dt: Array, tau: Array, out: Array) -> None:
    """R dt on c_v and tau R dt on c_p."""
    for i in range(3):
        for j in range(3):
            for k in range(len(dt)):
                out[i, j, k] = dt[k] * motion.R_at[i, j, k]
            for k in range(len(dt)):
                out[3 + i, j, k] = tau[k] * dt[k] * motion.R_at[i, j, k]


@njit(cache=True, fastmath=True)
def _total(values: Array) -> float:
    total = 0.0
    for k in range(len(values)):
        total += values[k]
    return total


@njit(cache=True)
def _scale(errors: Array, std: Array) -> None:
    rows, _, n = errors.shape
    for i in range(rows):
        for j in range(3):
            for k in range(n):
                errors[i, j, k] *= std[j, k]


@njit(cache=True, fastmath=True)
def _add_outer(noise: Array, first: int, sums: Array) -> None:
    """sums[first:, first:] += noise noise^T."""
    rows, columns = noise.shape
    for i in range(rows):
        for j in range(i + 1):
            total = 0.0
            for c in range(columns):
                total += noise[i, c] * noise[j, c]
            sums[first + i, first + j] += total
            if j < i:
                sums[first + j, first + i] += total


@njit(cache=True)
def _errors_from_sums(
    gamma: Array, beta: Array, alpha: Array, t: float, sums: Array, out: Array
) -> None:
    """Each column from [psi, c_v, c_p] to the errors [dphi, dv, dp]."""
    for c in range(sums.shape[1]):
        x, y, z = sums[0, c], sums[1, c], sums[2, c]
        for i in range(3):
            j, k = (i + 1) % 3, (i + 2) % 3
            out[i, c] = gamma[0, i] * x + gamma[1, i] * y + gamma[2, i] * z
            psi_j, psi_k = sums[j, c], sums[k, c]
            out[3 + i, c] = sums[3 + i, c] - (beta[j] * psi_k - beta[k] * psi_j)
            out[6 + i, c] = (
                sums[6 + i, c] + t * sums[3 + i, c] - (alpha[j] * psi_k - alpha[k] * psi_j)
            )
