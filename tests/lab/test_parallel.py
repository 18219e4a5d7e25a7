"""Workers that die, and schedulers that are not there."""

import os
import time
from pathlib import Path

import pytest

from maci2.errors import OptionError
from maci2_lab.parallel import Pool, WorkerDied, run_all


def square(task: int) -> int:
    return task * task


def kills_its_worker(task: int) -> int:
    if task == 3:
        os._exit(9)
    return task * task


def dies_once(task: tuple[int, str]) -> int:
    """The first time it is asked, its process is gone."""
    number, flag = task
    if number == 2 and not Path(flag).exists():
        Path(flag).touch()
        os._exit(9)
    time.sleep(0.05)
    return number


def test_one_job_runs_in_this_process():
    assert dict(run_all(lambda task: os.getpid(), [1, 2], Pool(1))) == dict.fromkeys(
        (1, 2), os.getpid()
    )


def test_two_jobs_give_every_task_its_own_result():
    assert dict(run_all(square, range(20), Pool(2))) == {n: n * n for n in range(20)}


def test_a_worker_that_dies_costs_its_task_alone():
    found = dict(run_all(kills_its_worker, range(7), Pool(2)))
    assert isinstance(found.pop(3), WorkerDied)
    assert found == {n: n * n for n in (0, 1, 2, 4, 5, 6)}


def test_a_worker_that_died_for_another_reason_costs_nothing(tmp_path):
    tasks = [(n, str(tmp_path / "flag")) for n in range(6)]
    assert sorted(result for _, result in run_all(dies_once, tasks, Pool(2))) == list(range(6))


def test_an_error_in_a_task_is_not_swallowed():
    with pytest.raises(ZeroDivisionError):
        dict(run_all(lambda task: 1 // task, [1, 0], Pool(2)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"jobs": 0}, "--jobs is 0, needed at least 1"),
        ({"backend": "spark"}, "--backend is 'spark'; choose local or dask"),
        ({"scheduler": "tcp://x:1"}, "add --backend dask"),
    ],
)
def test_a_pool_without_meaning_says_so(arguments, message):
    with pytest.raises(OptionError, match=message):
        Pool(**arguments)


@pytest.mark.slow
def test_dask_goes_on_when_one_of_two_workers_is_killed_in_mid_run(tmp_path):
    distributed = pytest.importorskip("distributed")
    tasks = [(n, str(tmp_path / "flag")) for n in range(12)]
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        pool = Pool(2, "dask", cluster.scheduler_address)
        assert sorted(result for _, result in run_all(dies_once, tasks, pool)) == list(range(12))


@pytest.mark.slow
def test_a_task_that_kills_every_dask_worker_costs_itself_alone():
    pytest.importorskip("distributed")
    found = dict(run_all(kills_its_worker, range(6), Pool(2, "dask")))
    assert isinstance(found.pop(3), WorkerDied)
    assert found == {n: n * n for n in (0, 1, 2, 4, 5)}


@pytest.mark.slow
def test_tasks_that_queue_behind_one_that_kills_its_worker_are_not_blamed():
    dask = pytest.importorskip("dask")
    pytest.importorskip("distributed")
    # One worker gets all tasks at once: 4 and 5 are with it each time 3 kills it.
    with dask.config.set({"distributed.scheduler.worker-saturation": float("inf")}):
        found = dict(run_all(kills_its_worker, range(6), Pool(1, "dask")))
    assert isinstance(found.pop(3), WorkerDied)
    assert found == {n: n * n for n in (0, 1, 2, 4, 5)}


@pytest.mark.slow
def test_a_scheduler_that_does_not_answer_is_named():
    pytest.importorskip("distributed")
    with pytest.raises(OptionError, match=r"tcp://127\.0\.0\.1:9: no Dask scheduler answers"):
        dict(run_all(square, [1], Pool(2, "dask", "tcp://127.0.0.1:9")))
