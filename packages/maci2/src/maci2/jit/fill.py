"""Filling the cache: kernels compiled by other processes, as many at once as there are cores.
`python -m maci2.jit.fill JOB...` is such a process.

A job runs a piece of the product once on little data and so compiles all kernels that it uses.
Jobs that use the same kernels are done by one worker, one after another. It holds its job's lock,
so that two fillings at once share the work; a worker that is killed leaves whole kernels and no
timestamp.
"""

import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from maci2.jit.cache import cache_folder, is_filled, kernels_in, stamp_of
from maci2.jit.kernels import is_seldom

Progress = Callable[[str, int, int], None]
"""Told what is being compiled, how many kernels there are by now, and how many there will be."""

JOBS = {
    "initialize": ("maci2.pipeline.warm_up:initialize_once", 17),
    "calibrate": ("maci2.pipeline.warm_up:calibrate_once", 26),
    "chain": ("maci2.pipeline.warm_up:smooth_once", 26),
    "baselines": ("maci2_lab.experiments.initialization:compare_once", 28),
    "render": ("maci2.pipeline.warm_up:render_once", 4),
    "odometry": ("maci2.pipeline.warm_up:track_once", 10),
}
"""Function that each job runs, and about how many kernels there are after it and those before it in
its chain: a bar needs a length."""

CHAINS = (
    ("initialize", "calibrate", "chain", "baselines"),
    ("render", "odometry"),
)
"""Jobs of one worker, which finds in memory what the jobs before have compiled."""

_POLL_S = 0.2

LOW_PRIORITY = 19


def fill(
    jobs: Sequence[str], processes: int = 0, on_progress: Progress = lambda *_: None
) -> list[str]:
    """Compile what jobs need, in that many processes (0: one per core); returns jobs that failed.

    Nothing is done for a job that is seldom run, or where there is no folder to keep kernels in.
    """
    folder = cache_folder()
    if folder is None:
        return []
    wanted = [job for job in jobs if not is_seldom(job)]
    missing = {job for job in wanted if not is_filled(job) and is_installed(job)}
    total = _kernels_after(missing)
    waiting = [chain for chain in (_only(chain, missing) for chain in CHAINS) if chain]
    running: list[subprocess.Popen[bytes]] = []
    try:
        while waiting or running:
            while waiting and len(running) < (processes or os.cpu_count() or 1):
                running.append(_start(waiting.pop(0), own_session=False))
            running = [worker for worker in running if worker.poll() is None]
            done = kernels_in(folder)
            on_progress("compiling kernels", done, max(total, done))
            time.sleep(_POLL_S)
    finally:
        for worker in running:
            worker.kill()
            worker.wait()
    return sorted(job for job in missing if not is_filled(job))


def target(job: str) -> Callable[[], None]:
    """Function that a job runs."""
    module, _, function = JOBS[job][0].partition(":")
    run_once: Callable[[], None] = getattr(import_module(module), function)
    return run_once


def is_installed(job: str) -> bool:
    """The package of a job is there: some jobs belong to one that extends this."""
    return find_spec(JOBS[job][0].partition(".")[0]) is not None


def _kernels_after(missing: set[str]) -> int:
    """About how many kernels there are once the missing jobs are done."""
    done = {job for job in JOBS if job in missing or is_filled(job)}
    return sum(max((JOBS[job][1] for job in _only(chain, done)), default=0) for chain in CHAINS)


def _only(chain: tuple[str, ...], jobs: set[str]) -> list[str]:
    return [job for job in chain if job in jobs]


def fill_aside(jobs: Sequence[str]) -> None:
    """Start one process of low priority that outlives this one and fills the cache."""
    missing = [job for job in jobs if not is_filled(job) and is_installed(job)]
    if missing and cache_folder() is not None and sys.executable:
        _start(["--aside", *missing], own_session=True)


def _start(arguments: list[str], own_session: bool) -> "subprocess.Popen[bytes]":
    quiet = subprocess.DEVNULL
    return subprocess.Popen(
        [sys.executable, "-m", "maci2.jit.fill", *arguments],
        env=_environment(),
        start_new_session=own_session,
        stdin=quiet,
        stdout=quiet,
        stderr=quiet,
    )


def _environment() -> dict[str, str]:
    """Environment of a worker: it compiles whatever this process does, from the same package."""
    package = str(Path(__file__).resolve().parents[2])
    paths = [package, *filter(None, [os.environ.get("PYTHONPATH", "")])]
    return os.environ | {
        "MACI2_KERNELS": "compiled",
        "NUMBA_DISABLE_JIT": "0",
        "NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING": "1",
        "PYTHONPATH": os.pathsep.join(paths),
    }


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
