"""Timestamps and values of one topic, collected at 8 bytes per number."""

from array import array
from dataclasses import dataclass

import numpy as np

from maci2.datasets.bag.reader import Message, header_stamp_ns
from maci2.datasets.csv_tables import MAX_ABSOLUTE, require_short_enough
from maci2.errors import DatasetError
from maci2.types import NS, Array, Stamps

CLOCK_JUMP_S = 60.0
"""Largest difference between header and receive time intervals; buffering explains less."""


@dataclass(frozen=True)
class Series:
    """Values of one topic, checked: timestamps increase strictly, numbers are finite."""

    stamps_ns: Stamps
    """(n,) header timestamps [ns]."""

    received_ns: Stamps
    """(n,) receive times [ns]."""

    values: Array
    """(n, k) values."""

    repeated: int
    """Number of messages rejected because they repeat the timestamp before."""


class SeriesBuilder:
    """Collector of the messages of one topic, each with `width` numbers."""

    def __init__(self, source: str, width: int = 0) -> None:
        self.source = source
        self._width = width
        self._stamps = array("q")
        self._received = array("q")
        self._values = array("d")

    def __len__(self) -> int:
        return len(self._stamps)

    def add(self, message: Message, *numbers: float) -> None:
        """Keep a message's header timestamp and its numbers."""
        assert len(numbers) == self._width
        self._stamps.append(header_stamp_ns(message.content))
        self._received.append(message.received_ns)
        self._values.extend(numbers)

    def series(self) -> Series:
        """Series collected so far; raises at the first fault."""
        stamps_ns = np.array(self._stamps, dtype=np.int64)
        received_ns = np.array(self._received, dtype=np.int64)
        values = np.array(self._values, dtype=np.float64).reshape(len(stamps_ns), self._width)
        self._require_set(stamps_ns)
        self._require_steady(stamps_ns, received_ns)
        require_short_enough(stamps_ns, self.source)
        self._require_finite(stamps_ns, values)
        new = np.diff(stamps_ns, prepend=stamps_ns[:1] - 1) > 0
        return Series(stamps_ns[new], received_ns[new], values[new], int((~new).sum()))

    def _require_set(self, stamps_ns: Stamps) -> None:
        unset = int((stamps_ns == 0).sum())
        if unset:
            raise DatasetError(
                f"{self.source}: the header timestamps of {unset} of {len(stamps_ns)} messages "
                "are 0, needed the time of measurement; receive times are no replacement. Let the "
                "driver timestamp its messages and record again."
            )

    def _require_steady(self, stamps_ns: Stamps, received_ns: Stamps) -> None:
        """Check that timestamps do not go back and advance as receive times do."""
        steps = np.diff(stamps_ns)
        if (steps < 0).any():
            at = int(np.argmax(steps < 0))
            raise DatasetError(
                f"{self.source}, message {at + 2}: header timestamp {stamps_ns[at + 1]} ns is "
                f"earlier than {stamps_ns[at]} ns of the message before, by {_length(-steps[at])} "
                f"({int((steps < 0).sum())} such places); timestamps must increase. If the clock "
                "was set while recording, cut the bag there; else sort the messages by header "
                "timestamp."
            )
        apart = np.abs(steps - np.diff(received_ns)) > CLOCK_JUMP_S * NS
        if apart.any():
            at = int(np.argmax(apart))
            raise DatasetError(
                f"{self.source}, message {at + 2}: the header timestamp jumps by "
                f"{_length(steps[at])} after {stamps_ns[at]} ns, while the messages were received "
                f"{_length(received_ns[at + 1] - received_ns[at])} apart: the clock was set while "
                f"recording. Steps may differ by {CLOCK_JUMP_S:.0f} s; cut the bag there."
            )

    def _require_finite(self, stamps_ns: Stamps, values: Array) -> None:
        # A comparison with NaN is false.
        bad = ~(np.abs(values) <= MAX_ABSOLUTE).all(axis=1)
        if bad.any():
            row = int(np.argmax(bad))
            raise DatasetError(
                f"{self.source}, message {row + 1}, timestamp {stamps_ns[row]} ns: holds "
                f"{values[row].tolist()} ({int(bad.sum())} of {len(values)} messages hold NaN, "
                f"infinity or more than {MAX_ABSOLUTE:g}); every number must be finite. Remove "
                "these messages or record again."
            )


def _length(step_ns: int) -> str:
    """Duration in a suitable unit."""
    seconds = float(step_ns) / NS
    return f"{seconds / 3600.0:.2f} h" if abs(seconds) >= 3600.0 else f"{seconds:.6g} s"
