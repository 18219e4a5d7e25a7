"""Pose, velocity and biases while the sensors run, from initialization on."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from maci2.estimator.problem import Shared
from maci2.imu import ImuMeasurements
from maci2.jit import warm_up
from maci2.live.buffers import SETTLE_NS
from maci2.live.stream import BEFORE_S, OnlineTrackerConfig, SensorStream, TrackerStatus
from maci2.odometry import TrackedState
from maci2.odometry.settings import WINDOW_S, tracker_settings
from maci2.odometry.track import BRIDGING_AFTER_S, Tracker
from maci2.sensors import ImuSamples, Rig
from maci2.sensors.stereo import StereoPair
from maci2.types import NS
from maci2.validation import require_type
from maci2.vision import RelativePoses
from maci2.vision.odometry import KeyframeTracker, PairTracker

REMEMBERED = 100
"""Keyframes whose fate is kept."""


class _Anchor(NamedTuple):
    """The newest smoothed state and what carries it on."""

    state: TrackedState
    shared: Shared


class OnlineTracker(SensorStream[TrackedState, TrackerStatus]):
    """Visual-inertial odometry while the sensors run, in a thread of its own.

    It initializes as soon as a window allows it and carries on from there. `state` is the state at
    the newest IMU sample, `on_state` is called with the state at every stereo pair. Without images
    the IMU carries the state with growing covariance. Memory is bounded by the smoothed window, the
    time of a call by a lock held briefly. Use it in a `with` statement, or call `close()`.

    Args:
        rig: calibration of two cameras and the IMU.
        config: keyframes, IMU model and smoother.
        on_state: function that is called with each state, in a thread of its own. It may raise,
            block, and call any method; where it is too slow it gets the newest states.
        tracker: turns stereo pairs into relative poses; images are looked at by default.

    Raises:
        CalibrationError: the rig has no two cameras, or its extrinsics are not known.
        OptionError: there is no such IMU model.
    """

    def __init__(
        self,
        rig: Rig,
        config: OnlineTrackerConfig | None = None,
        on_state: Callable[[TrackedState], object] = lambda _: None,
        tracker: PairTracker | None = None,
    ) -> None:
        self.config = config or OnlineTrackerConfig()
        require_type(self.config, OnlineTrackerConfig, "config", "OnlineTrackerConfig()")
        interval_s = self.config.interval_s
        keep_s = max(self.config.smoother.lag_s, WINDOW_S) + 2.0 * BRIDGING_AFTER_S + BEFORE_S
        super().__init__(rig, self.config, on_state, TrackerStatus(), keep_s, "tracking")
        count = round(WINDOW_S / interval_s) + 3
        warm_up("initialize", "chain", *(() if tracker else ("odometry",)))
        self._vision = tracker or KeyframeTracker(
            rig, interval_s * (count - 1), count, self._predicted_rotation
        )
        settings = tracker_settings(rig, self.config.imu, self.config.smoother)
        self._walks = settings.walks
        self._tracker = Tracker(self._vision.T_b_c, *settings)
        self._anchor: _Anchor | None = None
        self._worker.start()

    @property
    def state(self) -> TrackedState | None:
        """The state at the newest IMU sample, with its covariance; None while initializing."""
        with self._lock:
            anchor = self._anchor
            if anchor is None or not len(self._samples):
                return None
            samples, newest_ns = self._samples.snapshot(), self._samples.last_ns
        return self._carried(anchor, samples, newest_ns)

    def _carried(self, anchor: _Anchor, samples: ImuSamples, stamp_ns: int) -> TrackedState:
        """The state at a later time, by the IMU alone."""
        state, shared = anchor
        if stamp_ns <= state.stamp_ns:
            return state
        imu = self._measured(samples, state.stamp_ns)
        (carried,) = state.carried(imu, np.array([stamp_ns]), shared, self._walks)
        return carried

    def _forget(self, new_clock: bool) -> None:
        self._vision.clear()
        self._tracker.forget(constants=new_clock)

    def _emptied(self, status: TrackerStatus) -> TrackerStatus:
        self._anchor = None
        return replace(status, health="initializing")

    def _take(self, pair: StereoPair, restarts: int) -> None:
        if self._vision.add(pair):
            stamp_ns = self._vision.last_ns
            assert stamp_ns is not None
            self._advance(self._vision.so_far(), stamp_ns, "no stereo pair before it", restarts)
        with self._lock:
            anchor = self._anchor if self._status.restarts == restarts else None
            samples = self._samples.snapshot()
        if anchor is not None:
            self._publish(self._carried(anchor, samples, pair.stamp_ns), restarts)

    def _advance(
        self, recent: RelativePoses | None, stamp_ns: int, reason: str, restarts: int
    ) -> None:
        """Take a keyframe: with the relative poses up to it, or without any, which has a reason,
        tied to the one before it by the IMU alone."""
        tracker, smoother = self._tracker, self._tracker.smoother
        starts_ns = [stamp_ns if recent is None else int(recent.stamps_ns[0])]
        if smoother is not None:
            starts_ns.append(int(smoother.stamps_ns[0]))
        with self._lock:
            samples = self._samples.snapshot()
        imu = self._measured(samples, min(starts_ns))
        if recent is not None:
            reason = recent.reasons[-1] if recent.reasons else ""
            tracker.advance(imu, recent, len(recent) - 1, reason)
        elif smoother is not None:
            tracker.bridge(imu.between(starts_ns[-1], stamp_ns), stamp_ns, reason)
        self._remember(imu, restarts)

    def _remember(self, imu: ImuMeasurements, restarts: int) -> None:
        """Make the newest smoothed state the one that `state` is carried from."""
        tracker, anchor = self._tracker, None
        if tracker.smoother is not None:
            (state,) = tracker.states_at(imu, tracker.smoother.stamps_ns[-1:])
            anchor = _Anchor(state, tracker.smoother.solution.shared)
        del tracker.keyframes[:-REMEMBERED], tracker.starts[:-1], tracker.origins[:-1]
        with self._lock:
            if self._status.restarts != restarts:
                return
            self._anchor = anchor
            self._status = replace(
                self._status,
                health=anchor.state.health if anchor else "initializing",
                segments=tracker.segment + 1,
                trouble="; ".join(tracker.constants.reasons)
                or self._pairs.off_clock
                or self._reason_of_latest(),
            )

    def _reason_of_latest(self) -> str:
        """Reason why the latest keyframe was not used, or why tracking has not started."""
        if self._tracker.smoother is not None:
            return self._tracker.keyframes[-1].reason if self._tracker.keyframes else ""
        return next(reversed(self._vision.reasons()), "") or self._tracker.not_started

    def _time_has_passed(self) -> bool:
        anchor = self._anchor
        if anchor is None or not len(self._samples):
            return False
        # Without a keyframe for so long, the IMU alone makes one: a state is never far to carry.
        waited_ns = self._samples.last_ns - SETTLE_NS - anchor.state.stamp_ns
        return waited_ns > BRIDGING_AFTER_S * NS

    def _pass_time(self) -> None:
        with self._lock:
            if not self._time_has_passed():
                return
            restarts = self._status.restarts
            stamp_ns = self._samples.last_ns - SETTLE_NS
            self._pairs.passed(stamp_ns)
        # Pairs that come later are measured from each other, not from before the outage.
        self._vision.clear()
        self._advance(None, stamp_ns, "no stereo pair came", restarts)
