"""Watchdog of an odometry: its motion since one keyframe against the IMU's, and tests for faults.

A tracker keeps the state; at each keyframe a comparison begins. Residual of a later keyframe, in
the body at that anchor: the displacement that the IMU predicts less the odometry's [m], and the
rotation from the odometry's orientation to the IMU's (right) [rad]. To first order it is a sum of
independent parts: the error of the anchor's state, the noise of the IMU and of the odometry since,
and the error of the odometry's scale.

Each fault is a linear signature in the residuals with an unknown size. Twice the logarithm of the
likelihood ratio at the best size is chi-square distributed without a fault, if the noise is the
nominal one. An odometry's noise is not: recent values of each statistic are its scale, and the
ratio of the two is F distributed. No threshold belongs to a device.
"""

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from scipy import stats

from maci2.errors import require_in_range
from maci2.estimator.problem import POSITION, ROTATION, SCALE, STATE, Shared, States
from maci2.estimator.smoother import propagate
from maci2.estimator.solver import covariance
from maci2.field_docs import document_fields
from maci2.geometry import se3_adj, se3_inv, skew, so3_log
from maci2.geometry.gaussian import symmetrize
from maci2.imu import ImuMeasurements
from maci2.odometry import SmootherConfig
from maci2.odometry.track import Tracker
from maci2.types import Array, Mat4, Mat6, Vec3
from maci2.vision import RelativePoses

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


@dataclass(frozen=True)
class RestartState:
    """State to restart from: that before the fault, propagated by the IMU alone."""

    stamp_ns: int
    """Timestamp on the IMU's clock [ns]."""

    T_w_b: Mat4
    """Pose of the IMU in a world whose z axis points up."""

    v_w: Vec3
    """(3,) velocity of the IMU in that world [m/s]."""

    gravity_b: Vec3
    """Gravity in the body [m/s^2]."""

    gyro_bias: Vec3
    """(3,) gyroscope bias that remains in the samples after the IMU model [rad/s]."""

    acc_bias: Vec3
    """(3,) accelerometer bias that remains in the samples after the IMU model [m/s^2]."""

    cov: Array
    """(15, 15), order [phi (right), v, p, gyro bias, acc bias]."""


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
        (step,) = propagate(imu, span_ns, before, self.cov_now, self.shared, self.walks)
        self.now, cov_now, F, Q = step
        self.last_ns, self.cov_now = stamp_ns, symmetrize(cov_now)
        self._by_noise = [*(F @ by for by in self._by_noise), np.eye(STATE)]

        self._adjoints.append(se3_adj(np.ascontiguousarray(T_b_o @ self._T_o_ok)))
        T_scaled = T_ok_ok1.copy()
        T_scaled[:3, 3] *= np.exp(self.shared.scalars[SCALE])
        self._T_o_ok = self._T_o_ok @ T_scaled
        T_b_bk = T_b_o @ self._T_o_ok @ se3_inv(np.ascontiguousarray(T_b_o))

        R_w_b, R_w_bk = anchor.Ts_w_b[0, :3, :3], self.now.Ts_w_b[0, :3, :3]
        moved = R_w_b.T @ (self.now.Ts_w_b[0, :3, 3] - anchor.Ts_w_b[0, :3, 3])
        turned = so3_log(T_b_bk[:3, :3].T @ R_w_b.T @ R_w_bk)
        by_now, by_anchor = np.zeros((2, 6, STATE))
        by_now[MOVED, POSITION], by_now[TURNED, ROTATION] = R_w_b.T, np.eye(3)
        by_anchor[MOVED, POSITION], by_anchor[MOVED, ROTATION] = -R_w_b.T, skew(moved)
        by_anchor[TURNED, ROTATION] = -R_w_bk.T @ R_w_b
        by_origin = np.zeros((6, 6))
        by_origin[MOVED] = np.hstack([-np.eye(3), skew(T_b_bk[:3, 3])])
        by_origin[TURNED, 3:6] = -T_b_bk[:3, :3].T
        keyframe = ComparedKeyframe(
            residual=np.concatenate([moved - T_b_bk[:3, 3], turned]),
            displacement=T_b_bk[:3, 3],
            by_state=by_now @ self._by_noise[0] + by_anchor,
            by_imu=[by_now @ by for by in self._by_noise[1:]],
            # The newest relative pose is new; the others have another lever.
            by_odometry=[by_origin @ adjoint for adjoint in self._adjoints],
            by_scale=np.append(-T_b_o[:3, :3] @ self._T_o_ok[:3, 3], np.zeros(3)),
            by_origin=by_origin,
            imu_noise=Q,
            odometry_noise=cov,
        )
        self.keyframes.append(keyframe)

    def stacked(self, part: str) -> Array:
        """(6 n, ...) one field of all keyframes, such as their residuals."""
        return np.concatenate([getattr(one, part) for one in self.keyframes])

    @property
    def residuals(self) -> Array:
        """(6 n,) residuals of all keyframes."""
        return self.stacked("residual")

    def restart(self) -> RestartState:
        """The anchor's state at the last keyframe."""
        T_w_b, v_w, bias_gyro, bias_acc = (part[0] for part in self.now)
        gravity_b = T_w_b[:3, :3].T @ self.shared.gravity_w
        states = T_w_b, v_w, gravity_b, bias_gyro, bias_acc
        return RestartState(self.last_ns, *states, self.cov_now)

    def covariance(self) -> Array:
        """(6 n, 6 n) joint covariance of all residuals."""
        by_state, by_scale = self.stacked("by_state"), self.stacked("by_scale")
        cov = by_state @ self.cov @ by_state.T
        for j, source in enumerate(self.keyframes):
            later = self.keyframes[j:]
            by_imu = np.concatenate([one.by_imu[j] for one in later])
            by_odometry = np.concatenate([one.by_odometry[j] for one in later])
            cov[6 * j :, 6 * j :] += by_imu @ source.imu_noise @ by_imu.T
            cov[6 * j :, 6 * j :] += by_odometry @ source.odometry_noise @ by_odometry.T
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

    @property
    def ratio(self) -> float:
        """Statistic per degree of freedom: about one without a fault."""
        return self.statistic / self.dof


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
    origin = window.stacked("by_origin")
    tilt = origin[:, 3:6].reshape(-1, 6, 3).copy()
    tilt[:, MOVED] = 0.0
    signatures: tuple[tuple[Fault, Array], ...] = (
        ("scale", window.stacked("by_scale")[:, None]),
        ("jump", origin[:, 0:3]),
        ("tilt", tilt.reshape(-1, 3)),
    )
    tests = []
    for fault, signature in signatures:
        S = np.linalg.solve(L, signature)
        size = np.linalg.solve(S.T @ S, S.T @ white)
        tests.append(FaultTest(fault, float(size @ S.T @ S @ size), S.shape[1], size))
    return tests


