"""Sensors that run: samples and stereo pairs from any thread, processed in one of its own."""

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Generic, Self, TypeVar

from maci2.errors import CalibrationError, DatasetError, Maci2Error, OptionError
from maci2.field_docs import document_fields
from maci2.imu import ImuMeasurements
from maci2.imu.measurements import VIBRATION_WINDOW_S
from maci2.imu.model_choice import find_imu_model, needs_datasheet
from maci2.live.buffers import CallbackThread, PairQueue, SampleBuffer
from maci2.odometry import Health, SmootherConfig
from maci2.pipeline.track_recording import KEYFRAME_INTERVAL_S
from maci2.pipeline.vision_sources import GyroRotation
from maci2.rigs import require_extrinsics, require_noise
from maci2.sensors import ImuSamples, Rig
from maci2.sensors.corrections import corrected_readings
from maci2.sensors.stereo import Image, StereoPair
from maci2.types import NS, Array
from maci2.validation import as_array, as_image, as_number, as_stamp, as_whole, require_type
from maci2.vision import rectified_extrinsics
from maci2.vision.relative_poses import PredictedRotation

TURN_DEG = 5.0
"""Rotation about an axis from which on accelerometer bias and tilt can be separated."""


@dataclass(frozen=True)
class OnlineConfig:
    """Choices of a live initialization."""

    window_s: float = 2.5
    """Length of the window [s]."""

    keyframes: int = 10
    """Keyframes in a window."""

    imu: str = "raw"
    """raw, datasheet, noise:FILE, the name of a bundled model, or a weight file."""

    waiting_pairs: int = 12
    """Stereo pairs that may wait; when more arrive, the oldest is dropped and counted."""

    waiting_results: int = 8
    """Results that may wait for a slow callback; when more come, the oldest is dropped and
    counted."""

    carry_biases: bool = True
    """True if the biases estimated in earlier windows are the prior of the next. A learned IMU
    model tracks them itself."""

    def __post_init__(self) -> None:
        as_number(self.window_s, "OnlineConfig.window_s", 0.1, 1e3, OptionError)
        as_whole(self.keyframes, "OnlineConfig.keyframes", 4, 1e6)
        _require_stream(self, "OnlineConfig")
        require_type(self.carry_biases, bool, "OnlineConfig.carry_biases", "True or False")


@dataclass(frozen=True)
class OnlineTrackerConfig:
    """Choices of live tracking."""

    interval_s: float = KEYFRAME_INTERVAL_S
    """Time between keyframes [s]."""

    imu: str = "raw"
    """raw, datasheet, noise:FILE, the name of a bundled model, or a weight file."""

    waiting_pairs: int = 12
    """Stereo pairs that may wait; when more arrive, the oldest is dropped and counted."""

    waiting_results: int = 8
    """States that may wait for a slow callback; when more come, the oldest is dropped and
    counted."""

    smoother: SmootherConfig = field(default_factory=SmootherConfig)
    """Choices of the fixed-lag smoother."""

    def __post_init__(self) -> None:
        as_number(self.interval_s, "OnlineTrackerConfig.interval_s", 0.02, 0.5, OptionError)
        _require_stream(self, "OnlineTrackerConfig")
        require_type(
            self.smoother, SmootherConfig, "OnlineTrackerConfig.smoother", "SmootherConfig()"
        )


StreamConfig = OnlineConfig | OnlineTrackerConfig


def _require_stream(config: StreamConfig, name: str) -> None:
    require_type(config.imu, str, f"{name}.imu", "the name of an IMU model")
    as_whole(config.waiting_pairs, f"{name}.waiting_pairs", 1, 1e6)
    as_whole(config.waiting_results, f"{name}.waiting_results", 1, 1e6)


