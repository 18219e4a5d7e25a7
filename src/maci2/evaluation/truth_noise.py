"""What the ground truth's own uncertainty adds to the errors of a window."""

from dataclasses import dataclass

import numpy as np

from maci2.chain.chain_state import BIAS_GYRO, POSITION, ROTATION, STATE, VELOCITY
from maci2.lie import se3_adj, se3_inv, skew
from maci2.sensors import GroundTruth
from maci2.types import GRAVITY_W, Array


@dataclass(frozen=True)
class TruthNoise:
    """Covariances of the true values that an estimate is compared with, in its own terms."""

    gravity_c0: Array
    """(3, 3) of gravity in the first camera frame [(m/s^2)^2]."""

    velocity_b: Array
    """(n, 3, 3) each in its own body frame [(m/s)^2]."""

    Ts_c0_b: Array
    """(n, 6, 6) left perturbation, order [rho, phi], [m, rad]; zero for the first pose."""

    gyro_bias: Array
    """(3, 3) of the mean over the keyframes [(rad/s)^2]."""


def truth_noise(truth: GroundTruth, T_b_c: Array) -> TruthNoise | None:
    """Noise of the ground truth at n keyframes, the first of which fixes the frame; None where it
    states no covariance.

    Poses are relative to the first, so what both ends share does not count.
    """
    if truth.covariance is None:
        return None
    joint = truth.covariance.pairs(int(truth.stamps_ns[0]), truth.stamps_ns)
    states = joint[:, STATE:, STATE:]
    R_w_b = truth.Ts_w_b[:, :3, :3]
    T_c_b = se3_inv(T_b_c)
    g_D_phi = T_c_b[:3, :3] @ skew(R_w_b[0].T @ GRAVITY_W)
    v_b = np.einsum("kji,kj->ki", R_w_b, truth.v_w)
    v_D_state = np.zeros((len(v_b), 3, STATE))
    v_D_state[:, :, ROTATION] = [skew(v) for v in v_b]
    v_D_state[:, :, VELOCITY] = np.swapaxes(R_w_b, 1, 2)
    poses = relative_pose_noise(truth, joint, T_c_b)
    poses[0] = 0.0
    bias = states[:, BIAS_GYRO, BIAS_GYRO].mean(axis=0)
    return TruthNoise(
        g_D_phi @ states[0, ROTATION, ROTATION] @ g_D_phi.T,
        v_D_state @ states @ np.swapaxes(v_D_state, 1, 2),
        poses,
        bias,
    )


def relative_pose_noise(truth: GroundTruth, joint: Array, T_c_b: Array) -> Array:
    """(n, 6, 6) of the poses of body k in the first camera, left perturbation [rho, phi].

    `joint` (n, 30, 30) is that of the first state with state k.
    """
    T_b0_b = se3_inv(truth.Ts_w_b[0]) @ truth.Ts_w_b
    R_b0_w = truth.Ts_w_b[0, :3, :3].T
    J = np.zeros((len(truth), 6, 2 * STATE))
    first, later = slice(0, STATE), slice(STATE, 2 * STATE)
    for k, T in enumerate(T_b0_b):
        # rho = dp + [p]x theta: the rotation of the first body cancels in it.
        J[k, :3, first][:, POSITION] = -R_b0_w
        J[k, :3, later][:, POSITION] = R_b0_w
        J[k, :3, later][:, ROTATION] = skew(np.ascontiguousarray(T[:3, 3])) @ T[:3, :3]
        J[k, 3:, first][:, ROTATION] = -np.eye(3)
        J[k, 3:, later][:, ROTATION] = T[:3, :3]
    J = se3_adj(np.ascontiguousarray(T_c_b)) @ J
    return np.asarray(J @ joint @ np.swapaxes(J, 1, 2))
