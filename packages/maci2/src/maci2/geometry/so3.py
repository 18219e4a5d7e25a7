"""Rotations: SO(3)."""

import math

import numpy as np
from scipy.special import zeta

from maci2.jit import kernel
from maci2.types import Array

# Below this angle [rad] the closed forms cancel by more than a digit; the series there converge
# to the last bit in `SERIES_TERMS` terms.
SERIES_BELOW = 1.0
SERIES_TERMS = 10


def _alternating(first: int) -> Array:
    """(-1)^m / (first + 2m)!, the series of sin, cos and of what is left of them."""
    return np.array([(-1.0) ** m / math.factorial(first + 2 * m) for m in range(SERIES_TERMS + 1)])


def _slopes(coefficients: Array) -> Array:
    """Coefficients of the derivative by t of a series in t^2, divided by t."""
    return 2.0 * np.arange(1, len(coefficients)) * coefficients[1:]


_EVEN = 2 * np.arange(1, SERIES_TERMS + 2)

SIN = _alternating(1)
COS = _alternating(2)
COS_SLOPE = _slopes(COS)
SIN_REMAINDER = _alternating(3)
SIN_REMAINDER_SLOPE = _slopes(SIN_REMAINDER)
# |B_2n| / (2n)!, n = 1, 2, ..., with Bernoulli numbers B: 2 zeta(2n) / (2 pi)^2n.
HALF_COT = 2.0 * zeta(_EVEN) / (2.0 * np.pi) ** _EVEN
HALF_COT_SLOPE = _slopes(HALF_COT)


@kernel
def _series(coefficients: Array, t2: float) -> float:
    """sum_m coefficients[m] t2^m."""
    total = 0.0
    for m in range(SERIES_TERMS - 1, -1, -1):
        total = coefficients[m] + t2 * total
    return total


@kernel
def sin_over(t: float) -> float:
    """sin(t) / t."""
    return _series(SIN, t * t) if t < SERIES_BELOW else math.sin(t) / t


@kernel
def one_minus_cos_over(t: float) -> float:
    """(1 - cos t) / t^2."""
    return _series(COS, t * t) if t < SERIES_BELOW else (1.0 - math.cos(t)) / (t * t)


@kernel
def t_minus_sin_over(t: float) -> float:
    """(t - sin t) / t^3."""
    return _series(SIN_REMAINDER, t * t) if t < SERIES_BELOW else (t - math.sin(t)) / (t * t * t)


@kernel
def half_cot_over(t: float) -> float:
    """(1 - (t / 2) cot(t / 2)) / t^2, the second-order coefficient of J^-1."""
    if t < SERIES_BELOW:
        return _series(HALF_COT, t * t)
    return (1.0 - 0.5 * t / math.tan(0.5 * t)) / (t * t)


@kernel
def one_minus_cos_slope(t: float) -> float:
    """The derivative of `one_minus_cos_over`, divided by t."""
    if t < SERIES_BELOW:
        return _series(COS_SLOPE, t * t)
    return (sin_over(t) - 2.0 * one_minus_cos_over(t)) / (t * t)


@kernel
def t_minus_sin_slope(t: float) -> float:
    """The derivative of `t_minus_sin_over`, divided by t."""
    if t < SERIES_BELOW:
        return _series(SIN_REMAINDER_SLOPE, t * t)
    return (one_minus_cos_over(t) - 3.0 * t_minus_sin_over(t)) / (t * t)


@kernel
def half_cot_slope(t: float) -> float:
    """The derivative of `half_cot_over`, divided by t."""
    if t < SERIES_BELOW:
        return _series(HALF_COT_SLOPE, t * t)
    s = math.sin(0.5 * t)
    rising = (0.25 * t / (s * s) - 0.5 / math.tan(0.5 * t)) / t
    return (rising - 2.0 * half_cot_over(t)) / (t * t)


@kernel
def norm3(v: Array) -> float:
    return math.sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2])


@kernel
def skew(v: Array) -> Array:
    """[v]x, so that skew(v) @ w is the cross product."""
    m = np.zeros((3, 3))
    m[0, 1], m[0, 2] = -v[2], v[1]
    m[1, 0], m[1, 2] = v[2], -v[0]
    m[2, 0], m[2, 1] = -v[1], v[0]
    return m


@kernel
def multiply(A: Array, B: Array, out: Array) -> None:
    """out = A @ B of 3x3 matrices, or of the rotations in 4x4 ones: calling BLAS takes longer."""
    for i in range(3):
        for j in range(3):
            out[i, j] = A[i, 0] * B[0, j] + A[i, 1] * B[1, j] + A[i, 2] * B[2, j]


