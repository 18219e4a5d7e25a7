"""Unknowns of a visual-inertial bundle adjustment: poses, velocities, biases and points.

The world has z up, so that gravity is known in it and unknown are roll and pitch of every pose.
"""

from dataclasses import dataclass, replace

import numpy as np

from maci2.baselines.integrated_motion import state_in_b0
from maci2.baselines.segment import Segment
from maci2.estimation import Posterior, VIState
from maci2.lie import skew, so3_exp
from maci2.lie.stacks import stack_poses
from maci2.types import Array

PHI, POSITION, VELOCITY = slice(0, 3), slice(3, 6), slice(6, 9)
GYRO_BIAS, ACC_BIAS = slice(9, 12), slice(12, 15)
SIZE = 15
"""Unknowns of a keyframe: [phi, p, v, b_g, b_a]; the rotation is perturbed on the right."""


@dataclass(frozen=True)
class BundleState:
    """n keyframes and p points."""

    Rs_w_b: Array
    """(n, 3, 3)"""

    p_w_b: Array
    """(n, 3) [m]"""

    v_w: Array
    """(n, 3) [m/s]"""

    gyro_bias: Array
    """(n, 3) [rad/s]"""

    acc_bias: Array
    """(n, 3) [m/s^2]"""

    points_w: Array
    """(p, 3) [m]"""

    def moved(self, step: Array, points_step: Array) -> "BundleState":
        """After steps (n, 15) of the keyframes and (p, 3) of the points."""
        turns = np.array([so3_exp(phi) for phi in np.ascontiguousarray(step[:, PHI])])
        return BundleState(
            self.Rs_w_b @ turns,
            self.p_w_b + step[:, POSITION],
            self.v_w + step[:, VELOCITY],
            self.gyro_bias + step[:, GYRO_BIAS],
            self.acc_bias + step[:, ACC_BIAS],
            self.points_w + points_step,
        )

    def with_points(self, points_w: Array) -> "BundleState":
        return replace(self, points_w=points_w)


def upright(gravity: Array) -> Array:
    """(3, 3) R_w_a of a world with z up, for gravity in frame a; its yaw is arbitrary."""
    up = -gravity / np.linalg.norm(gravity)
    axis = np.cross(up, np.array([0.0, 0.0, 1.0]))
    sine, cosine = float(np.linalg.norm(axis)), float(up[2])
    axis = axis / sine if sine > 0.0 else np.array([1.0, 0.0, 0.0])
    return so3_exp(axis * np.arctan2(sine, cosine))


def from_vi_state(state: VIState) -> BundleState:
    """Initial guess of a bundle adjustment without points; the first body is the origin."""
    R_w_c0 = upright(state.gravity_c0)
    Rs_w_b = R_w_c0 @ state.Ts_c0_b[:, :3, :3]
    p = (state.Ts_c0_b[:, :3, 3] - state.Ts_c0_b[0, :3, 3]) @ R_w_c0.T
    v_w = np.einsum("kij,kj->ki", Rs_w_b, state.velocity_b)
    n = len(p)
    gyro_bias, acc_bias = (np.tile(bias, (n, 1)) for bias in (state.gyro_bias, state.acc_bias))
    return BundleState(Rs_w_b, p, v_w, gyro_bias, acc_bias, np.empty((0, 3)))


def to_vi_state(segment: Segment, found: BundleState) -> VIState:
    """Estimate in our conventions; biases are those of the last keyframe."""
    R_b0_w = found.Rs_w_b[0].T
    Ts_b0_b = stack_poses(R_b0_w @ found.Rs_w_b, (found.p_w_b - found.p_w_b[0]) @ R_b0_w.T)
    gravity_b0 = R_b0_w @ np.array([0.0, 0.0, -segment.gravity_norm])
    return state_in_b0(
        segment,
        Ts_b0_b,
        found.v_w @ R_b0_w.T,
        gravity_b0,
        found.gyro_bias[-1],
        found.acc_bias[-1],
    )


def to_posterior(segment: Segment, found: BundleState, cov: Array) -> Posterior:
    """Covariances of `to_vi_state` from that of the keyframes (15 n, 15 n)."""
    n = len(found.p_w_b)
    T_c_b = np.linalg.inv(segment.T_b_c)
    R_c_b, R_0 = T_c_b[:3, :3], found.Rs_w_b[0]
    gravity_b0 = R_0.T @ np.array([0.0, 0.0, -segment.gravity_norm])
    by_gravity = np.zeros((3, n, SIZE))
    by_gravity[:, 0, PHI] = R_c_b @ skew(gravity_b0)
    poses, velocities = np.zeros((n, 6, n, SIZE)), np.zeros((n, 3, n, SIZE))
    for k in range(n):
        R_k = found.Rs_w_b[k]
        t_b0 = R_0.T @ (found.p_w_b[k] - found.p_w_b[0])
        t_c0 = R_c_b @ t_b0 + T_c_b[:3, 3]
        velocities[k, :, k, PHI] = skew(R_k.T @ found.v_w[k])
        velocities[k, :, k, VELOCITY] = R_k.T
        if k == 0:
            continue
        by_phi = np.zeros((3, n, SIZE))
        by_phi[:, 0, PHI], by_phi[:, k, PHI] = -R_c_b, R_c_b @ R_0.T @ R_k
        by_t = np.zeros((3, n, SIZE))
        by_t[:, 0, PHI] = R_c_b @ skew(t_b0)
        by_t[:, 0, POSITION], by_t[:, k, POSITION] = -R_c_b @ R_0.T, R_c_b @ R_0.T
        # Left perturbation: dt = rho + phi x t.
        poses[k, 0:3] = by_t + np.einsum("ij,jkl->ikl", skew(t_c0), by_phi)
        poses[k, 3:6] = by_phi
    last = SIZE * (n - 1)
    gyro = slice(last + GYRO_BIAS.start, last + GYRO_BIAS.stop)
    acc = slice(last + ACC_BIAS.start, last + ACC_BIAS.stop)
    return Posterior(
        _carried(by_gravity.reshape(3, -1), cov),
        _carried(poses.reshape(n, 6, -1), cov),
        _carried(velocities.reshape(n, 3, -1), cov),
        cov[gyro, gyro],
        cov[acc, acc],
        np.zeros((6, 6)),
    )


def _carried(J: Array, cov: Array) -> Array:
    return np.asarray(J @ cov @ np.swapaxes(J, -1, -2), np.float64)
