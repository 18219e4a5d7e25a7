"""Stacks of rotations as files give them: quaternions, and matrices that are nearly orthonormal."""

import numpy as np

from maci2.geometry.so3 import (
    apply_polynomial,
    half_cot_over,
    half_cot_slope,
    norm3,
    one_minus_cos_over,
    one_minus_cos_slope,
    polynomial,
    sin_over,
    so3_exp,
    so3_log,
    t_minus_sin_over,
    t_minus_sin_slope,
)
from maci2.jit import kernel
from maci2.types import Array

RHO = slice(0, 3)
PHI = slice(3, 6)


@kernel
def se3(R_a_b: Array, p_a_b: Array) -> Array:
    """T_a_b from its two parts."""
    T_a_b = np.zeros((4, 4))
    for i in range(3):
        for j in range(3):
            T_a_b[i, j] = R_a_b[i, j]
        T_a_b[i, 3] = p_a_b[i]
    T_a_b[3, 3] = 1.0
    return T_a_b


@kernel
def se3_inv(T_a_b: Array) -> Array:
    """T_b_a."""
    T_b_a = np.zeros((4, 4))
    for i in range(3):
        for j in range(3):
            T_b_a[i, j] = T_a_b[j, i]
            T_b_a[i, 3] -= T_a_b[j, i] * T_a_b[j, 3]
    T_b_a[3, 3] = 1.0
    return T_b_a


@kernel
def se3_mul(T_a_b: Array, T_b_c: Array) -> Array:
    """T_a_c = T_a_b @ T_b_c."""
    T_a_c = np.zeros((4, 4))
    for i in range(3):
        for j in range(4):
            T_a_c[i, j] = (
                T_a_b[i, 0] * T_b_c[0, j] + T_a_b[i, 1] * T_b_c[1, j] + T_a_b[i, 2] * T_b_c[2, j]
            )
        T_a_c[i, 3] += T_a_b[i, 3]
    T_a_c[3, 3] = 1.0
    return T_a_c


@kernel
def se3_exp(xi: Array) -> Array:
    """Rigid motion of the twist [rho, phi]."""
    phi = xi[3:6]
    t = norm3(phi)
    half = one_minus_cos_over(t)
    T = np.zeros((4, 4))
    polynomial(phi, sin_over(t), half, T)
    T[0, 3], T[1, 3], T[2, 3] = apply_polynomial(
        phi, half, t_minus_sin_over(t), xi[0], xi[1], xi[2]
    )
    T[3, 3] = 1.0
    return T


@kernel
def se3_log(T: Array) -> Array:
    """Twist [rho, phi] of a rigid motion, |phi| <= pi."""
    # It reads the upper left corner only, which is R.
    phi = so3_log(T)
    xi = np.empty(6)
    xi[0], xi[1], xi[2] = apply_polynomial(
        phi, -0.5, half_cot_over(norm3(phi)), T[0, 3], T[1, 3], T[2, 3]
    )
    for i in range(3):
        xi[3 + i] = phi[i]
    return xi


@kernel
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


@kernel
def _se3_jacobian(
    xi: Array, first: float, second: float, first_slope: float, second_slope: float
) -> Array:
    """[[P, dP], [0, P]]: P = I + first [phi]x + second [phi]x^2, dP its derivative along rho."""
    rho, phi = xi[0:3], xi[3:6]
    along = rho[0] * phi[0] + rho[1] * phi[1] + rho[2] * phi[2]
    t = norm3(phi)
    J = np.zeros((6, 6))
    polynomial(phi, first, second, J)
    # [phi]x [rho]x + [rho]x [phi]x = rho phi' + phi rho' - 2 (phi . rho) I.
    diagonal = -along * (2.0 * second + second_slope * t * t)
    for i in range(3):
        for j in range(3):
            J[3 + i, 3 + j] = J[i, j]
            symmetric = second * (rho[i] * phi[j] + phi[i] * rho[j])
            J[i, 3 + j] = symmetric + second_slope * along * phi[i] * phi[j]
        J[i, 3 + i] += diagonal
    for i in range(3):
        # The antisymmetric part, [first rho + first_slope (phi . rho) phi]x.
        j, k = (i + 1) % 3, (i + 2) % 3
        turning = first * rho[k] + first_slope * along * phi[k]
        J[i, 3 + j] -= turning
        J[j, 3 + i] += turning
    return J


@kernel
def se3_jl(xi: Array) -> Array:
    """Left Jacobian of SE(3)."""
    t = norm3(xi[3:6])
    return _se3_jacobian(
        xi,
        one_minus_cos_over(t),
        t_minus_sin_over(t),
        one_minus_cos_slope(t),
        t_minus_sin_slope(t),
    )


@kernel
def se3_jr(xi: Array) -> Array:
    """Right Jacobian of SE(3)."""
    return se3_jl(-xi)


