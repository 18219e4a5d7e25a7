"""Bounded buffers between threads: IMU samples, stereo pairs in order, results for a callback."""

import logging
import math
import threading
import time
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from maci2.sensors import ImuSamples
from maci2.sensors.stereo import StereoPair
from maci2.sensors.validation import GAP_PERIODS
from maci2.types import NS, Array

Item = TypeVar("Item")

RECENT = 64
"""Timestamps from the end among which a late one may still find its place."""

CLOSEST = 0.4
"""Share of a period to its neighbours at which a late timestamp still fills a place of its own."""

FILLED_IN_A_ROW = 3
"""Late arrivals in a row, in multiples of those that must agree, before they are doubted."""


@dataclass(frozen=True)
class Admitted(Generic[Item]):
    """Decision about a timestamp."""

    items: list[tuple[int, Item]]
    """Timestamps [ns] with what they belong to, in the order of time; none while others are awaited
    that agree."""

    jump_s: float | None = None
    """By how much the clock jumped, where these items show that it did: everything before them was
    on another clock."""


class TimeLine(Generic[Item]):
    """Judges timestamps in the order of arrival; one that is far off is held until others agree.

    Not safe for threads: its owner locks.
    """

    def __init__(self, largest_gap_s: float, agreeing: int) -> None:
        self._largest_gap_ns = largest_gap_s * NS
        self._agreeing = agreeing
        self._recent_ns: list[int] = []
        self._held: list[tuple[int, Item]] = []
        self._filled_in_a_row = 0
        self._late = 0
        self._outlying = 0

    @property
    def late(self) -> int:
        """Timestamps that came twice or too late; those held behind the newest among them."""
        return self._late + sum(not self._is_ahead(stamp_ns) for stamp_ns, _ in self._held)

    @property
    def outlying(self) -> int:
        """Timestamps far ahead with which no other has agreed."""
        return self._outlying + sum(self._is_ahead(stamp_ns) for stamp_ns, _ in self._held)

    def _is_ahead(self, stamp_ns: int) -> bool:
        return not self._recent_ns or stamp_ns > self._recent_ns[-1]

    def add(self, stamp_ns: int, item: Item) -> Admitted[Item]:
        """Judge the next arrival."""
        step_ns = stamp_ns - self._recent_ns[-1] if self._recent_ns else 1
        if 0 < step_ns <= self._largest_gap_ns:
            self._give_up_held()
            self._filled_in_a_row = 0
            self._recent_ns.append(stamp_ns)
            del self._recent_ns[:-RECENT]
            return Admitted([(stamp_ns, item)])
        if (
            step_ns <= 0
            and self._filled_in_a_row < FILLED_IN_A_ROW * self._agreeing
            and self._fills_a_place(stamp_ns)
        ):
            self._filled_in_a_row += 1
            insort(self._recent_ns, stamp_ns)
            return Admitted([(stamp_ns, item)])
        return self._hold(stamp_ns, item)

    def clear(self) -> None:
        """Begin a new time line."""
        self._give_up_held()
        self._recent_ns.clear()

    def _fills_a_place(self, stamp_ns: int) -> bool:
        """True if a timestamp is missing there: others are not too close.

        After a clock was set back by a little, timestamps fall between those that are known.
        """
        index = bisect_left(self._recent_ns, stamp_ns)
        if index == 0:
            return False
        before_ns, after_ns = self._recent_ns[index - 1 : index + 1]
        closest_ns = min(stamp_ns - before_ns, after_ns - stamp_ns)
        # The common period, even while one in two is still on its way.
        period_ns = float(np.quantile(np.diff(self._recent_ns), 0.1))
        return closest_ns > 0 and closest_ns >= CLOSEST * period_ns

    def _hold(self, stamp_ns: int, item: Item) -> Admitted[Item]:
        if self._held and abs(stamp_ns - self._held[-1][0]) > self._largest_gap_ns:
            self._give_up_held()
        if any(stamp_ns == held_ns for held_ns, _ in self._held):
            self._late += 1
            return Admitted([])
        insort(self._held, (stamp_ns, item), key=lambda held: held[0])
        if len(self._held) < self._agreeing:
            return Admitted([])
        held, self._held = self._held, []
        self._filled_in_a_row = 0
        jump_s = (held[0][0] - self._recent_ns[-1]) / NS
        self._recent_ns = [held_ns for held_ns, _ in held]
        return Admitted(held, jump_s)

    def _give_up_held(self) -> None:
        """The stream went on: what was held belongs nowhere."""
        self._late, self._outlying = self.late, self.outlying
        self._held.clear()


