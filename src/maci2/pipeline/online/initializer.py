"""Gravity, velocities and biases while the sensors run."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from queue import Empty, Full, PriorityQueue

import numpy as np

from maci2.boundary import as_array, as_image, as_stamp, require_type
from maci2.errors import CalibrationError, DatasetError, Maci2Error, OptionError
from maci2.estimation import InitResult, initialize
from maci2.estimation.initial_guess import chain
from maci2.estimation.verdict import rotation_about_axes_deg
from maci2.imu.model_choice import find_imu_model, needs_datasheet
from maci2.lie import se3_inv
from maci2.pipeline.gyro_rotation import predicted_rotation
from maci2.pipeline.online.imu_buffer import SampleBuffer
from maci2.pipeline.online.keyframes import Tracker
from maci2.pipeline.online.rehearsal import tracked_noise
from maci2.pipeline.online.status import OnlineConfig, OnlineStatus
from maci2.pipeline.online.zero_motion import at_rest, is_still
from maci2.rigs import require_extrinsics, require_noise
from maci2.sensors import ImuSamples, Rig
from maci2.sensors.imu_intrinsics import corrected_readings
from maci2.sensors.stereo import Image, StereoPair
from maci2.types import NS, Array
from maci2.vision import RelativePoses
from maci2.vision.predicted_rotation import PredictedRotation

_LOG = logging.getLogger(__name__)

BEFORE_S = 1.0
"""Samples kept before a window: what vibration and a learned model look back at."""

SETTLE_NS = 25_000_000
"""How much newer than a window the samples must be: until then some of it may still be on its
way."""

LONGEST_WAIT_S = 1.0
"""Longest wait for samples when a window's images are complete [s]."""