def sigmas_beyond(recent: Sequence[float], test: FaultTest) -> float:
    """Significance of a statistic in standard deviations of a normal number, given `recent` ratios
    of statistic to degrees of freedom over windows of this length where nothing was wrong."""
    seen = INDEPENDENT * len(recent) * test.dof
    level = (NOMINAL_DOF + seen * float(np.mean(recent or [1.0]))) / (NOMINAL_DOF + seen)
    ratio = test.ratio / max(level, 1.0)
    if ratio < CLEARLY_ORDINARY:
        return 0.0
    log_p = float(stats.f.logsf(ratio, test.dof, NOMINAL_DOF + seen))
    return sigmas_of(log_p) if np.isfinite(log_p) else LARGEST_SIGMAS


def sigmas_of(log_p: float) -> float:
    """The normal number that noise exceeds with this probability, given as logarithm."""
    if log_p < -400.0:
        return min(float(np.sqrt(-2.0 * log_p)), LARGEST_SIGMAS)
    return float(stats.norm.isf(np.exp(log_p)))


@dataclass(frozen=True)
class WatchdogConfig:
    """Choices of the watchdog."""

    keyframes: int = 10
    """Keyframes after each anchor that are compared: two seconds at the usual spacing."""

    sigmas: float = 6.5
    """Alarm above this many standard deviations. Errors of a real odometry have longer tails than
    the normal ones: on six sound recordings the largest was 5.7."""

    def __post_init__(self) -> None:
        require_in_range("--sigmas", self.sigmas, 3.0, 30.0)


