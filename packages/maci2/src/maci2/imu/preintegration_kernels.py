"""Preintegration with covariance and bias derivatives as plain sums (Eqs. 2-3, App. C).

The usual recursion multiplies 9x9 matrices at every sample. In the coordinates

    psi = R_bi_bk dphi,   c_v = dv + [beta]x psi,   c_p = dp - t dv + [alpha - beta t]x psi

errors only add up, so covariance and bias derivatives are plain sums of 3x3 blocks, and the
initial covariance enters as it is. `tests/imu` holds the recursion and compares.

Only the product of rotations runs from step to step. All else is alike for every step, so steps
are the last axis of every array here, and the compiler takes several at once. Its inner loops have
one store each: with more, it gives up proving that they are apart. Array expressions in place of
these loops, which numpy could run as well, make a product of rotations six times slower.
"""

from typing import NamedTuple

import numpy as np

from maci2.geometry import one_minus_cos_over, sin_over, t_minus_sin_over
from maci2.jit import kernel
from maci2.types import NS, Array, Stamps

SHORT_SERIES_BELOW = 1e-3
"""Squared angle of one step [rad^2] below which four terms give the last bit."""


class Steps(NamedTuple):
    """The n integration steps of one segment."""

    dt: Array
    """(n,) [s]"""
    value: Array
    """(6, n) angular rate and specific force without bias [rad/s, m/s^2]."""
    std: Array
    """(6, n) noise of the whole step [rad/s, m/s^2]."""
    position: Array
    """(2, n) where in its period a step reads the samples (0 to 1), and how many times longer the
    period is than the step."""


class Turns(NamedTuple):
    """Rotation of whole steps, or of their first halves."""

    dt: Array
    """(n,) [s]"""
    one: Array
    """(n,) ones."""
    phi: Array
    """(3, n) rotation vector [rad]."""
    t2: Array
    """(n,) its square."""
    s: Array
    """(n,) sin(t) / t, t the angle."""
    c: Array
    """(n,) (1 - cos t) / t^2."""
    c_dt: Array
    """(n,) the same times dt."""
    r_dt: Array
    """(n,) (t - sin t) / t^3 times dt."""
    R: Array
    """(3, 3, n) rotation from the start of a step to the first frame b_i."""
    turn: Array
    """(3, 3, n) Exp(phi)."""
    jacobian: Array
    """(3, 3, n) J_l(phi) dt."""


class Motion(NamedTuple):
    """Motion of the body in n steps, seen from its first frame b_i."""

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


@kernel
def room_for(n: int) -> tuple[Steps, Turns, Motion]:
    """Arrays for n steps; what no function below fills is right as it is."""
    steps = Steps(np.empty(n), np.zeros((6, n)), np.zeros((6, n)), np.empty((2, n)))
    a, v, M = np.empty((7, n)), np.empty((4, 3, n)), np.empty((5, 3, 3, n))
    turns = Turns(a[0], np.ones(n), v[0], a[1], a[2], a[3], a[4], a[5], M[0], M[1], M[2])
    motion = Motion(M[3], M[4], np.zeros((3, 3, n)), v[1], v[2], v[3], a[6])
    return steps, turns, motion


@kernel
def place(
    stamps_ns: Stamps,
    first: int,
    count: int,
    start_ns: int,
    end: float,
    midpoint: bool,
    steps: Steps,
) -> None:
    """`count` steps between samples, cut to 0..`end` [s], and steps of no length in what is left of
    the room, which add nothing."""
    dt, position = steps.dt, steps.position
    for k in range(count, len(dt)):
        dt[k] = position[0, k] = position[1, k] = 0.0
    for k in range(count):
        begin = (stamps_ns[first + k] - start_ns) / NS
        period = (stamps_ns[first + k + 1] - stamps_ns[first + k]) / NS
        left, right = max(begin, 0.0), min(begin + period, end)
        dt[k] = right - left
        position[0, k] = 0.5 if midpoint else 0.0
        position[1, k] = 1.0
        if begin < 0.0 or right == end:
            position[0, k] = ((0.5 * (left + right) if midpoint else left) - begin) / period
            # An instant has one step without length, and no noise.
            position[1, k] = period / dt[k] if dt[k] > 0.0 else 0.0


@kernel
def resample(
    values: Array,
    variances: Array,
    bias: Array,
    first: int,
    count: int,
    position: Array,
    value: Array,
    std: Array,
) -> None:
    """Interpolate samples and variances to where the first `count` steps read them.

    A shortened step averages its noise over less time; what stays the same is the density.
    """
    for j in range(3):
        for k in range(count, value.shape[1]):
            value[j, k] = std[j, k] = 0.0
        for k in range(count):
            s, i = position[0, k], first + k
            value[j, k] = values[i, j] + s * (values[i + 1, j] - values[i, j]) - bias[j]
            variance = variances[i, j] + s * (variances[i + 1, j] - variances[i, j])
            std[j, k] = np.sqrt(position[1, k] * variance)


