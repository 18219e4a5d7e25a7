"""`python -m maci2.jit JOB...`: a worker that compiles what jobs need, one after another."""

import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any

from maci2.jit.cache import cache_folder, is_filled, stamp_of
from maci2.jit.fill import JOBS

LOW_PRIORITY = 19

STACK_SLOTS = 70_000
"""Values on the stack that a large frame asks for: 0.56 MB, in a chunk of 1 MB."""


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


def target(job: str) -> Callable[[], None]:
    """Function that a job runs."""
    module, _, function = JOBS[job][0].partition(":")
    run_once: Callable[[], None] = getattr(import_module(module), function)
    return run_once


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


def on_a_large_stack(function: Any) -> Callable[..., None]:
    """Function with room behind it for the frames of all that it calls.

    Python keeps frames in chunks of 16 kB. A loop of calls at the end of one asks the system for
    another chunk at each call and gives it back at each return: compiling did so 200 thousand
    times. A frame that says it is large gets a large chunk, of which half is left.
    """
    code = function.__code__.replace(co_stacksize=STACK_SLOTS)
    return FunctionType(code, function.__globals__)


if __name__ == "__main__":
    # Compiling makes millions of objects, and looking for garbage among them takes a tenth of it.
    gc.disable()
    on_a_large_stack(main)(sys.argv[1:])
    # Everything is written by now: nobody needs those objects taken apart one by one.
    os._exit(0)
