"""Gravity, velocities and biases while the sensors run."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from maci2.boundary import LARGEST_STAMP_NS, require_type
from maci2.estimation import InitResult, Verdict, initialize
from maci2.estimation.verdict import rotation_about_axes_deg
from maci2.estimator.initialize import chained_poses
from maci2.imu import ImuMeasurements
from maci2.imu.model_choice import is_learned
from maci2.lie import se3_inv
from maci2.pipeline.online.bias_memory import BiasMemory
from maci2.pipeline.online.keyframes import KeyframeTracker, Tracker
from maci2.pipeline.online.pair_queue import SETTLE_NS
from maci2.pipeline.online.status import OnlineConfig, OnlineStatus
from maci2.pipeline.online.stream import BEFORE_S, SensorStream
from maci2.pipeline.rehearsals import warm_up
from maci2.premises import Premises, SampleRate, contradictions
from maci2.sensors import ImuSamples, Rig
from maci2.sensors.stereo import StereoPair
from maci2.tracking.settings import bias_walks
from maci2.tracking.stream_premises import StreamPremises
from maci2.tracking.zero_motion import is_still
from maci2.types import GRAVITY_NORM, NS
from maci2.vision import RelativePoses

CAMERA_GAP = 3.0
"""A step between pairs that is as many times as long as the one before it, and longer than two
keyframe intervals, starts the window anew."""


class OnlineInitializer(SensorStream[InitResult, OnlineStatus]):
    """Initialization while the sensors run, in a thread of its own.

    Every keyframe that completes a window gives a result; `result` is the latest, `on_result` is
    called with each. A window begins with what earlier windows showed of the biases, so results get
    better with time. Memory is bounded by the window, the time of a call by a lock held briefly.
    Use it in a `with` statement, or call `close()`.

    Args:
        rig: calibration of two cameras and the IMU.
        config: window, keyframes and IMU model.
        on_result: function that is called with each result, in a thread of its own. It may raise,
            block, and call any method; where it is too slow it gets the newest results.
        tracker: turns stereo pairs into relative poses; images are looked at by default.

    Raises:
        CalibrationError: the rig has no two cameras, or its extrinsics are not known.
        OptionError: there is no such IMU model.
    """

    def __init__(
        self,
        rig: Rig,
        config: OnlineConfig | None = None,
        on_result: Callable[[InitResult], object] = lambda _: None,
        tracker: Tracker | None = None,
    ) -> None:
        self.config = config or OnlineConfig()
        require_type(self.config, OnlineConfig, "config", "OnlineConfig()")
        window_s, keyframes = self.config.window_s, self.config.keyframes
        status, keep_s = OnlineStatus(needed_s=window_s), 2.0 * window_s + BEFORE_S
        super().__init__(rig, self.config, on_result, status, keep_s, "initialization")
        warm_up("initialize", *(() if tracker else ("odometry",)))
        self._tracker = tracker or KeyframeTracker(
            rig, window_s, keyframes, self._predicted_rotation
        )
        self._premises = StreamPremises(self._tracker.T_b_c)
        self._biases = BiasMemory(*bias_walks(rig, self.config.imu))
        self._carries = self.config.carry_biases and not is_learned(self.config.imu)
        self._last_pair_ns: int | None = None
        self._last_step_ns = 0
        self._gapless_ns = -LARGEST_STAMP_NS
        """End of the latest gap of the IMU."""
        self._worker.start()

    @property
    def result(self) -> InitResult | None:
        """The latest; None before the first window is whole."""
        with self._lock:
            return self._result

    def _forget(self, new_clock: bool) -> None:
        self._tracker.clear()
        self._last_pair_ns = None
        if new_clock:
            self._gapless_ns = -LARGEST_STAMP_NS
            # Time offset and elapsed time are those of the clock before.
            self._premises.clear()
            self._biases.clear()

    def _emptied(self, status: OnlineStatus) -> OnlineStatus:
        return replace(
            status, collected_s=0.0, turned_deg=(0.0, 0.0, 0.0), standing_still=False, windows=0
        )

    def _take(self, pair: StereoPair, restarts: int) -> None:
        with self._lock:
            gap_ns = self._samples.gap_ns(self._last_pair_ns or pair.stamp_ns, pair.stamp_ns)
        broken = self._interruption(pair.stamp_ns, gap_ns)
        if broken:
            restarts = self._start_anew(broken)
            # What looks like a gap may be a jump of one clock against the other.
            self._premises.clear()
        if gap_ns is not None:
            self._gapless_ns = gap_ns[1]
            if pair.stamp_ns < gap_ns[1]:
                return
        if self._last_pair_ns is not None:
            self._last_step_ns = pair.stamp_ns - self._last_pair_ns
        self._last_pair_ns = pair.stamp_ns
        # Images are worked on without the lock: samples must not wait for them.
        if not self._tracker.add(pair):
            return
        self._tell(restarts)
        vision = self._tracker.window()
        if vision is None:
            return
        first_ns, last_ns = int(vision.stamps_ns[0]), int(vision.stamps_ns[-1])
        with self._lock:
            samples, rate = self._samples.snapshot(), self._samples.rate_hz
            self._samples.forget_before(first_ns - round(2.0 * BEFORE_S * NS))
        if samples.stamps_ns[0] <= first_ns and last_ns <= samples.stamps_ns[-1]:
            self._publish(self._solved(samples, vision, rate), restarts)

    def _interruption(self, stamp_ns: int, gap_ns: tuple[int, int] | None) -> str:
        """What is missing since the pair before, where it is too much to go on."""
        if self._last_pair_ns is None:
            return ""
        if gap_ns is not None:
            gap_s = (gap_ns[1] - gap_ns[0]) / NS
            return f"no IMU sample for {gap_s:.3f} s after {gap_ns[0]} ns"
        step_ns = stamp_ns - self._last_pair_ns
        two_keyframes_ns = 2.0 * self.config.window_s * NS / (self.config.keyframes - 1)
        if self._last_step_ns and step_ns > max(CAMERA_GAP * self._last_step_ns, two_keyframes_ns):
            return f"no stereo pair for {step_ns / NS:.2f} s before {stamp_ns} ns"
        return ""

    def _solved(
        self, samples: ImuSamples, vision: RelativePoses, rate_hz: float | None
    ) -> InitResult:
        first_ns, last_ns = int(vision.stamps_ns[0]), int(vision.stamps_ns[-1])
        # The same samples whenever this runs: from a little before the window to its end.
        before_ns = max(
            first_ns - round(BEFORE_S * NS), int(samples.stamps_ns[0]), self._gapless_ns
        )
        imu = self._measure(samples.between(before_ns, last_ns), self._rig.imu)
        imu = imu.between(first_ns, last_ns)
        if self._premises.asks_for(vision):
            # A time offset shows in samples on both sides of the window.
            around = self._measure(samples.between(before_ns, last_ns + SETTLE_NS), self._rig.imu)
            self._premises.add(around, vision)
        premises = self._premises.posterior(self._sample_rate(rate_hz))
        alone = initialize(imu, vision, self._tracker.T_b_c, premises=premises)
        return self._combined(alone, imu, vision, premises) if self._carries else alone

    def _combined(
        self,
        alone: InitResult,
        imu: ImuMeasurements,
        vision: RelativePoses,
        premises: Premises | None,
    ) -> InitResult:
        """The window with what earlier ones showed of the biases, unless it contradicts them."""
        prior = self._biases.prior(int(vision.stamps_ns[0]), int(vision.stamps_ns[-1]))
        result = alone
        if prior is not None and self._biases.contradicts(alone, prior):
            reason = "the biases differ from those that earlier windows showed"
            status = "weak" if alone.verdict.status == "ok" else alone.verdict.status
            return replace(alone, verdict=Verdict(status, (*alone.verdict.reasons, reason)))
        if prior is not None:
            known = replace(imu, bias_prior=prior)
            result = initialize(known, vision, self._tracker.T_b_c, premises=premises)
        if _consistent(result, premises):
            self._biases.add(result)
        with self._lock:
            self._status = replace(self._status, windows=self._biases.windows)
        return result

    def _sample_rate(self, rate_hz: float | None) -> SampleRate | None:
        stated_hz = self._rig.imu.rate_hz
        if rate_hz is None or not (np.isfinite(stated_hz) and stated_hz > 0.0):
            return None
        return SampleRate(stated_hz, rate_hz)

    def _tell(self, restarts: int) -> None:
        """Bring the status up to date."""
        first_ns, last_ns = self._tracker.first_ns, self._tracker.last_ns
        motion = self._tracker.so_far()
        if first_ns is None or last_ns is None or motion is None:
            return
        Ts_c0_c = chained_poses(np.ascontiguousarray(motion.Ts_ck_ck1))
        Ts_c0_b = Ts_c0_c @ se3_inv(np.ascontiguousarray(self._tracker.T_b_c))
        turned = rotation_about_axes_deg(np.ascontiguousarray(Ts_c0_b))
        reasons = self._tracker.reasons()
        with self._lock:
            if self._status.restarts != restarts:
                return
            self._status = replace(
                self._status,
                collected_s=(last_ns - first_ns) / NS,
                turned_deg=(float(turned[0]), float(turned[1]), float(turned[2])),
                standing_still=is_still(motion) and not reasons,
                trouble=reasons[-1] if reasons else self._pairs.off_clock,
            )


def _consistent(result: InitResult, premises: Premises | None) -> bool:
    """Whether the posterior may be built on: nothing contradicts it, however wide it is."""
    if result.verdict.status == "ok":
        return True
    report = result.report
    as_stated = report.converged and report.inflation == 1.0 and report.rejected == 0
    return as_stated and not (premises and contradictions(premises, GRAVITY_NORM, False))