@dataclass(frozen=True)
class StreamStatus:
    """Events of the streams so far."""

    late_imu: int = 0
    """Number of samples that arrived twice or too late."""

    late_pairs: int = 0
    """Number of stereo pairs that arrived twice, too late, or from before the IMU samples."""

    outlying_imu: int = 0
    """Samples stamped far ahead, with which no other agreed."""

    outlying_pairs: int = 0
    """Stereo pairs stamped far ahead of the IMU's samples."""

    dropped_pairs: int = 0
    """Stereo pairs dropped because too many waited, or no IMU sample came."""

    dropped_results: int = 0
    """Results that a slow callback missed."""

    restarts: int = 0
    """Number of times that the window was started over."""

    last_restart: str = ""
    """Reason of the last start-over."""

    callback_error: str = ""
    """Error that the callback raised in its last call."""

    trouble: str = ""
    """Current fault: timestamps that do not fit, a relative pose without points, an error."""

    def _words(self) -> list[str]:
        counted = (
            (self.late_imu, "samples too late"),
            (self.late_pairs, "stereo pairs too late"),
            (self.outlying_imu, "samples stamped far ahead"),
            (self.outlying_pairs, "stereo pairs stamped far ahead"),
            (self.dropped_pairs, "stereo pairs dropped"),
            (self.dropped_results, "results missed by the callback"),
        )
        words = [f"{number} {what}" for number, what in counted if number]
        if self.last_restart:
            words.append(f"started anew {self.restarts} times, the last time: {self.last_restart}")
        return [*words, *(text for text in (self.callback_error, self.trouble) if text)]


@dataclass(frozen=True)
class OnlineStatus(StreamStatus):
    """Progress of a live initialization."""

    collected_s: float = 0.0
    """Length of the window so far [s]."""

    needed_s: float = 0.0
    """Length of a whole window [s]."""

    turned_deg: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Rotation about the body's axes in the window so far, peak to peak [deg]."""

    standing_still: bool = False
    """True if the device does not move."""

    windows: int = 0
    """Number of windows, not overlapping, behind the bias prior of the next one."""

    def __str__(self) -> str:
        parts = [f"{min(self.collected_s, self.needed_s):.1f} s of {self.needed_s:.1f} s"]
        if self.standing_still:
            parts.append("standing still: gravity and gyroscope bias, nothing else, can be known")
        else:
            parts += [
                f"rotation about {axis} {turned:.0f} deg of about {TURN_DEG:.0f}"
                for axis, turned in zip("xyz", self.turned_deg, strict=True)
                if turned < TURN_DEG
            ]
        return "; ".join([*parts, *self._words()])


@dataclass(frozen=True)
class TrackerStatus(StreamStatus):
    """Progress of live tracking."""

    health: Health = "initializing"
    """initializing: no window was good enough yet; tracking; bridging: the IMU alone carries the
    state; lost: it has done so for too long."""

    segments: int = 0
    """Number of times that tracking has started; it is continuous within a segment."""

    def __str__(self) -> str:
        return "; ".join([self.health, *self._words()])


_LOG = logging.getLogger(__name__)

BEFORE_S = 1.1 * VIBRATION_WINDOW_S
"""Samples before those that are used [s]: for vibration and the history of a learned model."""

LONGEST_WAIT_S = 1.0
"""Longest time without any IMU sample for which pairs wait [s]."""

CLOSE_WAIT_S = 1.0
"""Longest wait of `close()` for a callback that runs [s]."""

WORKER_WAIT_S = 10.0
"""Longest wait of `close()` for what the worker has begun [s]: a tracker of the user's may hang."""

Result = TypeVar("Result")
Status = TypeVar("Status", bound=StreamStatus)


