"""Work on the rows of an image, in as many threads as there are cores."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

PARTS_PER_CORE = 4
"""Parts are not equally long to work on."""


def cores() -> int:
    """CPU cores available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_bands(work: Callable[[int, int], None], rows: int) -> None:
    """Call work(first, last) for parts of the rows until all are done.

    Threads run side by side only in numpy, OpenCV and compiled code that lets go of the
    interpreter's lock.
    """
    parts = min(PARTS_PER_CORE * cores(), rows)
    cuts = [rows * k // parts for k in range(parts + 1)]
    if cores() == 1:
        work(0, rows)
        return
    with ThreadPoolExecutor(cores()) as pool:
        list(pool.map(work, cuts[:-1], cuts[1:]))
