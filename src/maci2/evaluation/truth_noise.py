"""Contribution of the uncertainty of the ground truth to the errors of a window."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from maci2.estimator.problem import BIAS_GYRO, POSITION, ROTATION, STATE, VELOCITY
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
    places = truth.covariance.nearest(truth.stamps_ns)
    joint = truth.covariance.pairs(np.full_like(places, places[0]), places)
    states = joint[:, STATE:, STATE:]
    seen = compared_derivatives(truth, T_b_c)
    poses = seen.Ts_c0_b @ joint @ np.swapaxes(seen.Ts_c0_b, 1, 2)
    poses[0] = 0.0
    return TruthNoise(
        seen.gravity_c0 @ states[0] @ seen.gravity_c0.T,
        seen.velocity_b @ states @ np.swapaxes(seen.velocity_b, 1, 2),
        poses,
        states[:, BIAS_GYRO, BIAS_GYRO].mean(axis=0),
    )


class ComparedDerivatives(NamedTuple):
    """Derivatives of what is compared by the errors of true states, [phi, v, p, bg, ba] each."""

    gravity_c0: Array
    """(3, 15) by the first state."""
    velocity_b: Array
    """(n, 3, 15) each by its own state."""
    Ts_c0_b: Array
    """(n, 6, 30) left perturbation [rho, phi], by the first state and its own."""


def compared_derivatives(truth: GroundTruth, T_b_c: Array) -> ComparedDerivatives:
    """Gravity, velocities and poses, at n keyframes the first of which fixes the frame."""
    R_w_b, T_c_b = truth.Ts_w_b[:, :3, :3], se3_inv(T_b_c)
    gravity = np.zeros((3, STATE))
    gravity[:, ROTATION] = T_c_b[:3, :3] @ skew(R_w_b[0].T @ GRAVITY_W)
    v_b = np.einsum("kji,kj->ki", R_w_b, truth.v_w)
    velocity = np.zeros((len(v_b), 3, STATE))
    velocity[:, :, ROTATION] = [skew(v) for v in v_b]
    velocity[:, :, VELOCITY] = np.swapaxes(R_w_b, 1, 2)
    return ComparedDerivatives(gravity, velocity, _by_poses(truth, T_c_b))


def _by_poses(truth: GroundTruth, T_c_b: Array) -> Array:
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
    return np.asarray(se3_adj(np.ascontiguousarray(T_c_b)) @ J)