@kernel
def product(A: Array, B: Array) -> Array:
    """A @ B, likewise."""
    out = np.empty((3, 3))
    multiply(A, B, out)
    return out


@kernel
def product_t(A: Array, B: Array) -> Array:
    """A.T @ B, likewise."""
    out = np.empty((3, 3))
    for i in range(3):
        for j in range(3):
            out[i, j] = A[0, i] * B[0, j] + A[1, i] * B[1, j] + A[2, i] * B[2, j]
    return out


@kernel
def polynomial(phi: Array, first: float, second: float, out: Array) -> None:
    """out[0:3, 0:3] = I + first [phi]x + second [phi]x^2."""
    x, y, z = phi[0], phi[1], phi[2]
    diagonal = 1.0 - second * (x * x + y * y + z * z)
    out[0, 0] = diagonal + second * x * x
    out[1, 1] = diagonal + second * y * y
    out[2, 2] = diagonal + second * z * z
    out[0, 1] = second * x * y - first * z
    out[1, 0] = second * x * y + first * z
    out[0, 2] = second * x * z + first * y
    out[2, 0] = second * x * z - first * y
    out[1, 2] = second * y * z - first * x
    out[2, 1] = second * y * z + first * x


@kernel
def apply_polynomial(
    phi: Array, first: float, second: float, x: float, y: float, z: float
) -> tuple[float, float, float]:
    """(I + first [phi]x + second [phi]x^2) (x, y, z)."""
    cx, cy, cz = phi[1] * z - phi[2] * y, phi[2] * x - phi[0] * z, phi[0] * y - phi[1] * x
    return (
        x + first * cx + second * (phi[1] * cz - phi[2] * cy),
        y + first * cy + second * (phi[2] * cx - phi[0] * cz),
        z + first * cz + second * (phi[0] * cy - phi[1] * cx),
    )


@kernel
def _rotation_series(phi: Array, first: float, second: float) -> Array:
    """(3, 3) I + first [phi]x + second [phi]x^2."""
    out = np.empty((3, 3))
    polynomial(phi, first, second, out)
    return out


@kernel
def so3_exp(phi: Array) -> Array:
    """Rotation by the vector phi [rad]."""
    t = norm3(phi)
    return _rotation_series(phi, sin_over(t), one_minus_cos_over(t))


@kernel
def so3_log(R: Array) -> Array:
    """Rotation vector of R, |phi| <= pi.

    Through the unit quaternion: atan2 keeps all digits near zero and near pi alike, where arccos of
    the trace and the antisymmetric part lose half of them.
    """
    trace = R[0, 0] + R[1, 1] + R[2, 2]
    v = np.empty(3)
    if trace > 0.0:
        w = 1.0 + trace
        v[0] = R[2, 1] - R[1, 2]
        v[1] = R[0, 2] - R[2, 0]
        v[2] = R[1, 0] - R[0, 1]
    else:
        i = 0
        if R[1, 1] > R[0, 0]:
            i = 1
        if R[2, 2] > R[i, i]:
            i = 2
        j, k = (i + 1) % 3, (i + 2) % 3
        v[i] = 1.0 + R[i, i] - R[j, j] - R[k, k]
        v[j] = R[j, i] + R[i, j]
        v[k] = R[k, i] + R[i, k]
        w = R[k, j] - R[j, k]
    if w < 0.0:
        w = -w
        for i in range(3):
            v[i] = -v[i]
    n = norm3(v)
    ratio = n / w if w > 0.0 else math.inf
    # Below 1e-5, atan(x) / x is 1 - x^2 / 3 to the last bit.
    near = ratio < 1e-5
    scale = 2.0 / w * (1.0 - ratio * ratio / 3.0) if near else 2.0 * math.atan2(n, w) / n
    for i in range(3):
        v[i] *= scale
    return v


@kernel
def so3_jl(phi: Array) -> Array:
    """Left Jacobian of SO(3)."""
    t = norm3(phi)
    return _rotation_series(phi, one_minus_cos_over(t), t_minus_sin_over(t))


@kernel
def so3_jr(phi: Array) -> Array:
    """Right Jacobian of SO(3), J_r(phi) = J_l(-phi)."""
    t = norm3(phi)
    return _rotation_series(phi, -one_minus_cos_over(t), t_minus_sin_over(t))


@kernel
def so3_jl_inv(phi: Array) -> Array:
    """Inverse of the left Jacobian; regular below 2 pi."""
    return _rotation_series(phi, -0.5, half_cot_over(norm3(phi)))


@kernel
def so3_jr_inv(phi: Array) -> Array:
    """Inverse of the right Jacobian; regular below 2 pi."""
    return _rotation_series(phi, 0.5, half_cot_over(norm3(phi)))