class SensorStream(ABC, Generic[Result, Status]):
    """One worker that takes pairs in the order of time, each once the IMU covers it.

    Callers hold the lock briefly. Only the worker touches what estimates; a restart is a number
    that it compares before and after its work. Results go to the callback in a third thread.
    """

    def __init__(
        self,
        rig: Rig,
        config: StreamConfig,
        callback: Callable[[Result], object],
        status: Status,
        keep_s: float,
        name: str,
    ) -> None:
        _require_rig(rig, config, name)
        if not callable(callback):
            raise OptionError(f"the callback is {callback!r}, needed a function of one result.")
        self._rig = rig
        self._shift_ns = round(rig.time_offset_s * NS)
        self._measure = find_imu_model(config.imu)
        self._lock = threading.Lock()
        self._work_to_do = threading.Condition(self._lock)
        self._changed = threading.Condition(self._lock)
        self._samples = SampleBuffer(keep_s)
        self._pairs = PairQueue(config.waiting_pairs)
        self._imu_came_s = time.monotonic()
        self._status = status
        self._result: Result | None = None
        self._closed = False
        self._working = False
        self._clocks = 0
        """Number of jumps of a clock."""
        self._forgotten = (0, 0)
        """Restarts and clocks that the worker knows of."""
        self._callback = CallbackThread(callback, config.waiting_results, f"{name}-callback")
        self._worker = threading.Thread(target=self._work, name=name, daemon=True)

    def add_imu(self, stamp_ns: int, gyro: Array, acc: Array) -> None:
        """Take one IMU sample; samples may come from other threads than images.

        Args:
            stamp_ns: its timestamp on the IMU's clock, an integer of nanoseconds.
            gyro: (3,) angular rate, body frame [rad/s].
            acc: (3,) specific force, body frame [m/s^2].

        Raises:
            DatasetError: an argument has the wrong type or shape, or is NaN.
        """
        stamp_ns = as_stamp(stamp_ns, "stamp_ns of the IMU sample", DatasetError)
        gyro = as_array(gyro, (3,), f"gyro at {stamp_ns} ns", DatasetError)
        acc = as_array(acc, (3,), f"acc at {stamp_ns} ns", DatasetError)
        if self._rig.imu_intrinsics is not None:
            gyro, acc = corrected_readings(gyro, acc, self._rig.imu_intrinsics)
        with self._lock:
            if self._closed:
                return
            broken = self._samples.add(stamp_ns, gyro, acc)
            self._imu_came_s = time.monotonic()
            broken = self._pairs.samples_came(self._samples, bool(broken)) or broken
            if broken:
                self._clocks += 1
                self._restart(broken)
            if self._is_work_to_do():
                self._work_to_do.notify()

    def add_stereo(self, stamp_ns: int, left: Image, right: Image) -> None:
        """Take one stereo pair; it is copied, and waits until the worker has time for it.

        Args:
            stamp_ns: its timestamp on the camera's clock, an integer of nanoseconds; it is put onto
                the IMU's clock by the time offset that the rig states.
            left, right: grey images, uint8 of the shape (height, width), as large as the
                calibration says.

        Raises:
            DatasetError: an argument has the wrong type or size.
        """
        stamp_ns = as_stamp(stamp_ns, "stamp_ns of the stereo pair", DatasetError)
        sides = zip(("left", "right"), (left, right), self._rig.cameras, strict=False)
        images = [
            as_image(image, camera.resolution, f"the {side} image at {stamp_ns} ns", DatasetError)
            for side, image, camera in sides
        ]
        pair = StereoPair(stamp_ns + self._shift_ns, images[0].copy(), images[1].copy())
        with self._lock:
            if self._closed:
                return
            broken = self._pairs.add(pair, self._samples)
            if broken:
                self._clocks += 1
                self._restart(broken)
            elif self._pairs.off_clock:
                self._status = replace(self._status, trouble=self._pairs.off_clock)
            self._work_to_do.notify()

    @property
    def status(self) -> Status:
        """Progress of the stream; `str` of it is a sentence."""
        with self._lock:
            return replace(
                self._status,
                late_imu=self._samples.late,
                outlying_imu=self._samples.outlying,
                late_pairs=self._pairs.late,
                outlying_pairs=self._pairs.outlying,
                dropped_pairs=self._pairs.dropped,
                dropped_results=self._callback.dropped,
                callback_error=self._callback.error,
            )

    @property
    def is_busy(self) -> bool:
        """Another pair now would mean that one has to be dropped, and waiting a little avoids it:
        False where pairs wait for IMU samples."""
        with self._lock:
            ready = self._pairs.ready(self._samples)
            return self._pairs.is_full and ready and not self._closed

    def drain(self, timeout_s: float) -> bool:
        """Wait until every pair has been processed and every result passed to the callback;
        whether it was in time."""
        deadline_s = time.monotonic() + timeout_s
        with self._lock:
            done = self._changed.wait_for(
                lambda: self._closed or not (len(self._pairs) or self._working), timeout_s
            )
        return done and self._callback.drain(deadline_s)

    def wait(self, timeout_s: float) -> Result | None:
        """The latest result, or None if there is none in time."""
        with self._lock:
            self._changed.wait_for(lambda: self._result is not None or self._closed, timeout_s)
            return self._result

    def restart(self) -> None:
        """Forget the window and the result, in flight; samples go on."""
        with self._lock:
            self._restart("restart() was called")
            self._result = None

    def close(self) -> None:
        """Stop; what waits is dropped. May be called from anywhere, the callback included.

        A callback that runs is waited for one second and then left to end by itself.
        """
        with self._lock:
            self._closed = True
            self._work_to_do.notify_all()
            self._changed.notify_all()
        if threading.current_thread() is not self._worker:
            self._worker.join(WORKER_WAIT_S)
        self._callback.close(CLOSE_WAIT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def _take(self, pair: StereoPair, restarts: int) -> None:
        """Work on a pair, in the worker and without the lock; `restarts` tells, with `_publish`,
        whether the stream started anew meanwhile."""

    @abstractmethod
    def _forget(self, new_clock: bool) -> None:
        """Forget what was collected before a restart, in the worker; with a new clock, what holds
        for the old one too."""

    @abstractmethod
    def _emptied(self, status: Status) -> Status:
        """The status with nothing collected."""

    def _pass_time(self) -> None:
        """Work that IMU samples alone make necessary, in the worker and without the lock."""

    def _time_has_passed(self) -> bool:
        """True if there is such work; called with the lock held."""
        return False

    def _publish(self, result: Result, restarts: int) -> None:
        """Make a result the latest, unless the stream started anew meanwhile."""
        with self._lock:
            if self._status.restarts != restarts or self._closed:
                return
            self._result = result
            self._changed.notify_all()
        self._callback.put(result)

    def _start_anew(self, reason: str) -> int:
        """Start anew from inside the worker; the number of restarts from now on."""
        with self._lock:
            self._restart(reason)
            restarts = self._status.restarts
        self._forget(new_clock=False)
        self._forgotten = (restarts, self._forgotten[1])
        return restarts

    def _restart(self, reason: str) -> None:
        """Start anew; with the lock held."""
        _LOG.info("the stream starts anew: %s", reason)
        self._status = replace(
            self._emptied(self._status),
            restarts=self._status.restarts + 1,
            last_restart=reason,
            trouble="",
        )

    def _is_work_to_do(self) -> bool:
        return self._closed or self._pairs.ready(self._samples) or self._time_has_passed()

    def _work(self) -> None:
        while self._wait_for_work():
            with self._lock:
                restarts, clocks = self._status.restarts, self._clocks
                pair = self._pairs.take() if self._pairs.ready(self._samples) else None
            try:
                if (restarts, clocks) != self._forgotten:
                    self._forget(new_clock=clocks != self._forgotten[1])
                    self._forgotten = (restarts, clocks)
                if pair is None:
                    self._pass_time()
                else:
                    self._take(pair, restarts)
            except BaseException as error:  # a worker that dies would leave everybody waiting
                self._fail(error)
            finally:
                with self._lock:
                    self._working = False
                    self._changed.notify_all()

    def _wait_for_work(self) -> bool:
        """Wait until there is something to do; False when closed."""
        with self._lock:
            while not self._is_work_to_do():
                silent_s = time.monotonic() - self._imu_came_s
                if len(self._pairs) and silent_s >= LONGEST_WAIT_S:
                    self._pairs.give_up()
                    trouble = f"no IMU sample has come for {LONGEST_WAIT_S:g} s; pairs were dropped"
                    self._status = replace(self._status, trouble=trouble)
                    self._changed.notify_all()
                self._work_to_do.wait(LONGEST_WAIT_S - silent_s if len(self._pairs) else None)
            self._working = not self._closed
            return not self._closed

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, Maci2Error):
            reason = str(error)
        else:
            _LOG.warning("the worker of a stream failed and goes on", exc_info=error)
            reason = f"{type(error).__name__}: {error}"
        with self._lock:
            self._restart(reason)

    def _measured(self, samples: ImuSamples, from_ns: int) -> ImuMeasurements:
        """The IMU model's measurements of the samples from a little before a time on."""
        first_ns = max(from_ns - round(BEFORE_S * NS), int(samples.stamps_ns[0]))
        return self._measure(samples.between(first_ns, int(samples.stamps_ns[-1])), self._rig.imu)

    def _predicted_rotation(self, start_ns: int, end_ns: int) -> PredictedRotation | None:
        """The gyroscope's rotation of the rectified camera, on the IMU's clock."""
        with self._lock:
            if not (self._samples.covers(end_ns) and self._samples.first_ns <= start_ns):
                return None
            samples = self._samples.snapshot()
        # The same prediction whenever this runs: samples after the images have no part in it.
        imu = self._measured(samples.between(int(samples.stamps_ns[0]), end_ns), start_ns)
        return GyroRotation(imu, rectified_extrinsics(self._rig))(start_ns, end_ns)


def _require_rig(rig: Rig, config: StreamConfig, name: str) -> None:
    require_type(rig, Rig, "rig", "as in `open_recording(path).rig`")
    require_extrinsics(rig, name)
    if len(rig.cameras) < 2:
        raise CalibrationError(f"{rig.source}: {len(rig.cameras)} cameras, stereo needs two.")
    if needs_datasheet(config.imu):
        require_noise(rig, name)


document_fields(__name__)
