"""Initialization while the sensors run."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from maci2.consistency import (
    MeasuredConstants,
    OnlineConsistency,
    initialize,
    missing_samples,
    rotation_about_axes_deg,
)
from maci2.estimator import InitResult, Verdict
from maci2.estimator.initial_guess import chained_poses
from maci2.geometry import se3_inv
from maci2.geometry.gaussian import chi2_quantile
from maci2.imu import BiasPrior
from maci2.imu.model_choice import is_learned
from maci2.jit import warm_up
from maci2.live.buffers import SETTLE_NS
from maci2.live.stream import BEFORE_S, OnlineConfig, OnlineStatus, SensorStream
from maci2.odometry.settings import bias_walks
from maci2.odometry.track import is_still
from maci2.sensors import ImuSamples, Rig
from maci2.sensors.stereo import StereoPair
from maci2.types import NS, Array
from maci2.validation import LARGEST_STAMP_NS, require_type
from maci2.vision import RelativePoses
from maci2.vision.odometry import KeyframeTracker, PairTracker

FALSE_ALARM = 1e-3
"""Probability that a window with the same biases is called contradictory."""

DOUBTED_AFTER_S = 1.0
"""Once windows have contradicted it for this long, the memory is what is wrong [s]."""


class _Remembered(NamedTuple):
    """Posterior of the biases of one window and of all before it that it was built on."""

    middle_ns: float
    end_ns: int
    mean: Array
    """(6,) gyroscope [rad/s], accelerometer [m/s^2]."""

    variance: Array
    """(6,) of axes that may be taken as independent."""

    windows: int


class BiasMemory:
    """Posteriors of the latest windows; a window begins with the best that it does not overlap.

    A posterior already holds that of its own predecessor, so no measurement is counted twice.
    Between windows the biases walk randomly.

    Args:
        walk_gyro: random walk of the gyroscope bias [rad/s/sqrt(s)].
        walk_acc: random walk of the accelerometer bias [m/s^2/sqrt(s)].
    """

    def __init__(self, walk_gyro: float, walk_acc: float) -> None:
        self._walk_variance = np.repeat([walk_gyro, walk_acc], 3) ** 2
        self.clear()

    def clear(self) -> None:
        """Forget all windows."""
        self._known: list[_Remembered] = []
        self._contradicted_ns: int | None = None

    @property
    def windows(self) -> int:
        """Number of windows behind the newest posterior; none of them overlap."""
        return self._known[-1].windows if self._known else 0

    def prior(self, start_ns: int, end_ns: int) -> BiasPrior | None:
        """Prior of a window; None where no other ended before it."""
        before = self._before(start_ns)
        if before is None:
            return None
        std = np.sqrt(self._variance(before, 0.5 * (start_ns + end_ns)))
        return BiasPrior(before.mean[:3], std[:3], before.mean[3:], std[3:])

    def contradicts(self, alone: InitResult, prior: BiasPrior) -> bool:
        """True if a window that was solved without the prior has other biases.

        A memory that is contradicted for long is forgotten.
        """
        state, posterior = alone.state, alone.posterior
        if state is None or posterior is None:
            return False
        chi2 = 0.0
        for away, cov, std in (
            (state.gyro_bias - prior.mean_gyro, posterior.gyro_bias, prior.std_gyro),
            (state.acc_bias - prior.mean_acc, posterior.acc_bias, prior.std_acc),
        ):
            chi2 += float(away @ np.linalg.solve(cov + np.diag(std**2), away))
        start_ns = int(state.stamps_ns[0])
        if chi2 <= chi2_quantile(6, 1.0 - FALSE_ALARM):
            self._contradicted_ns = None
            return False
        self._contradicted_ns = self._contradicted_ns or start_ns
        if start_ns - self._contradicted_ns >= DOUBTED_AFTER_S * NS:
            self.clear()
        return True

    def add(self, result: InitResult) -> None:
        """Remember the posterior of a window that was solved with the prior given for it."""
        state, posterior = result.state, result.posterior
        if state is None or posterior is None:
            return
        start_ns, end_ns = int(state.stamps_ns[0]), int(state.stamps_ns[-1])
        before = self._before(start_ns)
        mean = np.append(state.gyro_bias, state.acc_bias)
        variance = np.append(uncorrelated(posterior.gyro_bias), uncorrelated(posterior.acc_bias))
        windows = before.windows + 1 if before else 1
        self._known.append(_Remembered(0.5 * (start_ns + end_ns), end_ns, mean, variance, windows))

    def _before(self, start_ns: int) -> _Remembered | None:
        """The most certain of those that ended before a window starts; later windows start later,
        so the others are not needed any more."""
        ended = [known for known in self._known if known.end_ns <= start_ns]
        if not ended:
            return None
        best = min(ended, key=lambda known: np.log(self._variance(known, start_ns)).sum())
        self._known = [best, *(known for known in self._known if known.end_ns > start_ns)]
        return best

    def _variance(self, known: _Remembered, at_ns: float) -> Array:
        """Variance of the biases at a later time, walked since the middle of a window."""
        return known.variance + self._walk_variance * (at_ns - known.middle_ns) / NS


def uncorrelated(cov: Array) -> Array:
    """(n,) variances of independent axes that claim nothing beyond a covariance: in no direction is
    their spread less.

    A known norm of gravity ties the accelerometer's axes together. Bare variances would be taken
    for knowledge of each axis, and with the same tie in the next window that counts twice: what no
    motion shows would get ever more certain.
    """
    std = np.sqrt(np.diag(cov))
    correlation = np.abs(cov) / np.outer(std, std)
    return np.asarray(std**2 * correlation.sum(axis=1))


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
        tracker: PairTracker | None = None,
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
        self._consistency = OnlineConsistency(self._tracker.T_b_c)
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
            self._consistency.clear()
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
            self._consistency.clear()
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
        """Interruption since the pair before that is too long to continue, or an empty text."""
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
        if self._consistency.takes(vision):
            # A time offset shows in samples on both sides of the window.
            around = self._measure(samples.between(before_ns, last_ns + SETTLE_NS), self._rig.imu)
            self._consistency.add(around, vision)
        rate = missing_samples(rate_hz, self._rig.imu.rate_hz)
        constants = self._consistency.constants(rate)
        alone = initialize(imu, vision, self._tracker.T_b_c, constants=constants)
        if not self._carries:
            return alone
        # With the biases that earlier windows showed, unless this one contradicts them.
        prior, result = self._biases.prior(first_ns, last_ns), alone
        if prior is not None and self._biases.contradicts(alone, prior):
            reason = "the biases differ from those that earlier windows showed"
            status = "weak" if alone.verdict.status == "ok" else alone.verdict.status
            return replace(alone, verdict=Verdict(status, (*alone.verdict.reasons, reason)))
        if prior is not None:
            known = replace(imu, bias_prior=prior)
            result = initialize(known, vision, self._tracker.T_b_c, constants=constants)
        if _consistent(result, constants):
            self._biases.add(result)
        with self._lock:
            self._status = replace(self._status, windows=self._biases.windows)
        return result

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


def _consistent(result: InitResult, constants: MeasuredConstants | None) -> bool:
    """True if nothing contradicts the posterior, however wide it is."""
    if result.verdict.status == "ok":
        return True
    report = result.report
    as_stated = report.converged and report.inflation == 1.0 and report.rejected == 0
    return as_stated and not (constants and constants.contradictions())
