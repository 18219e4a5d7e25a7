"""Small matrices in compiled code, written into given arrays: for `maci2.learn.imu.kernels`."""

from math import factorial

import numpy as np

from maci2.compile import kernel
from maci2.types import Array

SERIES_TERMS = 7
"""Terms of the series for half a step's rotation, below 0.5 rad: converged to the last bit."""

_SERIES = np.array(
    [
        [(-1.0) ** m / factorial(2 * m + first) for m in range(SERIES_TERMS + 1)]
        for first in (1, 2, 3)
    ]
)


@kernel
def mm(a: Array, b: Array, out: Array) -> None:
    """out = a b."""
    for i in range(a.shape[0]):
        for j in range(3):
            out[i, j] = a[i, 0] * b[0, j] + a[i, 1] * b[1, j] + a[i, 2] * b[2, j]


@kernel
def mtm(a: Array, b: Array, out: Array) -> None:
    """out = a^T b."""
    for i in range(3):
        for j in range(3):
            out[i, j] = a[0, i] * b[0, j] + a[1, i] * b[1, j] + a[2, i] * b[2, j]


@kernel
def mmt(a: Array, b: Array, out: Array) -> None:
    """out = a b^T."""
    for i in range(3):
        for j in range(3):
            out[i, j] = a[i, 0] * b[j, 0] + a[i, 1] * b[j, 1] + a[i, 2] * b[j, 2]


@kernel
def add_mtv(scale: float, a: Array, v: Array, out: Array) -> None:
    """out += scale a^T v."""
    for i in range(3):
        out[i] += scale * (a[0, i] * v[0] + a[1, i] * v[1] + a[2, i] * v[2])


@kernel
def add_cross(scale: float, v: Array, m: Array, out: Array) -> None:
    """out += scale [v]x m, column by column."""
    for j in range(3):
        out[0, j] += scale * (v[1] * m[2, j] - v[2] * m[1, j])
        out[1, j] += scale * (v[2] * m[0, j] - v[0] * m[2, j])
        out[2, j] += scale * (v[0] * m[1, j] - v[1] * m[0, j])


@kernel
def add_axial(a: Array, b: Array, out: Array) -> None:
    """out += w with <a b^T, [v]x> = w . v: how a gradient `a` by a rotation `b` rotates it."""
    for j in range(3):
        out[0] += a[2, j] * b[1, j] - a[1, j] * b[2, j]
        out[1] += a[0, j] * b[2, j] - a[2, j] * b[0, j]
        out[2] += a[1, j] * b[0, j] - a[0, j] * b[1, j]


@kernel
def polynomial(x: Array, one: float, first: float, second: float, out: Array) -> None:
    """out = one (I + first [x]x + second [x]x^2)."""
    a, b, c = x[0], x[1], x[2]
    s, f = one * second, one * first
    out[0, 0] = one - s * (b * b + c * c)
    out[1, 1] = one - s * (a * a + c * c)
    out[2, 2] = one - s * (a * a + b * b)
    out[0, 1], out[1, 0] = s * a * b - f * c, s * a * b + f * c
    out[0, 2], out[2, 0] = s * a * c + f * b, s * a * c - f * b
    out[1, 2], out[2, 1] = s * b * c - f * a, s * b * c + f * a


@kernel
def coefficients(t2: float) -> tuple[float, float, float, float, float]:
    """sin t / t, (1 - cos t) / t^2, (t - sin t) / t^3; of the last two the derivatives by t^2."""
    c0, c1, c2, d1, d2 = 0.0, 0.0, 0.0, 0.0, 0.0
    for m in range(SERIES_TERMS - 1, -1, -1):
        c0 = c0 * t2 + _SERIES[0, m]
        c1 = c1 * t2 + _SERIES[1, m]
        c2 = c2 * t2 + _SERIES[2, m]
        d1 = d1 * t2 + (m + 1) * _SERIES[1, m + 1]
        d2 = d2 * t2 + (m + 1) * _SERIES[2, m + 1]
    return c0, c1, c2, d1, d2


@kernel
def add_jl_gradient(scale: float, x: Array, J_bar: Array, out: Array) -> None:
    """out += scale times the gradient by x of <J_bar, J_l(x)>."""
    t2 = x[0] * x[0] + x[1] * x[1] + x[2] * x[2]
    _, c1, c2, d1, d2 = coefficients(t2)
    trace = J_bar[0, 0] + J_bar[1, 1] + J_bar[2, 2]
    a0, a1, a2 = J_bar[2, 1] - J_bar[1, 2], J_bar[0, 2] - J_bar[2, 0], J_bar[1, 0] - J_bar[0, 1]
    square = -t2 * trace
    for i in range(3):
        for j in range(3):
            square += x[i] * J_bar[i, j] * x[j]
    along = 2.0 * (d1 * (x[0] * a0 + x[1] * a1 + x[2] * a2) + d2 * square) - 2.0 * c2 * trace
    for i in range(3):
        both = 0.0
        for j in range(3):
            both += (J_bar[i, j] + J_bar[j, i]) * x[j]
        out[i] += scale * (c2 * both + along * x[i])
    out[0] += scale * c1 * a0
    out[1] += scale * c1 * a1
    out[2] += scale * c1 * a2