@kernel
def rotate(steps: Steps, midpoint: bool, turns: Turns, motion: Motion, gamma: Array) -> None:
    """Everything that rotates; gamma becomes the segment's rotation."""
    _coefficients(steps, 0.5 if midpoint else 1.0, turns)
    R, turn, jacobian = turns.R, turns.turn, turns.jacobian
    _polynomials(turns.phi, turns.one, turns.s, turns.c, turn)
    _polynomials(turns.phi, turns.dt, turns.c_dt, turns.r_dt, jacobian)
    R_at, whole, part = motion.R_at, motion.whole, motion.part
    if midpoint:
        _multiply(turn, turn, whole)
        _chain(whole, R, gamma)
        _multiply(R, turn, R_at)
        _multiply(R, jacobian, part)
    else:
        _chain(turn, R_at, gamma)
    _multiply(R_at, jacobian, whole)
    if midpoint:
        for i in range(3):
            for j in range(3):
                for k in range(len(steps.dt)):
                    whole[i, j, k] += part[i, j, k]


@kernel
def _coefficients(steps: Steps, share: float, turns: Turns) -> None:
    """`turns` of a share of each step, up to its matrices."""
    dt, phi, t2, s, c, r_dt = turns.dt, turns.phi, turns.t2, turns.s, turns.c, turns.r_dt
    for k in range(len(dt)):
        dt[k] = share * steps.dt[k]
        t2[k] = 0.0
    for i in range(3):
        for k in range(len(dt)):
            phi[i, k] = steps.value[i, k] * dt[k]
        for k in range(len(dt)):
            t2[k] += phi[i, k] * phi[i, k]
    for k in range(len(dt)):
        x = t2[k]
        # Divisions take as long as all the rest together.
        s[k] = 1.0 - x * (1 / 6) * (1.0 - x * (1 / 20) * (1.0 - x * (1 / 42)))
        c[k] = 0.5 - x * (1 / 24) * (1.0 - x * (1 / 30) * (1.0 - x * (1 / 56)))
        r = 1.0 / 6.0 - x * (1 / 120) * (1.0 - x * (1 / 42) * (1.0 - x * (1 / 72)))
        r_dt[k] = dt[k] * r
    for k in range(len(dt)):
        if t2[k] >= SHORT_SERIES_BELOW:
            t = np.sqrt(t2[k])
            s[k], c[k], r_dt[k] = sin_over(t), one_minus_cos_over(t), dt[k] * t_minus_sin_over(t)
    for k in range(len(dt)):
        turns.c_dt[k] = c[k] * dt[k]


@kernel
def _polynomials(phi: Array, one: Array, first: Array, second: Array, out: Array) -> None:
    """out = one I + first [phi]x + second [phi]x^2."""
    for i in range(3):
        j, m = (i + 1) % 3, (i + 2) % 3
        for k in range(len(one)):
            out[i, i, k] = one[k] - second[k] * (phi[j, k] * phi[j, k] + phi[m, k] * phi[m, k])
        for k in range(len(one)):
            out[i, j, k] = second[k] * phi[i, k] * phi[j, k] - first[k] * phi[m, k]
        for k in range(len(one)):
            out[j, i, k] = second[k] * phi[i, k] * phi[j, k] + first[k] * phi[m, k]


@kernel
def _multiply(A: Array, B: Array, out: Array) -> None:
    """out = A B, step by step."""
    for i in range(3):
        for j in range(3):
            for k in range(A.shape[2]):
                out[i, j, k] = (
                    A[i, 0, k] * B[0, j, k] + A[i, 1, k] * B[1, j, k] + A[i, 2, k] * B[2, j, k]
                )


@kernel
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


@kernel
def sum_motion(steps: Steps, motion: Motion, beta: Array, alpha: Array) -> None:
    """Velocity and position up to every step, and at the end of all."""
    dt, force, R_at, d_beta = steps.dt, steps.value[3:6], motion.R_at, motion.d_beta
    now = 0.0
    for k in range(len(dt)):
        now += dt[k]
        motion.t[k] = now
    for i in range(3):
        for k in range(len(dt)):
            d_beta[i, k] = dt[k] * (
                R_at[i, 0, k] * force[0, k]
                + R_at[i, 1, k] * force[1, k]
                + R_at[i, 2, k] * force[2, k]
            )
        velocity, place = 0.0, 0.0
        for k in range(len(dt)):
            place += dt[k] * (velocity + 0.5 * d_beta[i, k])
            velocity += d_beta[i, k]
            motion.beta[i, k], motion.alpha[i, k] = velocity, place
        beta[i], alpha[i] = velocity, place


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
    """Effect of one unit of error on axis j of the gyroscope, then of the accelerometer in a step.

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
