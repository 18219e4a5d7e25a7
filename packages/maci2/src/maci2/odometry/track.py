"""Track from keyframes and IMU samples: start, smooth, bridge, start again."""

from dataclasses import replace

import numpy as np

from maci2.consistency import OnlineConsistency, initialize
from maci2.errors import DatasetError, MeasurementError
from maci2.estimator import InitResult
from maci2.estimator.outliers import WINDOW, MotionChoice, choose_motions
from maci2.estimator.problem import DEFAULT_CONFIG, SCALE, STATE
from maci2.estimator.smoother import (
    FixedLagSmoother,
    SmootherConfig,
    world_states,
)
from maci2.geometry import se3_log
from maci2.geometry.gaussian import nees
from maci2.imu import ImuMeasurements
from maci2.imu.bias_tracker import MAX_STD
from maci2.odometry.settings import WINDOW_S, window_start
from maci2.odometry.tracked import Health, Keyframe, Origin, Track, TrackedState
from maci2.types import NS, Mat4, Stamps
from maci2.vision import RelativePoses, pose_noise

BRIDGING_AFTER_S = 1.0
"""A state farther than this from the last relative pose is carried by the IMU alone, even if no
keyframe without one has come since."""

LOST_AFTER_S = 3.0
"""Without a relative pose for longer than this, the state is called lost: it is still carried by
the IMU, with a sigma that grows."""

REJECT_ABOVE = 20.0
"""Chi-square per degree of freedom of an innovation beyond which a relative pose is rejected: no
noise factor and no tail of the match covariance reaches it."""

RESTART_AFTER = 8
"""Rejected relative poses in a row after which the state is doubted instead of them."""


STILL_CHI2 = 2.0
"""Chi-square per degree of freedom of relative poses, up to which noise explains them."""

STILL_STD_M = 0.01
"""Steps less certain than this show nothing."""

REST_STD = (0.005, 0.0005)
"""Motion of a stationary device [deg, m] from keyframe to keyframe."""

QUIET_S = 1.0
"""Time over which an IMU has to read the same: a slow rotation that begins shows in it."""