AGREEING_SAMPLES = 10
"""Samples in a row that must agree on another time before it is believed."""

LARGEST_GAP_S = 0.5
"""A step between samples beyond which the stream is taken to have been interrupted."""

Values = tuple[float, ...]


class SampleBuffer:
    """The last seconds of an IMU. Not safe for threads: its owner locks."""

    def __init__(self, keep_s: float) -> None:
        self._keep_ns = round(keep_s * NS)
        self._line: TimeLine[Values] = TimeLine(LARGEST_GAP_S, AGREEING_SAMPLES)
        self._stamps_ns: list[int] = []
        self._values: list[Values] = []
        self._repeated = 0
        self._taken = 0
        self._before_ns = 0

    def __len__(self) -> int:
        return len(self._stamps_ns)

    @property
    def first_ns(self) -> int:
        return self._stamps_ns[0]

    @property
    def last_ns(self) -> int:
        return self._stamps_ns[-1]

    @property
    def late(self) -> int:
        """Samples that came twice or too late to be used."""
        return self._line.late + self._repeated

    @property
    def outlying(self) -> int:
        """Samples whose timestamp was far ahead and no other's agreed."""
        return self._line.outlying

    @property
    def rate_hz(self) -> float | None:
        """Samples over time since the clock last jumped; None before there are two."""
        span_ns = self.last_ns - self._before_ns if self._stamps_ns else 0
        return (self._taken - 1) * NS / span_ns if span_ns > 0 else None

    def add(self, stamp_ns: int, gyro: Array, acc: Array) -> str:
        """Take a sample; what broke the stream, or an empty text."""
        values = (*(float(v) for v in gyro), *(float(v) for v in acc))
        if self._known(stamp_ns, values):
            self._repeated += 1
            return ""
        admitted = self._line.add(stamp_ns, values)
        if admitted.jump_s is not None:
            self._stamps_ns.clear()
            self._values.clear()
            self._taken = 0
        for item_ns, item in admitted.items:
            self._insert(item_ns, item)
        if not admitted.jump_s:
            return ""
        how = "timestamps jumped" if admitted.jump_s > 0.0 else "clock was set back"
        return f"the IMU's {how} by {abs(admitted.jump_s):.2f} s at {self.first_ns} ns"

    def _known(self, stamp_ns: int, values: Values) -> bool:
        """True if this sample is there already."""
        if not self._stamps_ns or stamp_ns > self.last_ns:
            return False
        index = bisect_left(self._stamps_ns, stamp_ns)
        return self._stamps_ns[index] == stamp_ns and self._values[index] == values

    def _insert(self, stamp_ns: int, values: Values) -> None:
        if self._taken == 0:
            self._before_ns = stamp_ns
        self._taken += 1
        index = len(self)
        if self._stamps_ns and stamp_ns < self.last_ns:
            index = bisect_left(self._stamps_ns, stamp_ns)
        self._stamps_ns.insert(index, stamp_ns)
        self._values.insert(index, values)
        if self.last_ns - self.first_ns > 2 * self._keep_ns:
            self.forget_before(self.last_ns - self._keep_ns)

    def forget_before(self, stamp_ns: int) -> None:
        """Drop what is older; in blocks, so that a call stays short."""
        keep = bisect_left(self._stamps_ns, stamp_ns)
        del self._stamps_ns[:keep], self._values[:keep]

    def covers(self, stamp_ns: int) -> bool:
        """There is a sample at or beyond this timestamp."""
        return bool(self._stamps_ns) and self.last_ns >= stamp_ns

    def gap_ns(self, start_ns: int, end_ns: int) -> tuple[int, int] | None:
        """First and last timestamp of the latest gap that touches [start_ns, end_ns] and is too
        long to be integrated across; None where there is none."""
        first = max(bisect_left(self._stamps_ns, start_ns) - 1, 0)
        last = bisect_left(self._stamps_ns, end_ns) + 1
        steps_ns = np.diff(self._stamps_ns[first:last])
        period_ns = np.median(np.diff(self._stamps_ns[-RECENT:])) if len(self) > 1 else 0.0
        gaps = np.flatnonzero(steps_ns > GAP_PERIODS * period_ns)
        if len(gaps) == 0:
            return None
        before = first + int(gaps[-1])
        return self._stamps_ns[before], self._stamps_ns[before + 1]

    def snapshot(self) -> ImuSamples:
        """A copy that no other thread changes."""
        values = np.array(self._values).reshape(-1, 6)
        stamps_ns = np.array(self._stamps_ns, dtype=np.int64)
        return ImuSamples(stamps_ns, values[:, :3].copy(), values[:, 3:].copy(), "IMU stream")


