"""Many tasks on many cores or machines: joblib on this one, Dask futures on a cluster.

A worker that dies takes nothing with it but the task that killed it. joblib loses the whole pool,
so what was lost is done again and tasks that may have been the reason run alone until the one
at fault is known. Dask gives up on every task that was with a dying worker too often, the
one at fault and those that only queued behind it: these run alone, too. Its own futures are used
because joblib's Dask backend waits for ever for a task that kills its workers.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from maci2.errors import OptionError, require_in_range

Backend = Literal["local", "dask"]

Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Pool:
    """The workers that tasks are given to."""

    jobs: int = 1
    """Tasks worked on at once."""

    backend: Backend = "local"
    """local: processes of this machine; dask: workers of a Dask cluster."""

    scheduler: str = ""
    """Address of an existing Dask scheduler; a cluster of `jobs` local workers where empty."""

    def __post_init__(self) -> None:
        require_in_range("--jobs", self.jobs, 1, 10_000)
        if self.backend not in ("local", "dask"):
            raise OptionError(f"--backend is '{self.backend}'; choose local or dask.")
        if self.scheduler and self.backend != "dask":
            raise OptionError("--scheduler names a Dask scheduler; add --backend dask.")


@dataclass(frozen=True)
class WorkerDied:
    """The process that worked on a task ended without a word: out of memory, or killed."""

    reason: str = "the worker process died on this task"


def run_all(
    work: Callable[[Task], Result], tasks: Sequence[Task], pool: Pool
) -> Iterator[tuple[Task, Result | WorkerDied]]:
    """Each task with its result, in the order in which they end."""
    run = _run_dask if pool.backend == "dask" else _run_local
    for index, result in run(work, tasks, pool):
        yield tasks[index], result


def _run_local(
    work: Callable[[Task], Result], tasks: Sequence[Task], pool: Pool
) -> Iterator[tuple[int, Result | WorkerDied]]:
    from joblib.externals.loky.process_executor import BrokenProcessPool

    waiting = list(range(len(tasks)))
    while waiting:
        done: set[int] = set()
        try:
            for index, result in _parallel(work, tasks, waiting, pool.jobs):
                done.add(index)
                yield index, result
        except BrokenProcessPool:
            suspects = [index for index in waiting if index not in done][: 2 * pool.jobs]
            for index in suspects:
                done.add(index)
                yield index, _alone(work, tasks, index)
        waiting = [index for index in waiting if index not in done]


def _parallel(
    work: Callable[[Task], Result], tasks: Sequence[Task], indices: Sequence[int], jobs: int
) -> Iterator[tuple[int, Result]]:
    from joblib import Parallel, delayed

    # A worker that has grown by 300 MB is replaced by a new one; that is no news to a user.
    warnings.filterwarnings("ignore", message="A worker stopped while some jobs")
    # One task at a time for each worker: a batch would be lost with its worker.
    run = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
    numbered: Iterator[tuple[int, Result]] = run(
        delayed(_numbered)(work, index, tasks[index]) for index in indices
    )
    return numbered


def _numbered(work: Callable[[Task], Result], index: int, task: Task) -> tuple[int, Result]:
    return index, work(task)


def _alone(
    work: Callable[[Task], Result], tasks: Sequence[Task], index: int
) -> Result | WorkerDied:
    """Run one suspected task with no other task at risk."""
    from joblib.externals.loky.process_executor import BrokenProcessPool

    try:
        # A single job would run in this very process; two make joblib fetch a worker.
        return next(iter(_parallel(work, tasks, [index], jobs=2)))[1]
    except BrokenProcessPool:
        return WorkerDied()


def _run_dask(
    work: Callable[[Task], Result], tasks: Sequence[Task], pool: Pool
) -> Iterator[tuple[int, Result | WorkerDied]]:
    try:
        from distributed import Client, KilledWorker, LocalCluster, as_completed
    except ImportError as error:
        raise OptionError("--backend dask needs Dask: pip install 'maci2[dask]'.") from error
    cluster: AbstractContextManager[Any] = (
        nullcontext(pool.scheduler)
        if pool.scheduler
        else LocalCluster(n_workers=pool.jobs, threads_per_worker=1, dashboard_address=None)
    )
    with cluster as address, _connected(Client, address) as client:
        futures = {client.submit(work, task, pure=False): index for index, task in enumerate(tasks)}
        suspects: list[int] = []
        for future in as_completed(futures):
            try:
                yield futures[future], future.result()
            except KilledWorker:
                suspects.append(futures[future])
        if len(suspects) == 1:  # nobody else can have been the reason
            yield suspects.pop(), WorkerDied()
        for index in suspects:
            try:
                yield index, client.submit(work, tasks[index], pure=False).result()
            except KilledWorker:
                yield index, WorkerDied()


def _connected(client: Any, address: Any) -> Any:
    try:
        return client(address, timeout="10s")
    except (OSError, TimeoutError) as error:
        raise OptionError(
            f"--scheduler {address}: no Dask scheduler answers there ({error}); start one with "
            "`dask scheduler` and workers with `dask worker ADDRESS`."
        ) from error