class OnlineInitializer:
    """Initialization while the sensors run, in a thread of its own.

    Every keyframe that completes a window gives a result; `result` is the latest, `on_result` is
    called with each. Memory is bounded by the window, the time of a call by a lock held briefly.
    Use it in a `with` statement, or call `close()`.

    Args:
        rig: calibration of two cameras and the IMU.
        config: window, keyframes and IMU model.
        on_result: function that is called with each result, in the worker's thread.
        tracker: turns stereo pairs into relative poses; images are looked at by default.

    Raises:
        CalibrationError: the rig has no two cameras, or its extrinsics are not known.
        OptionError: there is no such IMU model.
    """

    def __init__(
        self,
        rig: Rig,
        config: OnlineConfig | None = None,
        on_result: Callable[[InitResult], None] = lambda _: None,
        tracker: Tracker | None = None,
    ) -> None:
        require_type(rig, Rig, "rig", "as in `open_recording(path).rig`")
        require_extrinsics(rig, "initialization")
        if len(rig.cameras) < 2:
            raise CalibrationError(f"{rig.source}: {len(rig.cameras)} cameras, stereo needs two.")
        self.config = config or OnlineConfig()
        require_type(self.config, OnlineConfig, "config", "OnlineConfig()")
        if not callable(on_result):
            raise OptionError(f"on_result is {on_result!r}, needed a function of one result.")
        self._rig = rig
        self._shift_ns = round(rig.time_offset_s * NS)
        if needs_datasheet(self.config.imu):
            require_noise(rig, "initialization")
        self._measure = find_imu_model(self.config.imu)
        self._on_result = on_result
        self._lock = threading.Condition()
        self._samples = SampleBuffer(2.0 * self.config.window_s + BEFORE_S)
        self._closed = False
        self._tracker = tracker or tracked_noise(
            rig, self.config.window_s, self.config.keyframes, self._predicted_rotation
        )
        self._queue: PriorityQueue[tuple[int, int, StereoPair | None]] = PriorityQueue(
            self.config.waiting_pairs
        )
        self._arrivals = 0
        self._result: InitResult | None = None
        self._status = OnlineStatus(
            0.0, self.config.window_s, (0.0, 0.0, 0.0), False, 0, 0, 0, 0, ""
        )
        self._last_pair_ns = -1
        self._worker = threading.Thread(target=self._work, name="maci2-online", daemon=True)
        self._worker.start()

    def add_imu(self, stamp_ns: int, gyro: Array, acc: Array) -> None:
        """Take one IMU sample; samples may come from another thread than images.

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
            broken = self._samples.add(stamp_ns, gyro, acc)
            if broken:
                self._restart(f"{broken}: started anew")
            self._lock.notify_all()

    def add_stereo(self, stamp_ns: int, left: Image, right: Image) -> None:
        """Take one stereo pair; it waits until the worker has time for it.

        Args:
            stamp_ns: its timestamp on the camera's clock, an integer of nanoseconds; it is put onto
                the IMU's clock by the time offset that the rig states.
            left, right: grey images, uint8 of the shape (height, width), as large as the
                calibration says.

        Raises:
            DatasetError: an argument has the wrong type or size.
        """
        stamp_ns = as_stamp(stamp_ns, "stamp_ns of the stereo pair", DatasetError)
        left, right = (
            as_image(image, camera.resolution, f"the {name} image at {stamp_ns} ns", DatasetError)
            for name, image, camera in zip(
                ("left", "right"), (left, right), self._rig.cameras, strict=False
            )
        )
        self._arrivals += 1
        on_imu_clock_ns = stamp_ns + self._shift_ns
        entry = (on_imu_clock_ns, self._arrivals, StereoPair(on_imu_clock_ns, left, right))
        while True:
            try:
                self._queue.put_nowait(entry)
                return
            except Full:
                self._drop_oldest()

    @property
    def result(self) -> InitResult | None:
        """The latest; None before the first window is whole."""
        with self._lock:
            return self._result

    @property
    def status(self) -> OnlineStatus:
        """What is there and what is missing; `str` of it is a sentence."""
        with self._lock:
            return replace(self._status, late_imu=self._samples.late)

    @property
    def is_busy(self) -> bool:
        """Another pair now would mean that one has to be dropped."""
        return self._queue.full()

    def drain(self, timeout_s: float) -> bool:
        """Wait until every pair handed over has been worked on; whether it was in time."""
        deadline = time.monotonic() + timeout_s
        while self._queue.unfinished_tasks and time.monotonic() < deadline:
            time.sleep(0.005)
        return not self._queue.unfinished_tasks

    def wait(self, timeout_s: float) -> InitResult | None:
        """The result, or None if there is none in time."""
        with self._lock:
            self._lock.wait_for(lambda: self._result is not None or self._closed, timeout_s)
            return self._result

    def restart(self) -> None:
        """Forget the window and the result, in flight; samples go on."""
        with self._lock:
            self._restart("")
            self._result = None

    def close(self) -> None:
        """Stop the worker; what waits is dropped."""
        with self._lock:
            self._closed = True
            self._lock.notify_all()
        while self._worker.is_alive():
            try:
                self._queue.put_nowait((-1, 0, None))
            except Full:
                self._drop_oldest()
            self._worker.join(0.05)

    def __enter__(self) -> "OnlineInitializer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _restart(self, trouble: str) -> None:
        self._tracker.clear()
        self._last_pair_ns = -1
        self._status = replace(
            self._status,
            collected_s=0.0,
            turned_deg=(0.0, 0.0, 0.0),
            standing_still=False,
            restarts=self._status.restarts + 1,
            trouble=trouble,
        )

    def _drop_oldest(self) -> None:
        try:
            self._queue.get_nowait()
        except Empty:
            return
        self._queue.task_done()
        with self._lock:
            self._status = replace(self._status, dropped_pairs=self._status.dropped_pairs + 1)

    def _work(self) -> None:
        while True:
            _, _, pair = self._queue.get()
            if self._closed or pair is None:
                return
            try:
                self._take(pair)
            except Maci2Error as error:
                with self._lock:
                    self._restart(str(error))
            except Exception as error:
                # A worker that dies would leave everybody waiting, and nobody would be told.
                _LOG.exception("the online initializer starts anew")
                with self._lock:
                    self._restart(f"{type(error).__name__}: {error}: started anew")
            finally:
                self._queue.task_done()

    def _take(self, pair: StereoPair) -> None:
        with self._lock:
            started = self._status.restarts
            if pair.stamp_ns <= self._last_pair_ns:
                late = self._status.late_pairs + 1
                self._status = replace(self._status, late_pairs=late)
                return
            if not len(self._samples) or pair.stamp_ns < self._samples.first_ns:
                return  # before the first sample nothing can be integrated
            self._last_pair_ns = pair.stamp_ns
        # Images are worked on without the lock: samples must not wait for them.
        if not self._tracker.add(pair):
            return
        with self._lock:
            if self._status.restarts != started:
                self._tracker.clear()
                return
            self._tell()
            vision = self._tracker.window()
            if vision is None:
                return
            needed_ns = int(vision.stamps_ns[-1]) + SETTLE_NS
            self._lock.wait_for(
                lambda: self._samples.covers(needed_ns) or self._closed, timeout=LONGEST_WAIT_S
            )
            if not self._samples.covers(needed_ns):
                waited = f"no IMU sample has come for {LONGEST_WAIT_S:g} s after a window's end"
                self._status = replace(self._status, trouble=waited)
                return
            samples = self._samples.snapshot()
            self._samples.forget_before(int(vision.stamps_ns[0]) - round(2.0 * BEFORE_S * NS))
        self._finish(samples, vision, started)

    def _predicted_rotation(self, start_ns: int, end_ns: int) -> PredictedRotation | None:
        """The gyroscope's rotation of the rectified camera, on the IMU's clock."""
        with self._lock:
            if not len(self._samples):
                return None
            self._lock.wait_for(
                lambda: self._samples.covers(end_ns) or self._closed, timeout=LONGEST_WAIT_S
            )
            samples = self._samples.snapshot()
        return predicted_rotation(samples, self._rig, start_ns, end_ns)

    def _finish(self, samples: ImuSamples, vision: RelativePoses, started: int) -> None:
        first_ns, last_ns = int(vision.stamps_ns[0]), int(vision.stamps_ns[-1])
        if first_ns < samples.stamps_ns[0]:
            return
        # The same samples whenever this runs: from a little before the window to its end.
        before_ns = max(first_ns - round(BEFORE_S * NS), int(samples.stamps_ns[0]))
        imu = self._measure(samples.between(before_ns, last_ns), self._rig.imu).between(
            first_ns, last_ns
        )
        if is_still(vision) and not self._tracker.reasons():
            vision = at_rest(vision)
        result = initialize(imu, vision, self._tracker.T_b_c)
        with self._lock:
            if self._status.restarts != started:
                return
            self._result = result
            self._lock.notify_all()
        try:
            self._on_result(result)
        except Exception as error:
            _LOG.exception("on_result failed; the online initializer goes on")
            with self._lock:
                trouble = f"on_result raised {type(error).__name__}: {error}"
                self._status = replace(self._status, trouble=trouble)

    def _tell(self) -> None:
        """Bring the status up to date."""
        first_ns, last_ns = self._tracker.first_ns, self._tracker.last_ns
        motion = self._tracker.so_far()
        if first_ns is None or last_ns is None or motion is None:
            return
        Ts_c0_c = chain(np.ascontiguousarray(motion.Ts_ck_ck1))
        T_b_c = self._tracker.T_b_c
        Ts_c0_b = Ts_c0_c @ se3_inv(np.ascontiguousarray(T_b_c))
        turned = rotation_about_axes_deg(np.ascontiguousarray(Ts_c0_b))
        reasons = self._tracker.reasons()
        self._status = replace(
            self._status,
            collected_s=(last_ns - first_ns) / NS,
            turned_deg=(float(turned[0]), float(turned[1]), float(turned[2])),
            standing_still=is_still(motion) and not reasons,
            trouble=reasons[-1] if reasons else "",
        )
