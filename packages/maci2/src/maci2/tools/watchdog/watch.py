"""Watchdog of an odometry: a tracker keeps the state, comparisons test for faults since then."""

from collections import defaultdict, deque
from dataclasses import dataclass

import numpy as np

from maci2.errors import require_in_range
from maci2.estimator.problem import SCALE
from maci2.estimator.solver import covariance
from maci2.field_docs import document_fields
from maci2.imu import ImuMeasurements
from maci2.odometry import SmootherConfig
from maci2.odometry.track import Tracker
from maci2.tools.watchdog.comparison import (
    Comparison,
    Fault,
    FaultTest,
    RecentStatistics,
    fault_tests,
)
from maci2.types import Array, Mat4, Vec3
from maci2.vision import RelativePoses


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
        self._tracker = Tracker(T_b_o, walks, smoother)
        self._windows: deque[Comparison] = deque(maxlen=self.config.keyframes)
        self._recent: dict[tuple[Fault, int], RecentStatistics] = defaultdict(RecentStatistics)
        self._waiting: deque[tuple[int, int, FaultTest]] = deque()

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
        self._windows.clear()
        self._waiting.clear()

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
                sigmas = self._recent[test.fault, length].sigmas(test)
                if sigmas > self.config.sigmas:
                    found.append((sigmas, window, test))
        if found:
            # A stall explains everything without a size to fit: it outranks all other faults.
            sigmas, window, test = max(found, key=lambda one: (one[2].fault == "stall", one[0]))
            restart = restart_state(window)
            return Alarm(test.fault, window.stamp_ns, stamp_ns, sigmas, test.size, restart)
        # Statistics from before the windows under test are usual ones now.
        oldest_ns = self._windows[0].stamp_ns if self._windows else stamp_ns
        while self._waiting and self._waiting[0][0] <= oldest_ns:
            _, length, test = self._waiting.popleft()
            if test.fault != "stall":
                self._recent[test.fault, length].observe(test)
        return None


def restart_state(window: Comparison) -> RestartState:
    """The anchor's state at the last keyframe of a comparison."""
    state, shared = window.now, window.shared
    gravity_w = shared.gravity_w
    return RestartState(
        window.last_ns,
        state.Ts_w_b[0],
        state.v_w[0],
        state.Ts_w_b[0, :3, :3].T @ gravity_w,
        state.bias_gyro[0],
        state.bias_acc[0],
        window.cov_now,
    )


document_fields(__name__)
