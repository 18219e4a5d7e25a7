"""SO(3) and SE(3): exponential, logarithm, adjoint and Jacobians, right in every regime.

Conventions (docs/conventions.md): the SE(3) tangent is [rho, phi], translation first; Jacobians
are named by side: Exp(x + d) = Exp(J_l(x) d) Exp(x) = Exp(x) Exp(J_r(x) d).

Coefficients such as (t - sin t) / t^3 lose all digits near zero when written in closed form, and
series in both rho and phi lose the coupling of a metre-long rho with a tiny phi. So every
coefficient is its own power series below `SERIES_BELOW` and rho is never truncated.
"""

import math

import numpy as np
from numba import njit
from scipy.special import zeta

from maci2.gaussian import Array

RHO = slice(0, 3)
PHI = slice(3, 6)

# Below this angle [rad] the closed forms cancel by more than a digit; the series there converge
# to the last bit in `SERIES_TERMS` terms.
SERIES_BELOW = 1.0
SERIES_TERMS = 10


def _alternating(first: int) -> Array:
    """(-1)^m / (first + 2m)!, the series of sin, cos and of what is left of them."""
    return np.array([(-1.0) ** m / math.factorial(first + 2 * m) for m in range(SERIES_TERMS)])


SIN = _alternating(1)
COS = _alternating(2)
SIN_REMAINDER = _alternating(3)
COS_REMAINDER = _alternating(4)
FIFTH_ORDER = _alternating(5) * np.arange(1.0, SERIES_TERMS + 1.0)
# |B_2n| / (2n)!, n = 1, 2, ..., with Bernoulli numbers B: 2 zeta(2n) / (2 pi)^2n.
HALF_COT = (
    2.0
    * zeta(2 * np.arange(1, SERIES_TERMS + 1))
    / (2.0 * np.pi) ** (2 * np.arange(1.0, SERIES_TERMS + 1.0))
)


@njit(cache=True)
def skew(v: Array) -> Array:
    """[v]x, so that skew(v) @ w is the cross product."""
    m = np.zeros((3, 3))
    m[0, 1], m[0, 2] = -v[2], v[1]
    m[1, 0], m[1, 2] = v[2], -v[0]
    m[2, 0], m[2, 1] = -v[1], v[0]
    return m


@njit(cache=True)
def _series(coefficients: Array, t2: float) -> float:
    """sum_m coefficients[m] t2^m."""
    total = 0.0
    for m in range(SERIES_TERMS - 1, -1, -1):
        total = coefficients[m] + t2 * total
    return total


@njit(cache=True)
def sin_over(t: float) -> float:
    """sin(t) / t."""
    return _series(SIN, t * t) if t < SERIES_BELOW else math.sin(t) / t


@njit(cache=True)
def one_minus_cos_over(t: float) -> float:
    """(1 - cos t) / t^2."""
    return _series(COS, t * t) if t < SERIES_BELOW else (1.0 - math.cos(t)) / (t * t)


@njit(cache=True)
def t_minus_sin_over(t: float) -> float:
    """(t - sin t) / t^3."""
    return _series(SIN_REMAINDER, t * t) if t < SERIES_BELOW else (t - math.sin(t)) / (t * t * t)


@njit(cache=True)
def _cos_remainder_over(t: float) -> float:
    """(t^2 / 2 - 1 + cos t) / t^4."""
    t2 = t * t
    return (
        _series(COS_REMAINDER, t2)
        if t < SERIES_BELOW
        else (0.5 * t2 - 1.0 + math.cos(t)) / (t2 * t2)
    )


@njit(cache=True)
def _fifth_order(t: float) -> float:
    """(2 t - 3 sin t + t cos t) / (2 t^5)."""
    t2 = t * t
    if t < SERIES_BELOW:
        return _series(FIFTH_ORDER, t2)
    return (2.0 * t - 3.0 * math.sin(t) + t * math.cos(t)) / (2.0 * t2 * t2 * t)


@njit(cache=True)
def _inverse_jacobian_coefficient(t: float) -> float:
    """(1 - (t / 2) cot(t / 2)) / t^2, the second-order coefficient of J^-1."""
    if t < SERIES_BELOW:
        return _series(HALF_COT, t * t)
    return (1.0 - 0.5 * t / math.tan(0.5 * t)) / (t * t)


@njit(cache=True)
def _polynomial(phi: Array, one: float, first: float, second: float) -> Array:
    """one I + first [phi]x + second [phi]x^2."""
    x, y, z = phi[0], phi[1], phi[2]
    m = np.empty((3, 3))
    diagonal = one - second * (x * x + y * y + z * z)
    m[0, 0] = diagonal + second * x * x
    m[1, 1] = diagonal + second * y * y
    m[2, 2] = diagonal + second * z * z
    m[0, 1] = second * x * y - first * z
    m[1, 0] = second * x * y + first * z
    m[0, 2] = second * x * z + first * y
    m[2, 0] = second * x * z - first * y
    m[1, 2] = second * y * z - first * x
    m[2, 1] = second * y * z + first * x
    return m


@njit(cache=True)
def _norm(v: Array) -> float:
    return math.sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2])


@njit(cache=True)
def so3_exp(phi: Array) -> Array:
    """Rotation by the vector phi [rad]."""
    t = _norm(phi)
    # 1 - |..| on the diagonal comes from `one = 1` and the exact second coefficient.
    return _polynomial(phi, 1.0, sin_over(t), one_minus_cos_over(t))