@kernel
def se3_jl_inv(xi: Array) -> Array:
    """Inverse of the left Jacobian of SE(3); regular below 2 pi."""
    t = norm3(xi[3:6])
    return _se3_jacobian(xi, -0.5, half_cot_over(t), 0.0, half_cot_slope(t))


@kernel
def se3_jr_inv(xi: Array) -> Array:
    """Inverse of the right Jacobian of SE(3), J_r(xi) = J_l(-xi)."""
    return se3_jl_inv(-xi)


def rotations_from_quat_wxyz(quat_wxyz: Array) -> Array:
    """(n, 4) -> (n, 3, 3); the norm is divided out."""
    norms: Array = np.linalg.norm(quat_wxyz, axis=1, keepdims=True)
    if not norms.all():
        raise ValueError("a quaternion of zeros is no rotation")
    w, x, y, z = (quat_wxyz / norms).T
    rows = [
        [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)],
        [2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)],
        [2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), 2, 0).copy()


def stack_poses(R_a_b: Array, p_a_b: Array) -> Array:
    """(n, 3, 3) and (n, 3) -> (n, 4, 4)."""
    Ts_a_b = np.zeros((len(p_a_b), 4, 4))
    Ts_a_b[:, :3, :3] = R_a_b
    Ts_a_b[:, :3, 3] = p_a_b
    Ts_a_b[:, 3, 3] = 1.0
    return Ts_a_b


def so3_exp_stack(phis: Array) -> Array:
    """Rotations by the vectors (n, 3) [rad]."""
    return np.asarray(_exp_each(np.ascontiguousarray(phis, dtype=np.float64)))


@kernel
def _exp_each(phis: Array) -> Array:
    Rs = np.empty((len(phis), 3, 3))
    for n in range(len(phis)):
        R = so3_exp(phis[n])
        # By entries: to assign whole arrays takes seconds to compile.
        for i in range(3):
            for j in range(3):
                Rs[n, i, j] = R[i, j]
    return Rs


def so3_log_stack(Rs: Array) -> Array:
    """Rotation vectors (n, 3) [rad] of (n, 3, 3), as `so3_log` gives them."""
    xx, yy, zz = Rs[:, 0, 0], Rs[:, 1, 1], Rs[:, 2, 2]
    x, y, z = Rs[:, 2, 1] - Rs[:, 1, 2], Rs[:, 0, 2] - Rs[:, 2, 0], Rs[:, 1, 0] - Rs[:, 0, 1]
    xy, xz, yz = Rs[:, 1, 0] + Rs[:, 0, 1], Rs[:, 0, 2] + Rs[:, 2, 0], Rs[:, 2, 1] + Rs[:, 1, 2]
    # Rows of 4 q q', q the unit quaternion [w, v]; the one with the largest part of q keeps all
    # digits of the others.
    rows = [
        [1.0 + xx + yy + zz, x, y, z],
        [x, 1.0 + xx - yy - zz, xy, xz],
        [y, xy, 1.0 - xx + yy - zz, yz],
        [z, xz, yz, 1.0 - xx - yy + zz],
    ]
    largest = np.argmax([row[i] for i, row in enumerate(rows)], axis=0)
    quat = np.array(rows)[largest, :, np.arange(len(Rs))]
    quat[quat[:, 0] < 0.0] *= -1.0
    w, v = quat[:, :1], quat[:, 1:]
    length: Array = np.linalg.norm(v, axis=1, keepdims=True)
    angle = 2.0 * np.arctan2(length, w)
    return v * np.divide(angle, length, out=2.0 / np.maximum(w, 1.0), where=length > 0.0)


def skew_stack(v: Array) -> Array:
    """Cross product matrices (n, 3, 3) of (n, 3)."""
    x, y, z = v.T
    matrices = np.zeros((len(v), 3, 3))
    matrices[:, 0, 1], matrices[:, 0, 2] = -z, y
    matrices[:, 1, 0], matrices[:, 1, 2] = z, -x
    matrices[:, 2, 0], matrices[:, 2, 1] = -y, x
    return matrices


def nearest_rotation(M: Array) -> Array:
    """The rotation closest to M in the Frobenius norm."""
    U, _, Vt = np.linalg.svd(M)
    sign = np.diag([1.0, 1.0, np.linalg.det(U @ Vt)])
    return U @ sign @ Vt


def orthonormality_error(M: Array) -> float:
    """Largest entry of M^T M - I; 2 for a reflection, which is no rotation at all."""
    if determinant(M) <= 0.0:
        return 2.0
    return float(np.abs(M.T @ M - np.eye(3)).max())


def determinant(M: Array) -> float:
    """Determinant of a 3x3 matrix, as a product: numpy's warns of nearly singular ones."""
    return float(M[0] @ np.cross(M[1], M[2]))


def rotation_angle_deg(R: Array, R_other: Array) -> float:
    """Angle between two rotations [deg]."""
    return float(np.rad2deg(np.linalg.norm(so3_log(np.ascontiguousarray(R.T @ R_other)))))
