"""Stereo pairs that wait for the IMU: put in order, bounded in number, wrong timestamps apart."""

import math
from bisect import insort

from maci2.pipeline.online.imu_buffer import SampleBuffer
from maci2.pipeline.online.time_line import TimeLine
from maci2.sensors.stereo import StereoPair
from maci2.types import NS

AGREEING = 5
"""Pairs in a row that must go back in time before the camera's clock is taken to have jumped."""

FAR_AHEAD_S = 2.0
"""A pair stamped later than the newest IMU sample by more than this waits apart until the IMU's
timestamps agree, or until those of other pairs show that it was wrong."""

JUMP_S = 0.15
"""A step between pairs that is longer by this than the IMU's timestamps went on meanwhile is a jump
of the camera's clock [s]; where images are merely missing, both went on alike."""

LONGER = 3.0
"""How many times as long as the step before it such a step must be: pairs of a recording may be
handed over while no sample comes."""

SETTLE_NS = 25_000_000
"""How much newer than a pair the IMU samples must be: until then some of those before it may still
be on their way."""


class PairQueue:
    """Pairs that the IMU's timestamps bear out. Not safe for threads: its owner locks."""

    def __init__(self, size: int) -> None:
        self._size = size
        # Images may be missing for any time; what is ahead is judged by the IMU.
        self._line: TimeLine[StereoPair] = TimeLine(math.inf, AGREEING)
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
        """How the latest pair's timestamp contradicts the IMU's; empty where it does not."""

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
        return (
            excess_s if before_ns and step_ns > LONGER * before_ns and excess_s > JUMP_S else None
        )

    def ready(self, samples: SampleBuffer) -> bool:
        """Whether the oldest pair is covered by samples."""
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