class Tracker:
    """Takes keyframes in order; gives the state at any time since the last one."""

    def __init__(
        self, T_b_c: Mat4, walks: tuple[float, float], config: SmootherConfig | None = None
    ) -> None:
        self._T_b_c, self._walks = T_b_c, walks
        self._config = config or SmootherConfig()
        self.smoother: FixedLagSmoother | None = None
        self.keyframes: list[Keyframe] = []
        self.starts: list[InitResult] = []
        self.origins: list[Origin] = []
        self.segment = -1
        self.log_scale = 0.0  # of true length over vision's, as last estimated
        self.slow_spread = np.ones(STATE)  # of the last state that was asked for
        self.slow_error_deg = 0.0
        self.not_started = ""  # why the state was given up, or the last window not good enough
        self.contradicted_ns: dict[int, int] = {}  # segment -> when its state was found wrong
        self.constants = OnlineConsistency(T_b_c)
        self._measured_ns = 0
        self._started_ns = 0
        self._rejected_in_a_row = 0

    def advance(self, imu: ImuMeasurements, vision: RelativePoses, last: int, reason: str) -> None:
        """Take keyframe `last` of `vision`: start on the window that ends there where tracking has
        not started or is in doubt, smooth where it has.

        `imu` covers that window and the smoothed one; `reason` says why the relative pose that
        leads to the keyframe was not measured, where it was not.
        """
        stamps_ns = vision.stamps_ns
        first = window_start(stamps_ns, last)
        window = vision.part(max(last - WINDOW, 0) if first is None else first, last)
        doubted = self.doubtful and first is not None and int(stamps_ns[first]) >= self._started_ns
        waiting = self.smoother is None or doubted
        asked = first is not None and (waiting or self.constants.takes(window))
        decided = self._decided(imu, window, asked)
        if first is not None:
            self.constants.test(imu, decided.vision)
        if self.constants.wrong_axes:
            self.stop(int(stamps_ns[last]), self.constants.wrong_axes[0])
            return
        if waiting and first is not None and self.start(imu, decided.vision):
            return
        if self.smoother is None:
            return
        stamp_ns = int(stamps_ns[last])
        try:
            recent = imu.between(int(self.smoother.stamps_ns[0]), stamp_ns)
            motion = decided.vision.part(len(window) - 2, len(window) - 1)
            self.add(recent, motion, reason or motion.reasons[0], bool(decided.second[-1]))
        except (DatasetError, MeasurementError) as error:
            self.stop(stamp_ns, str(error))

    def _decided(self, imu: ImuMeasurements, window: RelativePoses, whole: bool) -> MotionChoice:
        """The relative poses of a window with the motions that the IMU chooses: all of them where
        the `whole` window is asked for, else the newest, which alone is still to be smoothed."""
        undecided = MotionChoice(window, *np.zeros((2, len(window) - 1), dtype=bool))
        if not whole and not window.motions[-1]:
            return undecided
        try:
            return choose_motions(imu, window, self._T_b_c, DEFAULT_CONFIG)
        except DatasetError:
            return undecided

    def start(self, imu: ImuMeasurements, vision: RelativePoses) -> bool:
        """Initialize on a window; True where its verdict is good enough to go on from."""
        try:
            imu = imu.between(int(vision.stamps_ns[0]), int(vision.stamps_ns[-1]))
            result = initialize(imu, vision, self._T_b_c)
        except (DatasetError, MeasurementError) as error:
            self.not_started = str(error)
            return False
        if result.state is None or result.verdict.status != "ok":
            self.not_started = "; ".join(result.verdict.reasons)
            return False
        if self.smoother is not None:  # that of a state in doubt
            self.contradicted_ns.setdefault(self.segment, int(vision.stamps_ns[-1]))
        self.smoother = FixedLagSmoother(
            imu, vision, result, self._T_b_c, self._walks, self._config
        )
        self.starts.append(result)
        first = world_states(result, self._T_b_c)[0]
        self.origins.append(Origin(int(vision.stamps_ns[0]), first.Ts_w_b[0]))
        self.segment += 1
        self._measured_ns = self._started_ns = int(vision.stamps_ns[-1])
        self._rejected_in_a_row = 0
        self.not_started = ""
        return True

    def add(
        self,
        imu: ImuMeasurements,
        motion: RelativePoses,
        reason: str,
        second_motion: bool = False,
    ) -> None:
        """Take the second of two keyframes; `reason` says why the relative pose that leads to it
        was not measured, where it was not, `second_motion` that fewer matches tell it than
        another."""
        if reason:
            self.bridge(imu, int(motion.stamps_ns[1]), reason)
            return
        assert self.smoother is not None
        stamp_ns = int(motion.stamps_ns[1])
        T_ck_ck1, cov = motion.Ts_ck_ck1[0], motion.covs_T_ck_ck1[0]
        chi2 = self.smoother.innovation(imu, stamp_ns, T_ck_ck1, self.smoother.stated(cov))
        rejected, used = chi2 > REJECT_ABOVE, None
        if rejected:
            self._rejected_in_a_row += 1
            self.smoother.add(imu, stamp_ns)
            reason = f"contradicts the IMU: chi-square {chi2:.0f} per degree of freedom"
        else:
            self._rejected_in_a_row = 0
            still = self._stands_still(imu, motion)
            used = self.smoother.add(imu, stamp_ns, T_ck_ck1, cov, still)
            if self.smoother.is_contradicted:
                self.contradicted_ns.setdefault(self.segment, stamp_ns)
                reason = "relative poses keep to one side of what the IMU predicts"
            else:
                self._measured_ns = stamp_ns
        self.keyframes.append(Keyframe(stamp_ns, chi2, rejected, reason, second_motion, used))

    def bridge(self, imu: ImuMeasurements, stamp_ns: int, reason: str) -> None:
        """A keyframe that the IMU alone ties to the one before it."""
        assert self.smoother is not None
        self.smoother.add(imu, stamp_ns)
        self.keyframes.append(Keyframe(stamp_ns, None, False, reason))

    def _stands_still(self, imu: ImuMeasurements, motion: RelativePoses) -> bool:
        """Whether images and samples show no motion, and the state expects none: a gyroscope that
        reads a slow rotation is as quiet as one that reads its bias."""
        assert self.smoother is not None
        stamp_ns = int(motion.stamps_ns[1])
        if not is_still(motion) or not is_quiet(imu, stamp_ns):
            return False
        at_rest = self.smoother.innovation(imu, stamp_ns, np.eye(4), pose_noise(*REST_STD))
        return at_rest < STILL_CHI2

    def forget(self, constants: bool) -> None:
        """Start anew; with `constants` also forget what has been seen of them, as of a clock that
        is another one now."""
        self.smoother = None
        self.not_started = ""
        if constants:
            self.constants.clear()

    def stop(self, stamp_ns: int, reason: str) -> None:
        """Forget the state: nothing can be carried across a gap of the IMU, or with wrong axes."""
        self.smoother = None
        self.not_started = reason
        self.keyframes.append(Keyframe(stamp_ns, None, False, reason))

    @property
    def doubtful(self) -> bool:
        """So many relative poses in a row were rejected, or lie to one side of what is predicted,
        that the state may be the wrong one."""
        contradicted = self.smoother is not None and self.smoother.is_contradicted
        return contradicted or self._rejected_in_a_row >= RESTART_AFTER

    def states_at(self, imu: ImuMeasurements, stamps_ns: Stamps) -> list[TrackedState]:
        """States at timestamps since the last keyframe, carried by the IMU."""
        smoother = self.smoother
        assert smoother is not None
        (states, stated), cov = smoother.latest, smoother.reported_cov
        self.slow_spread = np.sqrt(np.diag(cov) / np.diag(stated))
        self.slow_error_deg = smoother.slow_error_deg
        last_ns, shared = int(smoother.stamps_ns[-1]), smoother.solution.shared
        T_w_b, v_w, bias_gyro, bias_acc = (values[0] for values in states)
        newest = TrackedState(
            last_ns, T_w_b, v_w, bias_gyro, bias_acc, cov, "tracking", self.segment
        )
        found = newest.carried(imu, stamps_ns[stamps_ns > last_ns], shared, self._walks)
        if len(stamps_ns) and int(stamps_ns[0]) == last_ns:
            found = [newest, *found]
        if found:
            self.log_scale = float(shared.scalars[SCALE])
        return [replace(state, health=self._health(state.stamp_ns)) for state in found]

    def _health(self, stamp_ns: int) -> Health:
        """Whether a state since the last keyframe rests on relative poses."""
        assert self.smoother is not None
        outage_s = (stamp_ns - self._measured_ns) / NS
        if outage_s > LOST_AFTER_S:
            return "lost"
        carried_on = int(self.smoother.stamps_ns[-1]) > self._measured_ns
        return "bridging" if carried_on or outage_s > BRIDGING_AFTER_S else "tracking"