AGREEING_PAIRS = 5
"""Pairs in a row that must go back in time before the camera's clock is taken to have jumped."""

FAR_AHEAD_S = 2.0
"""A pair stamped later than the newest IMU sample by more than this waits apart until the IMU's
timestamps agree, or until those of other pairs show that it was wrong."""

JUMP_S = 0.15
"""A step between pairs that is longer by this than the IMU's timestamps went on meanwhile is a jump
of the camera's clock [s]; where images are merely missing, both went on alike."""

LONGER = 3.0
"""Ratio of such a step to the step before it: pairs of a recording may be
handed over while no sample comes."""

SETTLE_NS = 25_000_000
"""Lead of the IMU samples over a pair before it is used: until then samples before it may still be
on their way."""


class PairQueue:
    """Pairs that the IMU's timestamps bear out. Not safe for threads: its owner locks."""

    def __init__(self, size: int) -> None:
        self._size = size
        # Images may be missing for any time; what is ahead is judged by the IMU.
        self._line: TimeLine[StereoPair] = TimeLine(math.inf, AGREEING_PAIRS)
        self._waiting: list[tuple[int, StereoPair]] = []
        self._ahead: list[StereoPair] = []
        self._last_taken_ns: int | None = None
        self._arrived_ns: tuple[int, int] | None = None
        """Timestamp of the latest pair, and the IMU's newest one when it came."""
        self._step_ns = 0
        self._late = 0
        self._outlying = 0
        self.dropped = 0
        self.off_clock = ""
        """Contradiction of the latest pair's timestamp with the IMU's; empty if there is none."""

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        """Another pair now would mean that one has to be dropped."""
        return len(self._waiting) >= self._size

    @property
    def late(self) -> int:
        """Pairs that came twice, after newer ones, or from before the IMU's samples."""
        return self._line.late + self._late

    @property
    def outlying(self) -> int:
        """Pairs stamped far ahead of the IMU."""
        return self._line.outlying + self._outlying + len(self._ahead)

    def add(self, pair: StereoPair, samples: SampleBuffer) -> str:
        """Take a pair; what broke the stream, or an empty text."""
        if not len(samples) or pair.stamp_ns > samples.last_ns + FAR_AHEAD_S * NS:
            self._ahead.append(pair)
            self._outlying += max(len(self._ahead) - self._size, 0)
            del self._ahead[: -self._size]
            if len(samples):
                ahead_s = (pair.stamp_ns - samples.last_ns) / NS
                self.off_clock = f"stereo pairs are {ahead_s:.2f} s ahead of the IMU's samples"
            else:
                self.off_clock = "no IMU sample has come yet"
            return ""
        self._outlying += len(self._ahead)
        self._ahead.clear()
        return self._admit(pair, samples)

    def samples_came(self, samples: SampleBuffer, jumped: bool) -> str:
        """Pairs that waited for the IMU may be let in; after a jump of its clock those that waited
        before are of another time. What broke the stream, or an empty text."""
        if jumped:
            limit_ns = samples.last_ns + FAR_AHEAD_S * NS
            kept = [w for w in self._waiting if samples.first_ns <= w[0] <= limit_ns]
            self._late += len(self._waiting) - len(kept)
            self._waiting = kept
            self._line.clear()
            self._last_taken_ns = None
            self._arrived_ns = None
        broken = ""
        while self._ahead and self._ahead[0].stamp_ns <= samples.last_ns + FAR_AHEAD_S * NS:
            broken = self._admit(self._ahead.pop(0), samples) or broken
        return broken

    def _admit(self, pair: StereoPair, samples: SampleBuffer) -> str:
        if pair.stamp_ns < samples.first_ns:
            self._late += 1
            before_s = (samples.first_ns - pair.stamp_ns) / NS
            self.off_clock = f"stereo pairs are {before_s:.2f} s before the IMU's samples"
            return ""
        self.off_clock = ""
        forward_s = self._forward_jump_s(pair.stamp_ns, samples.last_ns)
        admitted = self._line.add(pair.stamp_ns, pair)
        jump_s = forward_s if admitted.jump_s is None else admitted.jump_s
        if jump_s is not None:
            self.dropped += len(self._waiting)
            self._waiting.clear()
            self._last_taken_ns = None
        for stamp_ns, item in admitted.items:
            if self._last_taken_ns is not None and stamp_ns <= self._last_taken_ns:
                self._late += 1
                continue
            insort(self._waiting, (stamp_ns, item), key=lambda waiting: waiting[0])
        self.dropped += max(len(self._waiting) - self._size, 0)
        del self._waiting[: -self._size]
        if jump_s is None:
            return ""
        how = "was set back" if jump_s < 0.0 else "jumped"
        return f"the camera's clock {how} by {abs(jump_s):.2f} s at {pair.stamp_ns} ns"

    def _forward_jump_s(self, stamp_ns: int, imu_ns: int) -> float | None:
        """Time by which the camera's clock ran ahead of the IMU's since the latest pair [s]; None
        where that is no jump."""
        before, self._arrived_ns = self._arrived_ns, (stamp_ns, imu_ns)
        if before is None:
            return None
        step_ns, before_ns = stamp_ns - before[0], self._step_ns
        if step_ns <= 0:
            return None
        self._step_ns = step_ns
        excess_s = (step_ns - (imu_ns - before[1])) / NS
        is_jump = before_ns and step_ns > LONGER * before_ns and excess_s > JUMP_S
        return excess_s if is_jump else None

    def ready(self, samples: SampleBuffer) -> bool:
        """True if the oldest pair is covered by samples."""
        return bool(self._waiting) and samples.covers(self._waiting[0][0] + SETTLE_NS)

    def take(self) -> StereoPair:
        """The oldest pair; later ones that are older will be late."""
        self._last_taken_ns, pair = self._waiting.pop(0)
        return pair

    def give_up(self) -> None:
        """Drop what waits: no IMU sample comes any more."""
        self.dropped += len(self._waiting)
        self._waiting.clear()

    def passed(self, stamp_ns: int) -> None:
        """Pairs up to this timestamp come too late from now on."""
        self._last_taken_ns = max(stamp_ns, self._last_taken_ns or stamp_ns)


