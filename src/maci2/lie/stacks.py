"""Stacks of rotations as files give them: quaternions, and matrices that are nearly orthonormal."""

import numpy as np

from maci2.compile import kernel
from maci2.lie.so3 import so3_exp, so3_log
from maci2.types import Array


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
