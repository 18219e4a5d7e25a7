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

from collections import deque
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from scipy import stats

from maci2.estimator.prediction import propagate
from maci2.estimator.problem import POSITION, ROTATION, SCALE, STATE, Shared, States
from maci2.geometry import se3_adj, se3_inv, skew
from maci2.geometry.gaussian import symmetrize
from maci2.geometry.se3 import so3_log_stack
from maci2.imu import ImuMeasurements, preintegrate
from maci2.types import Array, Mat4, Mat6

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
        anchor, before, T_b_o = self.anchor, self.now, self.shared.T_b_c
        span_ns = np.array([self.last_ns, stamp_ns])
        pre = preintegrate(imu, span_ns, before.bias_gyro[0], before.bias_acc[0])
        self.now, cov_now, F, Q = propagate(pre, 0, before, self.cov_now, self.shared, self.walks)
        self.last_ns, self.cov_now = stamp_ns, symmetrize(cov_now)
        self._by_noise = [*(F @ by for by in self._by_noise), np.eye(STATE)]

        self._adjoints.append(se3_adj(np.ascontiguousarray(T_b_o @ self._T_o_ok)))
        T_scaled = T_ok_ok1.copy()
        T_scaled[:3, 3] *= np.exp(self.shared.scalars[SCALE])
        self._T_o_ok = self._T_o_ok @ T_scaled
        T_b_bk = T_b_o @ self._T_o_ok @ se3_inv(np.ascontiguousarray(T_b_o))

        R_w_b, R_w_bk = anchor.Ts_w_b[0, :3, :3], self.now.Ts_w_b[0, :3, :3]
        moved = R_w_b.T @ (self.now.Ts_w_b[0, :3, 3] - anchor.Ts_w_b[0, :3, 3])
        turned = so3_log_stack((T_b_bk[:3, :3].T @ R_w_b.T @ R_w_bk)[None])[0]
        by_now, by_anchor = np.zeros((2, 6, STATE))
        by_now[MOVED, POSITION], by_now[TURNED, ROTATION] = R_w_b.T, np.eye(3)
        by_anchor[MOVED, POSITION], by_anchor[MOVED, ROTATION] = -R_w_b.T, skew(moved)
        by_anchor[TURNED, ROTATION] = -R_w_bk.T @ R_w_b
        by_origin = np.zeros((6, 6))
        by_origin[MOVED] = np.hstack([-np.eye(3), skew(T_b_bk[:3, 3])])
        by_origin[TURNED, 3:6] = -T_b_bk[:3, :3].T
        by_scale = np.zeros(6)
        by_scale[MOVED] = -T_b_o[:3, :3] @ self._T_o_ok[:3, 3]
        self.keyframes.append(
            ComparedKeyframe(
                np.concatenate([moved - T_b_bk[:3, 3], turned]),
                T_b_bk[:3, 3],
                by_now @ self._by_noise[0] + by_anchor,
                [by_now @ by for by in self._by_noise[1:]],
                # The newest relative pose is new; the others have another lever.
                [by_origin @ adjoint for adjoint in self._adjoints],
                by_scale,
                by_origin,
                Q,
                cov,
            )
        )

    @property
    def residuals(self) -> Array:
        """(6 n,) residuals of all keyframes."""
        return np.concatenate([one.residual for one in self.keyframes])

    def covariance(self) -> Array:
        """(6 n, 6 n) joint covariance of all residuals."""
        J = np.concatenate([one.by_state for one in self.keyframes])
        cov = J @ self.cov @ J.T
        for j, source in enumerate(self.keyframes):
            later = self.keyframes[j:]
            by_imu = np.concatenate([one.by_imu[j] for one in later])
            by_odometry = np.concatenate([one.by_odometry[j] for one in later])
            cov[6 * j :, 6 * j :] += by_imu @ source.imu_noise @ by_imu.T
            cov[6 * j :, 6 * j :] += by_odometry @ source.odometry_noise @ by_odometry.T
        by_scale = np.concatenate([one.by_scale for one in self.keyframes])
        return symmetrize(cov + self.std_scale**2 * np.outer(by_scale, by_scale))


@dataclass(frozen=True)
class FaultTest:
    """One fault against none, over one window."""

    fault: Fault
    statistic: float
    """Twice the logarithm of the likelihood ratio."""

    dof: int
    size: Array
    """Best size: [log scale], [m, m, m] in the body, or [rad, rad, rad] in the body."""


def fault_tests(window: Comparison) -> list[FaultTest]:
    """Every fault that begins right after the anchor, against none."""
    keyframes, residuals = window.keyframes, window.residuals
    L = np.linalg.cholesky(window.covariance())
    white = np.linalg.solve(L, residuals)
    displacements = np.array([one.displacement for one in keyframes])
    steps = np.linalg.norm(np.diff(displacements, axis=0, prepend=0.0), axis=1)
    if (steps <= STILL_M).all():
        # It stands still while the IMU does not: no size is left to estimate.
        return [FaultTest("stall", float(white @ white), len(white), keyframes[-1].residual[MOVED])]
    origin = np.concatenate([one.by_origin for one in keyframes])
    tilt = origin[:, 3:6].reshape(-1, 6, 3).copy()
    tilt[:, MOVED] = 0.0
    signatures: dict[Fault, Array] = {
        "scale": np.concatenate([one.by_scale for one in keyframes])[:, None],
        "jump": origin[:, 0:3],
        "tilt": tilt.reshape(-1, 3),
    }
    tests = []
    for fault, signature in signatures.items():
        S = np.linalg.solve(L, signature)
        size = np.linalg.solve(S.T @ S, S.T @ white)
        tests.append(FaultTest(fault, float(size @ S.T @ S @ size), S.shape[1], size))
    return tests


class RecentStatistics:
    """Recent values of one statistic, over windows of one length, where nothing was wrong."""

    def __init__(self) -> None:
        self._ratios: deque[float] = deque(maxlen=REMEMBERED)

    def observe(self, test: FaultTest) -> None:
        """Remember a statistic."""
        self._ratios.append(test.statistic / test.dof)

    def sigmas(self, test: FaultTest) -> float:
        """Significance of a statistic in standard deviations of a normal number."""
        seen = INDEPENDENT * len(self._ratios) * test.dof
        level = (NOMINAL_DOF + seen * float(np.mean(self._ratios or [1.0]))) / (NOMINAL_DOF + seen)
        ratio = test.statistic / test.dof / max(level, 1.0)
        if ratio < CLEARLY_ORDINARY:
            return 0.0
        log_p = float(stats.f.logsf(ratio, test.dof, NOMINAL_DOF + seen))
        return sigmas_of(log_p) if np.isfinite(log_p) else LARGEST_SIGMAS


def sigmas_of(log_p: float) -> float:
    """The normal number that noise exceeds with this probability, given as logarithm."""
    if log_p < -400.0:
        return min(float(np.sqrt(-2.0 * log_p)), LARGEST_SIGMAS)
    return float(stats.norm.isf(np.exp(log_p)))
