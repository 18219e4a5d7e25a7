"""Motion of an odometry since one keyframe against the IMU's: residuals, covariance, fault tests.

Residual of a keyframe, in the body at the anchor: the displacement that the IMU predicts less the
odometry's [m], and the rotation from the odometry's orientation to the IMU's (right) [rad]. To
first order it is a sum of independent parts: the error of the anchor's state, the noise of the IMU
and of the odometry since, and the error of the odometry's scale.

Each fault is a linear signature in the residuals with an unknown size. Twice the logarithm of the
likelihood ratio at the best size is chi-square distributed without a fault, if the noise is the
nominal one. An odometry's noise is not: recent values of each statistic are its scale, and the
ratio of the two is F distributed. No threshold belongs to a device.
"""

import numpy as np
from collections import (deque)
from dataclasses import (dataclass, field)
from maci2.chain.chain_state import (LOG_SCALE_AT, POSITION, ROTATION, STATE)
from maci2.estimator.prediction import (propagate)
from maci2.estimator.problem import (Shared, States)
from maci2.gaussian import (symmetrize)
from maci2.imu import (ImuMeasurements, preintegrate)
from maci2.lie import (se3_adj, se3_inv, skew)
from maci2.lie.stacks import (so3_log_stack)
from maci2.types import (Array, Mat4, Mat6)
from scipy import (stats)
from typing import (Literal, NamedTuple)



Fault = Literal["scale", "jump", "tilt", "stall"]

MOVED, TURNED = slice(0, 3), slice(3, 6)
"""Displacement and rotation in a residual."""

NOMINAL_DOF = 20.0
"""Weight of the nominal noise beside recent statistics, in degrees of freedom."""

REMEMBERED = 60
"""Recent statistics of each kind: twelve seconds of keyframes."""

INDEPENDENT = 0.2
"""Share of them that are independent: windows overlap."""

STILL_M = 1e-3
"""An odometry that moves less than this from keyframe to keyframe has stopped."""

CLEARLY_ORDINARY = 4.0
"""Ratio of a statistic to recent ones below which no fault is tested."""

LARGEST_SIGMAS = 30.0


class ComparedKeyframe(NamedTuple):
    """Residual of one keyframe after the anchor, and its derivatives by the errors behind it."""

    residual: Array
    """(6,)"""

    displacement: Array
    """(3,) of the odometry, in the body at the anchor [m]."""

    by_state: Array
    """(6, 15) by the anchor's state."""

    by_imu: list[Array]
    """(6, 15) by the noise of the IMU in each span since the anchor."""

    by_odometry: list[Array]
    """(6, 6) by the noise of each relative pose since the anchor."""

    by_scale: Array
    """(6,) by the logarithm of the odometry's scale."""

    by_origin: Array
    """(6, 6) by a small motion [rho, phi] of the odometry's world at the anchor."""

    imu_noise: Array
    """(15, 15) covariance of the IMU's noise in the last span."""

    odometry_noise: Mat6
    """Covariance of the last relative pose."""


