"""Images read in a thread of their own before they are asked for."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import Literal

from maci2.sensors.stereo import Frames, Image
from maci2.types import Stamps

Side = Literal["left", "right"]

HELD = 12
"""Images that may wait to be taken; the oldest is forgotten."""


@dataclass
class ReadAhead:
    """Images of some stereo pairs, for any thread. One thread reads them all, so that a file is
    never read by two at once."""

    frames: Frames
    _coming: dict[tuple[Side, int], Future[Image]] = field(default_factory=dict)
    _reader: ThreadPoolExecutor | None = None
    _lock: Lock = field(default_factory=Lock)

    @property
    def stamps_ns(self) -> Stamps:
        """(n,) timestamps of all stereo pairs."""
        return self.frames.stamps_ns

    def expect(self, index: int) -> None:
        """Begin to read a pair that will be asked for."""
        with self._lock:
            for side in ("left", "right"):
                self._submit(side, index)
            while len(self._coming) > HELD:
                self._coming.pop(next(iter(self._coming))).cancel()

    def left(self, index: int) -> Image:
        """The left image; an ImageError of reading it is raised here."""
        return self._take("left", index)

    def right(self, index: int) -> Image:
        """The right image."""
        return self._take("right", index)

    def _submit(self, side: Side, index: int) -> None:
        if (side, index) not in self._coming:
            if self._reader is None:
                self._reader = ThreadPoolExecutor(1, "read-ahead")
            read = self.frames.left if side == "left" else self.frames.right
            self._coming[side, index] = self._reader.submit(read, index)

    def _take(self, side: Side, index: int) -> Image:
        with self._lock:
            self._submit(side, index)
            coming = self._coming.pop((side, index))
        return coming.result()
