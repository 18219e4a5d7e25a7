"""Streams with every fault that drivers have, from four threads, and callbacks that misbehave.

Faults last a few seconds, then the data are good again.
"""

import os
import threading
import time
from dataclasses import dataclass, field

import numpy as np
import pytest

from maci2.errors import DatasetError
from maci2.live import OnlineConfig, OnlineInitializer, OnlineTracker, OnlineTrackerConfig
from maci2.sensors import truth_at
from maci2.types import NS
from online_cases import Simulated, SimulatedTracker, errors_of, resident_mb, simulated

FAULT_S, GOOD_S, SLICE_S = 3.0, 6.0, 0.05
RECOVERED_S = 5.0
FAULTS = (
    "bursts", "duplicates", "imu gap", "camera gap", "both clocks", "camera clock", "imu clock",
    "imu outliers", "camera outliers", "bad frames", "bad values", "camera forward", "restarts",
)  # fmt: skip


@dataclass
class Driver:
    """What one thread hands over in a slice of time: (kind, index, shift of the clock, usable)."""

    events: list[tuple[str, int, int, bool]] = field(default_factory=list)


class Harness:
    """Four drivers in step: they hand over a slice of time together, in any order."""

    def __init__(self, source: Simulated, seed: int):
        self.source = source
        self.rng = np.random.default_rng(seed)
        self.results, self.lock = [], threading.Lock()
        self.gate = threading.Event()
        self.gate.set()
        self.tracker = self.make_tracker()
        self.online = self.make_online()
        self.shift_ns = 0  # of both clocks, for good
        self.left_ns = 0  # of one clock, for a while
        self.calls = 0
        self.late: dict[int, list] = {}
        self.gap = (0.0, 0.0)
        self.buffers = [np.zeros((8, 16), np.uint8) for _ in range(4)]

    def make_tracker(self):
        return SimulatedTracker(self.source, 0.25, 10)

    def make_online(self):
        rig, config = self.source.recording.rig, OnlineConfig(window_s=2.25)
        return OnlineInitializer(rig, config, self.on_result, self.tracker)

    def on_result(self, result):
        """Keeps the result with the frames that it is about, then misbehaves."""
        frames = dict(list(self.tracker.frames))
        with self.lock:
            self.results.append((result, frames))
            self.calls += 1
            calls = self.calls
        self.gate.wait(30.0)
        if calls % 3 == 0:
            raise (SystemExit, KeyboardInterrupt, ValueError)[calls // 3 % 3]("on purpose")
        if calls % 5 == 0:
            assert self.online.wait(0.0) is not None or calls
            self.online.drain(0.0)

    def run_slice(self, start_s: float, fault: str | None, since_s: float) -> None:
        drivers = self._drivers(start_s, fault, since_s)
        threads = [
            threading.Thread(target=self._hand_over, args=(driver, number))
            for number, driver in enumerate(drivers)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60.0)
            assert not thread.is_alive(), "a driver hangs in a call"
        deadline_s = time.monotonic() + 60.0
        while self.online.is_busy:
            assert time.monotonic() < deadline_s, "the worker does not go on"
            time.sleep(0.001)

    def _drivers(self, start_s: float, fault: str | None, since_s: float) -> list[Driver]:
        imu_ns = self.source.recording.imu.stamps_ns
        first_ns = imu_ns[0] + round(start_s * NS)
        drivers = [Driver() for _ in range(4)]
        for kind, stamps_ns, number in (("imu", imu_ns, 0), ("stereo", self.source.frames_ns, 2)):
            low, high = np.searchsorted(stamps_ns, [first_ns, first_ns + round(SLICE_S * NS)])
            for index in range(int(low), int(high)):
                drivers[number + index % 2].events += self._events(kind, index, fault, since_s)
        if fault == "bursts" and since_s < FAULT_S - 0.3:
            late = int(self.rng.integers(4))
            self.late.setdefault(late, []).extend(drivers[late].events)
            drivers[late].events = []
        for number in list(self.late):
            if fault != "bursts" or self.rng.random() < 0.2:
                drivers[number].events = self.late.pop(number) + drivers[number].events
        return drivers

    def _events(self, kind: str, index: int, fault: str | None, since_s: float):
        shift_ns, usable = self.shift_ns, True
        camera = kind == "stereo"
        if fault == "duplicates" and self.rng.random() < 0.3:
            return [(kind, index, shift_ns, True)] * int(self.rng.integers(2, 5))
        if fault == ("camera gap" if camera else "imu gap") and self.gap[0] < since_s < self.gap[1]:
            return []
        if fault == ("camera clock" if camera else "imu clock"):
            shift_ns += self.left_ns
        if fault == "camera forward" and camera:
            shift_ns += 700_000_000
        if fault == ("camera outliers" if camera else "imu outliers") and self.rng.random() < 0.1:
            shift_ns += round(self.rng.choice([-1, 1]) * self.rng.uniform(1.0, 4000.0) * NS)
        if fault == "bad frames" and camera:
            usable = self.rng.random() < 0.3
        if fault == "bad values" and self.rng.random() < 0.3:
            kind = f"bad {kind}"
        return [(kind, index, shift_ns, usable)]

    def _hand_over(self, driver: Driver, number: int) -> None:
        imu = self.source.recording.imu
        for kind, index, shift_ns, usable in driver.events:
            if kind == "imu":
                stamp_ns = int(imu.stamps_ns[index]) + shift_ns
                self.online.add_imu(stamp_ns, imu.gyro[index], imu.acc[index])
            elif kind == "stereo":
                # A driver's own buffer, which it writes into again.
                self.buffers[number][:] = self.source.image(index, usable)
                stamp_ns = int(self.source.frames_ns[index]) + shift_ns
                self.online.add_stereo(stamp_ns, self.buffers[number], self.buffers[number])
                self.buffers[number][:] = 77
            else:
                self._hand_over_nonsense(kind)

    def _hand_over_nonsense(self, kind: str) -> None:
        online, small = self.online, np.zeros((7, 16), np.uint8)
        if kind == "bad imu":
            with pytest.raises(DatasetError):
                online.add_imu(5, np.full(3, np.nan), np.zeros(3))
        else:
            with pytest.raises(DatasetError):
                online.add_stereo(5, small, small)

    def cycle(self, start_s: float, fault: str) -> float:
        """A fault, then good data; seconds from the first good sample to an answer that is right.

        Raises where an answer says `ok` and is wrong.
        """
        rng = self.rng
        self.gap = (0.5, 0.5 + rng.uniform(0.1, 2.3))
        self.late = {}
        magnitude_s = rng.choice([0.3, 1.2, 40.0, 7200.0]) * rng.uniform(0.9, 1.1)
        self.left_ns = round(rng.choice([-1, 1]) * magnitude_s * NS)
        if fault == "both clocks":
            self.shift_ns += self.left_ns
        if rng.random() < 0.3:
            self.gate.clear()
        for k in range(round(FAULT_S / SLICE_S)):
            self.run_slice(start_s + k * SLICE_S, fault, k * SLICE_S)
            if fault == "restarts" and k % 10 == 0:
                self.online.restart()
        self.gate.set()
        good_s = start_s + FAULT_S
        for k in range(round(GOOD_S / SLICE_S)):
            self.run_slice(good_s + k * SLICE_S, None, 0.0)
        return self.judge(good_s)

    def judge(self, good_s: float) -> float:
        """Time of the first right answer after the data were good [s]."""
        self.online.drain(0.5)
        with self.lock:
            results, self.results = self.results, []
        good_ns = int(self.source.recording.imu.stamps_ns[0]) + round(good_s * NS)
        first_s = np.inf
        for result, frames in results:
            if result.verdict.status != "ok":
                continue
            errors = self.errors(result, frames)
            assert errors.right, (errors, result.verdict.reasons, str(self.online.status))
            end_s = (
                int(self.source.frames_ns[frames[int(result.state.stamps_ns[-1])]]) - good_ns
            ) / NS
            if end_s > 0.0:
                first_s = min(first_s, end_s)
        return first_s

    def errors(self, result, frames):
        """Errors at the keyframes, or at the times that the IMU's clock gives their timestamps.

        They differ in a window across a small jump of the camera's clock, whose relative poses
        before it are rejected.
        """
        source, stamps_ns = self.source, result.state.stamps_ns
        shown_ns = [source.frames_ns[[frames[int(stamp)] for stamp in stamps_ns]]]
        shown_ns += [stamps_ns - shift for shift in (self.shift_ns, self.shift_ns + self.left_ns)]
        found = []
        for times_ns in shown_ns:
            if source.frames_ns[0] <= times_ns[0] and times_ns[-1] <= source.frames_ns[-1]:
                truth = truth_at(source.recording.truth(), times_ns, 0.1)
                found.append(errors_of(result, truth, self.tracker.T_b_c))
        return min(found, key=lambda errors: errors.gravity_deg + errors.velocity)


class TrackingHarness(Harness):
    """The same streams for `OnlineTracker`: no state that says `tracking` may be far off."""

    GRAVITY_DEG, VELOCITY = 2.0, 0.2
    """Errors of a state that are wrong if it is `tracking`."""

    def make_tracker(self):
        return SimulatedTracker(self.source, 0.2, 16)

    def make_online(self):
        config = OnlineTrackerConfig(imu="datasheet", waiting_results=1000)
        return OnlineTracker(self.source.recording.rig, config, self.on_result, self.tracker)

    def cycle(self, start_s: float, fault: str) -> float:
        self.before_ns = self.shift_ns
        return super().cycle(start_s, fault)

    def judge(self, good_s: float) -> float:
        """Time of the first state that is `tracking` after the data were good [s]."""
        self.online.drain(0.5)
        with self.lock:
            states, self.results = [state for state, _ in self.results], []
        good_ns = int(self.source.recording.imu.stamps_ns[0]) + round(good_s * NS)
        first_s = np.inf
        for state in states:
            if state.health != "tracking":
                continue
            gravity_deg, velocity = self.errors(state)
            found = (gravity_deg, velocity, (state.stamp_ns - self.shift_ns - good_ns) / NS)
            assert gravity_deg < self.GRAVITY_DEG, (found, str(self.online.status))
            assert velocity < self.VELOCITY, (found, str(self.online.status))
            if found[2] > 0.0:
                first_s = min(first_s, found[2])
        return first_s

    def errors(self, state) -> tuple[float, float]:
        """Of gravity [deg] and velocity [m/s] in the body, at the time that the clocks show."""
        shifts_ns = {self.shift_ns, self.before_ns}
        shifts_ns |= {shift_ns + self.left_ns for shift_ns in shifts_ns}
        found = []
        for stamp_ns in (state.stamp_ns - shift_ns for shift_ns in shifts_ns):
            if self.source.frames_ns[0] <= stamp_ns <= self.source.frames_ns[-1]:
                truth = truth_at(self.source.recording.truth(), np.array([stamp_ns]), 0.1)
                R_w_b, v_w = truth.Ts_w_b[0, :3, :3], truth.v_w[0]
                up = float(np.clip(state.T_w_b[2, :3] @ R_w_b[2], -1.0, 1.0))
                away = state.T_w_b[:3, :3].T @ state.v_w - R_w_b.T @ v_w
                found.append((float(np.rad2deg(np.arccos(up))), float(np.linalg.norm(away))))
        return min(found, default=(0.0, 0.0), key=sum)


def resources() -> tuple[float, int, int]:
    """Memory [MB], open files, threads."""
    return resident_mb(), len(os.listdir("/proc/self/fd")), threading.active_count()


def run(
    faults: list[str], seed: int, kind: type[Harness] = Harness
) -> list[tuple[float, int, int]]:
    """Run one cycle for each fault; resources after each."""
    length_s = FAULT_S + GOOD_S
    harness = kind(simulated(length_s * len(faults) + 4.0, seed), seed)
    used = []
    with harness.online:
        for number, fault in enumerate(faults):
            recovered_s = harness.cycle(1.0 + number * length_s, fault)
            assert recovered_s <= RECOVERED_S, (number, fault, str(harness.online.status))
            used.append(resources())
    assert not harness.online._worker.is_alive()
    return used
