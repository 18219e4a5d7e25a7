"""Extrinsic rotation as VINS-Mono estimates it (estimate_extrinsic: 2).

Every step says q_bc q_visual = q_imu q_bc, which is linear in the quaternion q_bc: stack the steps
and take the smallest right-singular vector. The gyroscope's bias is taken as zero.
"""

import numpy as np

from maci2.imu import Preintegrated
from maci2.lie import so3_log
from maci2.types import Array
from maci2.vision import RelativePoses

MIN_STEPS = 10
MIN_SINGULAR = 0.25
"""Smallest accepted second-smallest singular value; less means too little rotation."""

HUBER_DEG = 5.0
ROUNDS = 10
"""Number of reweighting rounds; the released code reweights with every new frame."""


def vins_rotation(pre: Preintegrated, vision: RelativePoses) -> tuple[Array, str]:
    """Extrinsic rotation R_b_c, and the reason if the method would not accept it."""
    Rs_visual = vision.Ts_ck_ck1[:, :3, :3]
    q_visual = np.array([quaternion(R) for R in Rs_visual])
    q_imu = np.array([quaternion(R) for R in pre.gamma])
    R_b_c = np.eye(3)
    for _ in range(ROUNDS):
        rows = []
        for k in range(len(q_imu)):
            predicted = R_b_c.T @ pre.gamma[k] @ R_b_c
            angle_deg = np.rad2deg(np.linalg.norm(so3_log(Rs_visual[k].T @ predicted)))
            weight = HUBER_DEG / angle_deg if angle_deg > HUBER_DEG else 1.0
            rows.append(weight * (right_product(q_visual[k]) - left_product(q_imu[k])))
        _, singular, Vt = np.linalg.svd(np.concatenate(rows))
        R_b_c = rotation(Vt[-1])
    if len(q_imu) < MIN_STEPS:
        return R_b_c, f"{len(q_imu)} steps, needed {MIN_STEPS}"
    if singular[-2] <= MIN_SINGULAR:
        return R_b_c, (
            f"second smallest singular value {singular[-2]:.3f}, needed above {MIN_SINGULAR}: too "
            "little rotation"
        )
    return R_b_c, ""


def quaternion(R: Array) -> Array:
    """(4,) w first."""
    phi = so3_log(np.ascontiguousarray(R))
    half = 0.5 * np.linalg.norm(phi)
    return np.concatenate([[np.cos(half)], 0.5 * np.sinc(half / np.pi) * phi])


def rotation(q_wxyz: Array) -> Array:
    w, v = q_wxyz[0], q_wxyz[1:]
    return np.asarray((w * w - v @ v) * np.eye(3) + 2.0 * np.outer(v, v) + 2.0 * w * _skew(v))


def left_product(q_wxyz: Array) -> Array:
    """(4, 4) L with L p = q p."""
    return _product_matrix(q_wxyz, 1.0)


def right_product(q_wxyz: Array) -> Array:
    """(4, 4) R with R p = p q."""
    return _product_matrix(q_wxyz, -1.0)


def _product_matrix(q_wxyz: Array, sign: float) -> Array:
    w, v = q_wxyz[0], q_wxyz[1:]
    matrix = np.empty((4, 4))
    matrix[0, 0], matrix[0, 1:], matrix[1:, 0] = w, -v, v
    matrix[1:, 1:] = w * np.eye(3) + sign * _skew(v)
    return matrix


def _skew(v: Array) -> Array:
    return np.array([[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]])
