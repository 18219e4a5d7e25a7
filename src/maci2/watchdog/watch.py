"""Watching an odometry: a tracker knows the state, comparisons look for faults since then."""

from collections import defaultdict, deque
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from maci2.chain.chain_state import SCALE
from maci2.errors import DatasetError, require_in_range
from maci2.field_docs import document_fields
from maci2.imu import ImuMeasurements
from maci2.pipeline.options import RunOptions
from maci2.pipeline.prepare import Inputs, open_inputs
from maci2.pipeline.rehearsals import warm_up
from maci2.pipeline.track_recording import keyframes_of, tracked_walks
from maci2.tracking import SmootherConfig
from maci2.tracking.calibration_spread import (
    TRAJECTORY_SCALE_WALK,
    bias_walks,
    calibration_spread,
)
from maci2.tracking.first_window import window_start
from maci2.tracking.track import Tracker
from maci2.types import Array, Mat4, Vec3
from maci2.vision import RelativePoses
from maci2.watchdog.comparison import Comparison
from maci2.watchdog.fault_tests import Fault, FaultTest, Ordinary, fault_tests

NOTHING_WATCHED = (
    "no window of the odometry agrees with the IMU well enough to begin from, so nothing at all "
    "was watched; check whose poses these are, their clock and their scale (`maci2 check --vision "
    "trajectory:FILE`)"
)


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
    """Takes an odometry's keyframes in order; says when they contradict the IMU."""

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
        self._ordinary: dict[tuple[Fault, int], Ordinary] = defaultdict(Ordinary)
        self._waiting: deque[tuple[int, int, FaultTest]] = deque()

    @property
    def is_watching(self) -> bool:
        """Whether a state is known to compare with."""
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
        alarm = self._judge(stamp_ns)
        if alarm is not None:
            self.reset()
            return alarm
        span_ns = np.array([int(smoother.stamps_ns[-1]), stamp_ns])
        self._tracker.add(imu, RelativePoses(span_ns, T_ok_ok1[None], cov[None]), "")
        self._anchor()
        return None

    def reset(self) -> None:
        """Forget the state; `start` begins again. What is ordinary for the odometry stays known."""
        self._tracker = Tracker(self._T_b_o, self._walks, self._smoother)
        self._windows.clear()
        self._waiting.clear()

    @property
    def needed_from_ns(self) -> int:
        """First timestamp of IMU samples that the next keyframe needs."""
        assert self._tracker.smoother is not None
        return int(self._tracker.smoother.stamps_ns[0])

    def _anchor(self) -> None:
        smoother = self._tracker.smoother
        assert smoother is not None
        state, cov = smoother.latest
        solution = smoother.solution
        column, D = int(solution.columns[SCALE]), solution.factored.D
        std = 0.0
        if column >= 0:
            std = float(np.sqrt(np.linalg.inv(D @ D.T)[column, column]))
        last_ns = int(smoother.stamps_ns[-1])
        self._windows.append(Comparison(last_ns, state, cov, solution.border, std, self._walks))

    def _judge(self, stamp_ns: int) -> Alarm | None:
        worst: tuple[float, Comparison, FaultTest] | None = None
        for window in self._windows:
            length = len(window.residuals)
            for test in fault_tests(window):
                sigmas = self._ordinary[test.fault, length].sigmas(test)
                self._waiting.append((stamp_ns, length, test))
                if sigmas > self.config.sigmas and (
                    worst is None or _rank(test, sigmas) > _rank(worst[2], worst[0])
                ):
                    worst = (sigmas, window, test)
        if worst is not None:
            sigmas, window, test = worst
            restart = restart_state(window, stamp_ns)
            return Alarm(test.fault, window.stamp_ns, stamp_ns, sigmas, test.size, restart)
        self._settle(stamp_ns)
        return None

    def _settle(self, stamp_ns: int) -> None:
        """Statistics from before the windows under test are ordinary now."""
        oldest_ns = self._windows[0].stamp_ns if self._windows else stamp_ns
        while self._waiting and self._waiting[0][0] <= oldest_ns:
            _, length, test = self._waiting.popleft()
            if test.fault != "stall":
                self._ordinary[test.fault, length].observe(test)


