"""IMU samples as they arrive: put in order, bounded in number, late ones counted."""

from bisect import bisect_left

import numpy as np

from maci2.sensors import ImuSamples
from maci2.types import NS, Array

REORDERED = 64
"""Samples from the end among which a late one may still find its place."""

RESET_AFTER = 50
"""Samples in a row that lie before everything known: then the clock has been set back."""

LARGEST_GAP_S = 0.5
"""A step between samples beyond which the stream is taken to have been interrupted."""


class SampleBuffer:
    """The last seconds of an IMU. Not safe for threads: its owner locks."""

    def __init__(self, keep_s: float) -> None:
        self._keep_ns = round(keep_s * NS)
        self._stamps_ns: list[int] = []
        self._values: list[tuple[float, ...]] = []
        self._backwards = 0
        self.late = 0

    def __len__(self) -> int:
        return len(self._stamps_ns)

    @property
    def first_ns(self) -> int:
        return self._stamps_ns[0]

    @property
    def last_ns(self) -> int:
        return self._stamps_ns[-1]

    def add(self, stamp_ns: int, gyro: Array, acc: Array) -> str:
        """Take a sample; what broke the stream, or an empty text."""
        values = (*(float(v) for v in gyro), *(float(v) for v in acc))
        if not self._stamps_ns or stamp_ns > self.last_ns:
            return self._append(stamp_ns, values)
        at = bisect_left(self._stamps_ns, stamp_ns, lo=max(len(self) - REORDERED, 0))
        known = at < len(self) and self._stamps_ns[at] == stamp_ns
        if known or at <= max(len(self) - REORDERED, 0):
            return self._drop(stamp_ns, values)
        self._stamps_ns.insert(at, stamp_ns)
        self._values.insert(at, values)
        return ""

    def _append(self, stamp_ns: int, values: tuple[float, ...]) -> str:
        broken = ""
        self._backwards = 0
        if self._stamps_ns and stamp_ns - self.last_ns > LARGEST_GAP_S * NS:
            gap_s = (stamp_ns - self.last_ns) / NS
            broken = f"the IMU's timestamps jumped by {gap_s:.2f} s at {stamp_ns} ns"
            self.clear()
        self._stamps_ns.append(stamp_ns)
        self._values.append(values)
        if stamp_ns - self.first_ns > 2 * self._keep_ns:
            self.forget_before(stamp_ns - self._keep_ns)
        return broken

    def _drop(self, stamp_ns: int, values: tuple[float, ...]) -> str:
        self.late += 1
        self._backwards += 1
        if self._backwards < RESET_AFTER:
            return ""
        back_s = (self.last_ns - stamp_ns) / NS
        self.clear()
        self._stamps_ns.append(stamp_ns)
        self._values.append(values)
        return f"the IMU's clock was set back by {back_s:.2f} s at {stamp_ns} ns"

    def forget_before(self, stamp_ns: int) -> None:
        """Drop what is older; in blocks, so that a call stays short."""
        keep = bisect_left(self._stamps_ns, stamp_ns)
        del self._stamps_ns[:keep], self._values[:keep]

    def clear(self) -> None:
        self._stamps_ns.clear()
        self._values.clear()
        self._backwards = 0

    def covers(self, stamp_ns: int) -> bool:
        """There is a sample at or beyond this timestamp."""
        return bool(self._stamps_ns) and self.last_ns >= stamp_ns

    def snapshot(self) -> ImuSamples:
        """A copy that no other thread changes."""
        values = np.array(self._values).reshape(-1, 6)
        stamps_ns = np.array(self._stamps_ns, dtype=np.int64)
        return ImuSamples(stamps_ns, values[:, :3].copy(), values[:, 3:].copy(), "IMU stream")