def is_still(motion: RelativePoses) -> bool:
    """Every step is no more than noise, and the noise is small."""
    xi = np.array([se3_log(T) for T in motion.Ts_ck_ck1])
    covs = motion.covs_T_ck_ck1
    small = np.sqrt(np.trace(covs[:, :3, :3], axis1=1, axis2=2)).max() < STILL_STD_M
    return bool(small and nees(xi, covs).mean() / 6.0 < STILL_CHI2)


def is_quiet(imu: ImuMeasurements, stamp_ns: int) -> bool:
    """Whether the samples of the last second before a time hardly vary."""
    first_ns = max(stamp_ns - round(QUIET_S * NS), int(imu.stamps_ns[0]))
    recent = imu.between(first_ns, stamp_ns)
    spread = (recent.gyro.std(axis=0).max(), recent.acc.std(axis=0).max())
    return bool(spread[0] < MAX_STD[0] and spread[1] < MAX_STD[1])


def track(
    imu: ImuMeasurements,
    vision: RelativePoses,
    T_b_c: Mat4,
    walks: tuple[float, float],
    images_ns: Stamps,
    config: SmootherConfig | None = None,
    reasons: list[str] | None = None,
) -> Track:
    """Track a whole recording, causally: the state at an image knows what came before it.

    `vision` holds relative poses over all keyframes; `images_ns` are the timestamps to give states
    at; `walks` the random walks of gyroscope and accelerometer bias.
    """
    keyframes_ns = vision.stamps_ns
    why = reasons or ["" if m else "not measured" for m in vision.measured]
    tracker = Tracker(T_b_c, walks, config)
    states: list[TrackedState] = []
    for k in range(1, len(keyframes_ns)):
        stamp_ns = int(keyframes_ns[k])
        tracker.advance(imu, vision, k, why[k - 1])
        if tracker.smoother is None:
            continue
        last_ns = int(keyframes_ns[k + 1]) - 1 if k + 1 < len(keyframes_ns) else int(images_ns[-1])
        last_ns = min(last_ns, int(imu.stamps_ns[-1]))
        wanted_ns = images_ns[(images_ns >= stamp_ns) & (images_ns <= last_ns)]
        try:
            states += tracker.states_at(imu, wanted_ns)
        except DatasetError as error:
            tracker.stop(stamp_ns, str(error))
    if tracker.constants.wrong_axes:
        raise DatasetError(
            f"tracking was stopped: {tracker.constants.wrong_axes[0]}. `maci2 check` says more."
        )
    if not tracker.starts:
        why_not = f"The last one: {tracker.not_started}."
        if not tracker.not_started:
            span_s = float(keyframes_ns[-1] - keyframes_ns[0]) / NS
            why_not = (
                f"A window needs five keyframes over {WINDOW_S:g} s; here are {len(keyframes_ns)} "
                f"over {span_s:.1f} s: choose a shorter --interval or a longer recording."
            )
        raise DatasetError(
            f"tracking never started: no window of {WINDOW_S:g} s was initialized with the verdict "
            f"ok. {why_not} `maci2 check` says what to do about it."
        )
    return Track(
        states,
        tracker.keyframes,
        tracker.starts,
        tracker.log_scale,
        tracker.slow_error_deg,
        tracker.slow_spread,
        tuple(tracker.origins),
        tracker.constants.reasons,
        tuple(tracker.contradicted_ns.values()),
    )