def _rank(test: FaultTest, sigmas: float) -> tuple[bool, float]:
    """A stall explains everything without a size to fit, so it outranks what else fits."""
    return test.fault == "stall", sigmas


def restart_state(window: Comparison, stamp_ns: int) -> RestartState:
    """The anchor's state at the last keyframe of a comparison."""
    state, cov = window.now
    gravity_w = -window.border.scalars[0] * window.border.R_w_g[:, 2]
    return RestartState(
        stamp_ns,
        state.Ts_w_b[0],
        state.v_w[0],
        state.Ts_w_b[0, :3, :3].T @ gravity_w,
        state.bias_gyro[0],
        state.bias_acc[0],
        cov,
    )


@dataclass(frozen=True)
class WatchedRecording:
    """Result of watching an odometry along a recording."""

    inputs: Inputs
    """The opened recording."""

    alarms: list[Alarm]
    """Faults in the order in which they were noticed."""

    watched_s: float
    """Time during which the odometry could be compared [s]."""

    start_ns: int
    """Timestamp of the first keyframe [ns]."""

    end_ns: int
    """Timestamp of the last one [ns]."""

    notes: list[str] = field(default_factory=list)
    """Reasons why parts could not be compared: gaps of the IMU, or no window to begin from."""


def watch_recording(
    path: Path,
    options: RunOptions,
    interval_s: float = 0.2,
    of_body: bool = True,
    config: WatchdogConfig | None = None,
) -> WatchedRecording:
    """Watch the trajectory of `options.vision` along a recording.

    `of_body`: its poses are those of the IMU; otherwise of the camera that the options name.
    """
    require_in_range("--interval", interval_s, 0.05, 2.0)
    # What is to be found out is whether the odometry keeps to what it is known to do.
    stated = replace(options.vision, std_windows=None)
    inputs = open_inputs(path, replace(options, vision=stated))
    warm_up("initialize", "chain")
    T_b_o = np.eye(4) if of_body else inputs.T_b_c
    vision = inputs.camera_motion(keyframes_of(inputs, inputs.measurable_ns(), interval_s), 0)
    return watch(inputs, vision, T_b_o, config, tracked_walks(inputs, options))


def watch(
    inputs: Inputs,
    vision: RelativePoses,
    T_b_o: Mat4,
    config: WatchdogConfig | None = None,
    walks: tuple[float, float] | None = None,
) -> WatchedRecording:
    """Watch relative poses over all keyframes of a recording."""
    rig, imu, stamps_ns = inputs.recording.rig, inputs.imu, vision.stamps_ns
    smoother = SmootherConfig(calibration=calibration_spread(rig, TRAJECTORY_SCALE_WALK))
    watchdog = Watchdog(T_b_o, walks or bias_walks(rig), smoother, config)
    alarms, notes, watched_ns, since = [], [], 0, 0
    for k in range(1, len(stamps_ns)):
        stamp_ns = int(stamps_ns[k])
        try:
            if not watchdog.is_watching:
                first = window_start(stamps_ns, k)
                if first is not None and first >= since:
                    samples = imu.between(int(stamps_ns[first]), stamp_ns)
                    watchdog.start(samples, vision.part(first, k))
                continue
            samples = imu.between(watchdog.needed_from_ns, stamp_ns)
            alarm = watchdog.add(
                samples, stamp_ns, vision.Ts_ck_ck1[k - 1], vision.covs_T_ck_ck1[k - 1]
            )
            watched_ns += stamp_ns - int(stamps_ns[k - 1])
        except DatasetError as error:
            notes.append(str(error))
            watchdog.reset()
            since = k
            continue
        if alarm is not None:
            alarms.append(alarm)
            since = k
    if watched_ns == 0 and not alarms:
        notes.append(NOTHING_WATCHED)
    return WatchedRecording(
        inputs, alarms, watched_ns / 1e9, int(stamps_ns[0]), int(stamps_ns[-1]), notes
    )


document_fields(__name__)
