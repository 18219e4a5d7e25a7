"""Motion from the first keyframe on by the IMU alone, up to initial velocity and gravity; basis of
methods without poses of vision."""

from dataclasses import dataclass

import numpy as np

from maci2.baselines.segment import Segment
from maci2.estimation import VIState
from maci2.imu import Preintegrated
from maci2.lie.stacks import stack_poses
from maci2.types import Array


@dataclass(frozen=True)
class IntegratedMotion:
    """p_k = v_0 t + g t^2 / 2 + alpha_k and v_k = v_0 + g t + beta_k, all in the first body."""

    t: Array
    """(n,) seconds since the first keyframe."""

    Rs_b0_b: Array
    """(n, 3, 3)"""

    beta: Array
    """(n, 3) [m/s]"""

    alpha: Array
    """(n, 3) [m]"""

    def poses(self, v0_b0: Array, gravity_b0: Array) -> Array:
        """(n, 4, 4) T_b0_b for an initial velocity and gravity."""
        t = self.t[:, None]
        return stack_poses(self.Rs_b0_b, v0_b0 * t + 0.5 * gravity_b0 * t**2 + self.alpha)

    def velocities(self, v0_b0: Array, gravity_b0: Array) -> Array:
        """(n, 3) in the first body."""
        return np.asarray(v0_b0 + gravity_b0 * self.t[:, None] + self.beta, np.float64)

    def state(
        self, segment: Segment, v0_b0: Array, gravity_b0: Array, gyro_bias: Array, acc_bias: Array
    ) -> VIState:
        """Integrate the whole window."""
        Ts_b0_b = self.poses(v0_b0, gravity_b0)
        return state_in_b0(
            segment, Ts_b0_b, self.velocities(v0_b0, gravity_b0), gravity_b0, gyro_bias, acc_bias
        )


def integrated(pre: Preintegrated) -> IntegratedMotion:
    """Chain the preintegrated intervals."""
    count = len(pre.dt) + 1
    Rs, beta, alpha = np.empty((count, 3, 3)), np.zeros((count, 3)), np.zeros((count, 3))
    Rs[0] = np.eye(3)
    for k, dt in enumerate(pre.dt):
        Rs[k + 1] = Rs[k] @ pre.gamma[k]
        beta[k + 1] = beta[k] + Rs[k] @ pre.beta[k]
        alpha[k + 1] = alpha[k] + dt * beta[k] + Rs[k] @ pre.alpha[k]
    return IntegratedMotion(np.concatenate([[0.0], np.cumsum(pre.dt)]), Rs, beta, alpha)


def state_in_b0(
    segment: Segment,
    Ts_b0_b: Array,
    v_b0: Array,
    gravity_b0: Array,
    gyro_bias: Array,
    acc_bias: Array,
) -> VIState:
    """Estimate whose world is the first body, in our conventions."""
    T_c_b = np.linalg.inv(segment.T_b_c)
    velocity_b = np.einsum("kji,kj->ki", Ts_b0_b[:, :3, :3], v_b0)
    return segment.state(
        T_c_b[:3, :3] @ gravity_b0, velocity_b, gyro_bias, acc_bias, T_c_b @ Ts_b0_b
    )
