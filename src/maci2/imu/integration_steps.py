"""The steps of one segment between keyframes, and how the body moves in them (Eqs. 2-3).

Only the product of rotations runs from step to step. All else is the same for every step, so steps
are the last axis of every array here, and the compiler takes several at once. Its inner loops have
one store each: with more, it gives up proving that they are apart.
"""

from typing import NamedTuple

import numpy as np

from maci2.compile import kernel
from maci2.lie import one_minus_cos_over, sin_over, t_minus_sin_over
from maci2.types import NS, Array, Stamps

SHORT_SERIES_BELOW = 1e-3
"""Squared angle of one step [rad^2] below which four terms give the last bit."""


class Steps(NamedTuple):
    """What happens in the n integration steps of one segment."""

    dt: Array
    """(n,) [s]"""
    value: Array
    """(6, n) angular rate and specific force without bias [rad/s, m/s^2]."""
    std: Array
    """(6, n) noise of the whole step [rad/s, m/s^2]."""


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


@kernel
def place(
    stamps_ns: Stamps,
    first: int,
    start_ns: int,
    end: float,
    midpoint: bool,
    dt: Array,
    position: Array,
) -> None:
    """The steps between samples, cut to 0..`end` [s].

    position (2, n): where in its period a step reads the samples (0 to 1), and how many times
    longer the period is than the step.
    """
    for k in range(len(dt)):
        begin = (stamps_ns[first + k] - start_ns) / NS
        period = (stamps_ns[first + k + 1] - stamps_ns[first + k]) / NS
        left, right = max(begin, 0.0), min(begin + period, end)
        dt[k] = right - left
        position[0, k] = ((0.5 * (left + right) if midpoint else left) - begin) / period
        # An instant has one step without length, and no noise.
        position[1, k] = period / dt[k] if dt[k] > 0.0 else 0.0


@kernel
def resample(
    values: Array,
    variances: Array,
    bias: Array,
    first: int,
    position: Array,
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


@kernel
def rotate(steps: Steps, midpoint: bool, gamma: Array) -> Motion:
    """Everything that rotates, and room for the rest; gamma becomes the segment's rotation."""
    n = len(steps.dt)
    # Of the whole step, or of its first half: dt, its rotation vector, and the coefficients of
    # turn = Exp(phi) and jacobian = J_l(phi) dt, both polynomials in [phi]x.
    part_dt, one, phi = np.empty(n), np.ones(n), np.empty((3, n))
    s, c, c_dt, r_dt = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    _coefficients(steps, 0.5 if midpoint else 1.0, part_dt, phi, s, c, c_dt, r_dt)
    R, turn, jacobian = np.empty((3, 3, n)), np.empty((3, 3, n)), np.empty((3, 3, n))
    _polynomials(phi, one, s, c, turn)
    _polynomials(phi, part_dt, c_dt, r_dt, jacobian)
    R_at, whole, part = np.empty((3, 3, n)), np.empty((3, 3, n)), np.zeros((3, 3, n))
    if midpoint:
        _multiply(turn, turn, whole)
        _chain(whole, R, gamma)
        _multiply(R, turn, R_at)
        _multiply(R, jacobian, part)
    else:
        _chain(turn, R_at, gamma)
    _multiply(R_at, jacobian, whole)
    for i in range(3):
        for j in range(3):
            for k in range(n):
                whole[i, j, k] += part[i, j, k]
    return Motion(
        R_at, whole, part, np.empty((3, n)), np.empty((3, n)), np.empty((3, n)), np.empty(n)
    )


@kernel
def _coefficients(
    steps: Steps,
    share: float,
    dt: Array,
    phi: Array,
    s: Array,
    c: Array,
    c_dt: Array,
    r_dt: Array,
) -> None:
    """dt and phi of a share of each step; s = sin(t) / t, c = (1 - cos t) / t^2 and
    r = (t - sin t) / t^3, t = |phi|, the last two times dt."""
    t2 = np.zeros(len(dt))
    for k in range(len(dt)):
        dt[k] = share * steps.dt[k]
    for i in range(3):
        for k in range(len(dt)):
            phi[i, k] = steps.value[i, k] * dt[k]
        for k in range(len(dt)):
            t2[k] += phi[i, k] * phi[i, k]
    for k in range(len(dt)):
        x = t2[k]
        s[k] = 1.0 - x / 6.0 * (1.0 - x / 20.0 * (1.0 - x / 42.0))
        c[k] = 0.5 - x / 24.0 * (1.0 - x / 30.0 * (1.0 - x / 56.0))
        r_dt[k] = dt[k] * (1.0 / 6.0 - x / 120.0 * (1.0 - x / 42.0 * (1.0 - x / 72.0)))
    for k in range(len(dt)):
        if t2[k] >= SHORT_SERIES_BELOW:
            t = np.sqrt(t2[k])
            s[k], c[k], r_dt[k] = sin_over(t), one_minus_cos_over(t), dt[k] * t_minus_sin_over(t)
    for k in range(len(dt)):
        c_dt[k] = c[k] * dt[k]


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