@njit(cache=True)
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
    n = _norm(v)
    ratio = n / w if w > 0.0 else math.inf
    if ratio < 1e-5:
        # atan(x) / x to the last bit.
        scale = 2.0 / w * (1.0 - ratio * ratio / 3.0)
    else:
        scale = 2.0 * math.atan2(n, w) / n
    for i in range(3):
        v[i] *= scale
    return v


@njit(cache=True)
def so3_jl(phi: Array) -> Array:
    """Left Jacobian of SO(3)."""
    t = _norm(phi)
    return _polynomial(phi, 1.0, one_minus_cos_over(t), t_minus_sin_over(t))


@njit(cache=True)
def so3_jr(phi: Array) -> Array:
    """Right Jacobian of SO(3), J_r(phi) = J_l(-phi)."""
    t = _norm(phi)
    return _polynomial(phi, 1.0, -one_minus_cos_over(t), t_minus_sin_over(t))


@njit(cache=True)
def so3_jl_inv(phi: Array) -> Array:
    """Inverse of the left Jacobian; regular below 2 pi."""
    return _polynomial(phi, 1.0, -0.5, _inverse_jacobian_coefficient(_norm(phi)))


@njit(cache=True)
def so3_jr_inv(phi: Array) -> Array:
    """Inverse of the right Jacobian; regular below 2 pi."""
    return _polynomial(phi, 1.0, 0.5, _inverse_jacobian_coefficient(_norm(phi)))


@njit(cache=True)
def se3(R_a_b: Array, p_a_b: Array) -> Array:
    """T_a_b from its two parts."""
    T_a_b = np.zeros((4, 4))
    T_a_b[:3, :3] = R_a_b
    T_a_b[:3, 3] = p_a_b
    T_a_b[3, 3] = 1.0
    return T_a_b


@njit(cache=True)
def se3_inv(T_a_b: Array) -> Array:
    """T_b_a."""
    T_b_a = np.zeros((4, 4))
    for i in range(3):
        for j in range(3):
            T_b_a[i, j] = T_a_b[j, i]
            T_b_a[i, 3] -= T_a_b[j, i] * T_a_b[j, 3]
    T_b_a[3, 3] = 1.0
    return T_b_a


@njit(cache=True)
def se3_exp(xi: Array) -> Array:
    """Rigid motion of the twist [rho, phi]."""
    phi = xi[3:6]
    J = so3_jl(phi)
    T = se3(so3_exp(phi), xi[0:3])
    for i in range(3):
        T[i, 3] = J[i, 0] * xi[0] + J[i, 1] * xi[1] + J[i, 2] * xi[2]
    return T


@njit(cache=True)
def se3_log(T: Array) -> Array:
    """Twist [rho, phi] of a rigid motion, |phi| <= pi."""
    phi = so3_log(T[:3, :3])
    J_inv = so3_jl_inv(phi)
    xi = np.empty(6)
    for i in range(3):
        xi[i] = J_inv[i, 0] * T[0, 3] + J_inv[i, 1] * T[1, 3] + J_inv[i, 2] * T[2, 3]
        xi[3 + i] = phi[i]
    return xi


@njit(cache=True)
def se3_adj(T: Array) -> Array:
    """Ad_T: T Exp(xi) T^-1 = Exp(Ad_T xi)."""
    A = np.zeros((6, 6))
    px, py, pz = T[0, 3], T[1, 3], T[2, 3]
    for j in range(3):
        r0, r1, r2 = T[0, j], T[1, j], T[2, j]
        A[0, j] = A[3, 3 + j] = r0
        A[1, j] = A[4, 3 + j] = r1
        A[2, j] = A[5, 3 + j] = r2
        A[0, 3 + j] = py * r2 - pz * r1
        A[1, 3 + j] = pz * r0 - px * r2
        A[2, 3 + j] = px * r1 - py * r0
    return A


@njit(cache=True)
def _coupling(xi: Array) -> Array:
    """The upper right block Q(rho, phi) of the SE(3) left Jacobian."""
    t = _norm(xi[3:6])
    P, F = skew(xi[0:3]), skew(xi[3:6])
    FP, PF = F @ P, P @ F
    FPF = FP @ F
    return (
        0.5 * P
        + t_minus_sin_over(t) * (FP + PF + FPF)
        + _cos_remainder_over(t) * (F @ FP + PF @ F - 3.0 * FPF)
        + _fifth_order(t) * (FPF @ F + F @ FPF)
    )


@njit(cache=True)
def se3_jl(xi: Array) -> Array:
    """Left Jacobian of SE(3)."""
    J = np.zeros((6, 6))
    J_so3 = so3_jl(xi[3:6])
    J[0:3, 0:3] = J_so3
    J[3:6, 3:6] = J_so3
    J[0:3, 3:6] = _coupling(xi)
    return J


@njit(cache=True)
def se3_jl_inv(xi: Array) -> Array:
    """Inverse of the left Jacobian of SE(3); regular below 2 pi."""
    J_inv = np.zeros((6, 6))
    J_so3_inv = so3_jl_inv(xi[3:6])
    J_inv[0:3, 0:3] = J_so3_inv
    J_inv[3:6, 3:6] = J_so3_inv
    J_inv[0:3, 3:6] = -(J_so3_inv @ _coupling(xi) @ J_so3_inv)
    return J_inv


@njit(cache=True)
def se3_jr(xi: Array) -> Array:
    """Right Jacobian of SE(3)."""
    return se3_jl(-xi)


@njit(cache=True)
def se3_jr_inv(xi: Array) -> Array:
    """Inverse of the right Jacobian of SE(3)."""
    return se3_jl_inv(-xi)