@dataclass
class Comparison:
    """Residuals of the keyframes after an anchor, and their joint covariance."""

    stamp_ns: int
    """Timestamp of the anchor."""

    anchor: States
    """The anchor's state, without later measurements."""

    cov: Array
    """(15, 15) of it."""

    shared: Shared
    """Extrinsics, gravity and scale as they were then."""

    std_scale: float
    """Standard deviation of the logarithm of the odometry's scale."""

    walks: tuple[float, float]
    """Random walks of the biases."""

    keyframes: list[ComparedKeyframe] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.last_ns, self.now, self.cov_now = self.stamp_ns, self.anchor, self.cov
        """The last keyframe: the anchor's state propagated by the IMU alone, with its covariance.
        """
        self._T_o_ok = np.eye(4)
        self._by_noise = [np.eye(STATE)]
        self._adjoints: list[Array] = []

    def extend(self, imu: ImuMeasurements, stamp_ns: int, T_ok_ok1: Mat4, cov: Mat6) -> None:
        """Append a keyframe: the odometry's relative pose from the one before, and the IMU."""
        last_ns = self.stamps_ns[-1] if self.stamps_ns else self.stamp_ns
        before = self._latest if self._latest is not None else self.state
        cov_before = self._latest_cov if self._latest_cov is not None else self.cov
        span = np.array([last_ns, stamp_ns])
        pre = preintegrate(imu, span, before.bias_gyro[0], before.bias_acc[0])
        state, cov_state, F, Q = propagate(pre, 0, before, cov_before, self.shared, self.walks)
        self._to_latest = [F @ to for to in (self._to_latest or [np.eye(15)])] + [np.eye(15)]
        self._latest, self._latest_cov = state, symmetrize(cov_state)
        self.imu_noise.append(Q)
        self.odometry_noise.append(cov)
        T_o_before = self._T_o_ok
        self._T_o_ok = T_o_before @ _scaled(T_ok_ok1, self.shared)
        self.stamps_ns.append(stamp_ns)
        self._compare(state, T_o_before)

    def _compare(self, state: States, T_o_before: Mat4) -> None:
        T_b_o = self.shared.T_b_c
        T_o_b = se3_inv(np.ascontiguousarray(T_b_o))
        T_odometry = T_b_o @ self._T_o_ok @ T_o_b
        R, Rk = self.state.Ts_w_b[0, :3, :3], state.Ts_w_b[0, :3, :3]
        moved = R.T @ (state.Ts_w_b[0, :3, 3] - self.state.Ts_w_b[0, :3, 3])
        R_o, t_o = T_odometry[:3, :3], T_odometry[:3, 3]
        turn = so3_log_stack((R_o.T @ R.T @ Rk)[None])[0]
        self.residuals.append(np.concatenate([moved - t_o, turn]))
        self.displacements.append(t_o)
        self.rotations.append(R_o)
        H = np.zeros((ROWS, 15))
        H[0:3, 6:9], H[3:6, 0:3] = R.T, np.eye(3)
        at_anchor = np.zeros((ROWS, 15))
        at_anchor[0:3, 6:9], at_anchor[0:3, 0:3] = -R.T, skew(moved)
        at_anchor[3:6, 0:3] = -Rk.T @ R
        self.by_state.append(H @ self._to_latest[0] + at_anchor)
        self.by_imu.append([H @ to for to in self._to_latest[1:]])
        self._add_odometry(T_b_o @ T_o_before)
        scale = np.zeros(ROWS)
        scale[0:3] = -T_b_o[:3, :3] @ self._T_o_ok[:3, 3]
        self.by_scale.append(scale)

    def _add_odometry(self, T_b_before: Mat4) -> None:
        """Derivatives by the noise of relative poses: that of the newest one is new, the others
        see a new lever."""
        self._adjoints.append(se3_adj(np.ascontiguousarray(T_b_before)))
        J = self.shifted_origin()
        self.by_odometry.append([J @ adjoint for adjoint in self._adjoints])

    def shifted_origin(self, k: int = -1) -> Array:
        """(6, 6) derivative of residual k by a small motion [rho, phi] of the odometry's world at
        the anchor."""
        J = np.zeros((ROWS, 6))
        J[0:3, 0:3], J[0:3, 3:6] = -np.eye(3), skew(self.displacements[k])
        J[3:6, 3:6] = -self.rotations[k].T
        return J

    @property
    def residuals(self) -> Array:
        """(6 n,) residuals of all keyframes."""
        return np.concatenate([one.residual for one in self.keyframes])

    def covariance(self) -> Array:
        """(6 n, 6 n) joint covariance of all residuals."""
        J = np.concatenate([one.by_state for one in self.keyframes])
        cov = J @ self.cov @ J.T
        for j in range(n):
            for parts, noise in (
                (self.by_imu, self.imu_noise[j]),
                (self.by_odometry, self.odometry_noise[j]),
            ):
                rows = np.concatenate([parts[k][j] for k in range(j, n)])
                cov[ROWS * j :, ROWS * j :] += rows @ noise @ rows.T
        scale = np.concatenate(self.by_scale)
        return symmetrize(cov + self.std_scale**2 * np.outer(scale, scale))


def _scaled(T: Mat4, shared: Shared) -> Mat4:
    out = T.copy()
    out[:3, 3] *= np.exp(shared.scalars[1])
    return out