@dataclass(frozen=True)
class Alarm:
    """A fault of the odometry."""

    fault: Fault
    """Kind of fault that explains the residuals best."""

    onset_ns: int
    """Timestamp of the keyframe after which the fault most likely began."""

    stamp_ns: int
    """Timestamp of the keyframe at which the fault was detected."""

    sigmas: float
    """Significance in standard deviations of the usual noise of this odometry."""

    size: Array
    """Size of the fault: logarithm of the scale, or displacement [m] or rotation [rad] in the body
    frame at the onset."""

    restart: RestartState
    """State to restart from."""


class Watchdog:
    """Test an odometry's keyframes, in order of time, for contradictions with the IMU."""

    def __init__(
        self,
        T_b_o: Mat4,
        walks: tuple[float, float],
        smoother: SmootherConfig | None = None,
        config: WatchdogConfig | None = None,
    ) -> None:
        self.config = config or WatchdogConfig()
        self._T_b_o, self._walks, self._smoother = T_b_o, walks, smoother
        self._recent = defaultdict[tuple[Fault, int], deque[float]](
            lambda: deque(maxlen=REMEMBERED)
        )
        self.reset()

    @property
    def is_watching(self) -> bool:
        """A state is known to compare with."""
        return self._tracker.smoother is not None

    def start(self, imu: ImuMeasurements, window: RelativePoses) -> bool:
        """Initialize on a window of the odometry; True where watching can begin."""
        if not self._tracker.start(imu, window):
            return False
        self._anchor()
        return True

    def add(self, imu: ImuMeasurements, stamp_ns: int, T_ok_ok1: Mat4, cov: Array) -> Alarm | None:
        """The keyframe at `stamp_ns`, measured from the one before; an alarm where it, or what
        came shortly before it, contradicts the IMU.

        `imu` covers the smoother's window and the new keyframe.
        """
        smoother = self._tracker.smoother
        assert smoother is not None
        for window in self._windows:
            window.extend(imu, stamp_ns, T_ok_ok1, smoother.stated(cov))
        alarm = self._alarm(stamp_ns)
        if alarm is not None:
            self.reset()
            return alarm
        span_ns = np.array([int(smoother.stamps_ns[-1]), stamp_ns])
        self._tracker.add(imu, RelativePoses(span_ns, T_ok_ok1[None], cov[None]), "")
        self._anchor()
        return None

    def reset(self) -> None:
        """Forget the state; `start` begins again. Recent statistics of the odometry are kept."""
        self._tracker = Tracker(self._T_b_o, self._walks, self._smoother)
        self._windows: deque[Comparison] = deque(maxlen=self.config.keyframes)
        self._waiting: deque[tuple[int, int, FaultTest]] = deque()

    @property
    def needed_from_ns(self) -> int:
        """First timestamp of IMU samples that the next keyframe needs."""
        assert self._tracker.smoother is not None
        return int(self._tracker.smoother.stamps_ns[0])

    def _anchor(self) -> None:
        """Begin a comparison at the newest keyframe."""
        smoother = self._tracker.smoother
        assert smoother is not None
        state, cov = smoother.latest
        solution = smoother.solution
        std = float(np.sqrt(covariance(solution, exactly=False).shared[SCALE, SCALE]))
        last_ns = int(smoother.stamps_ns[-1])
        self._windows.append(Comparison(last_ns, state, cov, solution.shared, std, self._walks))

    def _alarm(self, stamp_ns: int) -> Alarm | None:
        """The most significant fault; None where all statistics are usual ones."""
        found = []
        for window in self._windows:
            length = len(window.keyframes)
            for test in fault_tests(window):
                self._waiting.append((stamp_ns, length, test))
                sigmas = sigmas_beyond(self._recent[test.fault, length], test)
                if sigmas > self.config.sigmas:
                    found.append((sigmas, window, test))
        if found:
            # A stall explains everything without a size to fit: it outranks all other faults.
            sigmas, window, test = max(found, key=lambda one: (one[2].fault == "stall", one[0]))
            onset_ns, restart = window.stamp_ns, window.restart()
            return Alarm(test.fault, onset_ns, stamp_ns, sigmas, test.size, restart)
        # Statistics from before the windows under test are usual ones now.
        oldest_ns = self._windows[0].stamp_ns if self._windows else stamp_ns
        while self._waiting and self._waiting[0][0] <= oldest_ns:
            _, length, test = self._waiting.popleft()
            if test.fault != "stall":
                self._recent[test.fault, length].append(test.ratio)
        return None


document_fields(__name__)
