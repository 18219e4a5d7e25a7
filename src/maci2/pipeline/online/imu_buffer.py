"""IMU samples as they arrive: put in order, bounded in number, wrong timestamps held apart."""

from bisect import bisect_left

import numpy as np

from maci2.pipeline.online.time_line import RECENT, TimeLine
from maci2.sensors import ImuSamples
from maci2.sensors.validation import GAP_PERIODS
from maci2.types import NS, Array

AGREEING = 10
"""Samples in a row that must agree on another time before it is believed."""

LARGEST_GAP_S = 0.5
"""A step between samples beyond which the stream is taken to have been interrupted."""

Values = tuple[float, ...]


class SampleBuffer:
    """The last seconds of an IMU. Not safe for threads: its owner locks."""

    def __init__(self, keep_s: float) -> None:
        self._keep_ns = round(keep_s * NS)
        self._line: TimeLine[Values] = TimeLine(LARGEST_GAP_S, AGREEING)
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
        if admitted.jump_s > 0.0:
            what = f"the IMU's timestamps jumped by {admitted.jump_s:.2f} s"
        else:
            what = f"the IMU's clock was set back by {-admitted.jump_s:.2f} s"
        return f"{what} at {self.first_ns} ns"

    def _known(self, stamp_ns: int, values: Values) -> bool:
        """Whether the very same sample is there already."""
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
