"""`python -m maci2.jit JOB...`: a worker that compiles what jobs need, one after another."""

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from maci2.jit.cache import cache_folder, is_filled, stamp_of
from maci2.jit.fill import JOBS, target

LOW_PRIORITY = 19


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait until no other process holds the file; a process that dies lets go of it."""
    try:
        import fcntl
    except ImportError:
        # Two workers then do the same work, and each kernel is written whole by either.
        yield
        return
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def run(job: str) -> None:
    """Compile what a job needs, unless another process has done so by now."""
    folder = cache_folder()
    if folder is None:
        return
    with locked(folder / f"{job}.lock"):
        if not is_filled(job):
            target(job)()
            stamp_of(folder, job).touch()


def main(arguments: list[str]) -> None:
    """The worker."""
    if arguments[:1] == ["--aside"]:
        os.nice(LOW_PRIORITY)
    for job in arguments:
        if job in JOBS:
            run(job)


if __name__ == "__main__":
    # Compiling makes millions of objects, and looking for garbage among them takes a tenth of it.
    gc.disable()
    main(sys.argv[1:])
    # Everything is written by now: nobody needs those objects taken apart one by one.
    os._exit(0)
