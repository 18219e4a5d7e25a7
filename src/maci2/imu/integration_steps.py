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
def room_for(n: int) -> tuple[Steps, Turns, Motion]:
    """Arrays for n steps; what no function below fills is right as it is."""
    steps = Steps(np.empty(n), np.zeros((6, n)), np.zeros((6, n)), np.empty((2, n)))
    turns = Turns(
        np.empty(n),
        np.ones(n),
        np.empty((3, n)),
        np.empty(n),
        np.empty(n),
        np.empty(n),
        np.empty(n),
        np.empty(n),
        np.empty((3, 3, n)),
        np.empty((3, 3, n)),
        np.empty((3, 3, n)),
    )
    motion = Motion(
        np.empty((3, 3, n)),
        np.empty((3, 3, n)),
        np.zeros((3, 3, n)),
        np.empty((3, n)),
        np.empty((3, n)),
        np.empty((3, n)),
        np.empty(n),
    )
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
