"""Cutting a recording into windows, and keyframes out of a window."""

from dataclasses import dataclass

import numpy as np

from maci2.errors import DatasetError
from maci2.types import NS, Stamps, nearest_index

CLOSEST_SHARE = 0.3
"""Keyframes of a long window are at least this share of the mean spacing apart."""


@dataclass(frozen=True)
class Window:
    """One segment to initialize on."""

    index: int
    stamps_ns: Stamps
    """(keyframes,) image timestamps, as evenly spread as the images allow."""

    @property
    def start_ns(self) -> int:
        return int(self.stamps_ns[0])


def plan_windows(
    candidates_ns: Stamps, window_s: float, stride_s: float, keyframes: int, start_s: float = 0.0
) -> list[Window]:
    """Every window that fits, from `start_s` after the first candidate on."""
    if len(candidates_ns) == 0:
        return []
    windows = []
    start_ns = int(candidates_ns[0]) + round(start_s * NS)
    length_ns, stride_ns = round(window_s * NS), round(stride_s * NS)
    index = 0
    # Half a frame of slack: timestamps jitter, and the last image may be a millisecond early.
    slack_ns = int(np.median(np.diff(candidates_ns)) / 2) if len(candidates_ns) > 1 else 0
    while start_ns + length_ns <= int(candidates_ns[-1]) + slack_ns:
        wanted_ns = np.linspace(start_ns, start_ns + length_ns, keyframes)
        stamps = np.unique(candidates_ns[nearest_index(candidates_ns, wanted_ns)])
        if len(stamps) == keyframes:
            windows.append(Window(index, stamps))
        index += 1
        start_ns += stride_ns
    return windows


def one_window(candidates_ns: Stamps, window_s: float, keyframes: int, start_s: float) -> Window:
    """The window that starts `start_s` after the first usable timestamp."""
    windows = plan_windows(candidates_ns, window_s, 1e9, keyframes, start_s)
    if not windows:
        raise _no_window(candidates_ns, window_s, keyframes, start_s)
    return windows[0]


def long_window(candidates_ns: Stamps, window_s: float, keyframes: int, start_s: float) -> Window:
    """Window over minutes, where images may be missing: a keyframe without one is left out, as long
    as half of all are there."""
    if len(candidates_ns) < 2:
        raise _no_window(candidates_ns, window_s, keyframes, start_s)
    start_ns = int(candidates_ns[0]) + round(start_s * NS)
    wanted_ns = np.linspace(start_ns, start_ns + round(window_s * NS), keyframes)
    nearest = candidates_ns[nearest_index(candidates_ns, wanted_ns)]
    spacing_ns = (wanted_ns[-1] - wanted_ns[0]) / (keyframes - 1)
    if wanted_ns[-1] > candidates_ns[-1] + 0.5 * spacing_ns:
        raise _no_window(candidates_ns, window_s, keyframes, start_s)
    stamps_ns = np.unique(nearest[np.abs(nearest - wanted_ns) <= 0.5 * spacing_ns])
    apart = np.r_[True, np.diff(stamps_ns) > CLOSEST_SHARE * spacing_ns]
    if 2 * int(apart.sum()) < keyframes:
        raise _no_window(candidates_ns, window_s, keyframes, start_s)
    return Window(0, stamps_ns[apart])


def _no_window(
    candidates_ns: Stamps, window_s: float, keyframes: int, start_s: float
) -> DatasetError:
    has_s = (int(candidates_ns[-1]) - int(candidates_ns[0])) / NS if len(candidates_ns) else 0.0
    return DatasetError(
        f"no window of {window_s:g} s with {keyframes} keyframes from {start_s:g} s on: usable "
        f"images cover {has_s:.2f} s ({len(candidates_ns)} images). Choose a shorter window, "
        "fewer keyframes or an earlier start."
    )