_LOG = logging.getLogger(__name__)

Result = TypeVar("Result")


class CallbackThread(Generic[Result]):
    """Calls a function with each result; a slow one gets the newest, and what it missed is counted.

    The function may raise anything, block, or call whatever it likes: nobody waits for it.
    """

    def __init__(self, function: Callable[[Result], object], size: int, name: str) -> None:
        self._function = function
        self._changed = threading.Condition()
        self._waiting: deque[Result] = deque(maxlen=size)
        self._running = False
        self._closed = False
        self.dropped = 0  # results that the function did not get because it was busy
        self.error = ""  # that the function raised last; empty after a call without one
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def is_current(self) -> bool:
        """True if called from inside the function."""
        return threading.current_thread() is self._thread

    def put(self, result: Result) -> None:
        """Hand over a result; never waits."""
        with self._changed:
            if self._closed:
                return
            self.dropped += len(self._waiting) == self._waiting.maxlen
            self._waiting.append(result)
            self._changed.notify_all()

    def drain(self, deadline_s: float) -> bool:
        """Wait until every result has been passed on, up to a time of `time.monotonic`."""
        if self.is_current:
            return True
        with self._changed:
            return self._changed.wait_for(
                lambda: self._closed or not (self._waiting or self._running),
                max(deadline_s - time.monotonic(), 0.0),
            )

    def close(self, wait_s: float) -> None:
        """Drop what waits; a call that runs is waited for, but no longer than `wait_s`."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()
        if not self.is_current:
            self._thread.join(wait_s)
            if self._thread.is_alive():
                _LOG.warning("a callback still runs %g s after closing; it is left alone", wait_s)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._waiting)
                if self._closed:
                    return
                result = self._waiting.popleft()
                self._running = True
            error = self._call(result)
            with self._changed:
                self._running, self.error = False, error
                self._changed.notify_all()

    def _call(self, result: Result) -> str:
        try:
            self._function(result)
        except BaseException as error:  # SystemExit in a callback must not end the stream
            text = f"the callback raised {type(error).__name__}: {error}"
            if text != self.error:
                _LOG.warning("%s; the stream goes on", text, exc_info=True)
            return text
        return ""
