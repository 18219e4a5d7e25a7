"""Timestamps of one stream: which go on, which fill a place, which speak of another clock."""

from bisect import bisect_left, insort
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from maci2.types import NS

Item = TypeVar("Item")

RECENT = 64
"""Timestamps from the end among which a late one may still find its place."""

CLOSEST = 0.4
"""Share of a period to its neighbours at which a late timestamp still fills a place of its own."""

FILLED_IN_A_ROW = 3
"""Late arrivals in a row, in multiples of those that must agree, before they are doubted."""


@dataclass(frozen=True)
class Admitted(Generic[Item]):
    """What a timestamp lets in."""

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
        """Whether a timestamp is missing there: others are not too close.

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
