"""Filling the cache by other processes."""

import importlib
import subprocess
import sys

import pytest

from maci2.jit import fill as fill_module
from maci2.jit import kernels, seldom
from maci2.jit.cache import stamp_of
from maci2.jit.fill import fill as filling


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setattr(fill_module, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(fill_module, "is_filled", lambda job: stamp_of(tmp_path, job).exists())
    return tmp_path


@pytest.fixture
def workers(monkeypatch, folder):
    """Workers that stamp their jobs, or whatever code they are given."""
    started = []

    def start(jobs, own_session):
        started.append(jobs)
        code = "import pathlib, sys\nfor p in sys.argv[1:]: pathlib.Path(p).touch()"
        stamps = [str(stamp_of(folder, job)) for job in jobs]
        return subprocess.Popen([sys.executable, "-S", "-c", code, *stamps])

    monkeypatch.setattr(fill_module, "_start", start)
    return started


def test_jobs_with_the_same_kernels_share_a_worker(workers):
    assert filling(("calibrate", "odometry", "initialize")) == []
    assert workers == [["initialize", "calibrate"], ["odometry"]]


def test_what_is_filled_is_not_compiled_again(workers, folder):
    stamp_of(folder, "initialize").touch()
    filling(("calibrate", "initialize"))
    assert workers == [["calibrate"]]


def test_jobs_of_a_package_that_is_not_installed_are_left_out(workers, monkeypatch):
    monkeypatch.setitem(fill_module.JOBS, "baselines", ("no_such_package.rehearsals:run", 1))
    assert filling(("initialize", "baselines")) == []
    assert workers == [["initialize"]]


def test_what_is_seldom_run_is_not_compiled_for(workers):
    with seldom("initialize"):
        assert filling(("chain", "initialize")) == []
    assert workers == [["chain"]]


def test_progress_never_exceeds_its_total(workers, folder):
    for i in range(40):
        (folder / f"{i}.nbi").touch()
    seen = []
    filling(("render",), on_progress=lambda name, done, total: seen.append((done, total)))
    assert seen
    assert all(done <= total for done, total in seen)


def test_a_job_that_leaves_no_stamp_has_failed(monkeypatch, folder):
    monkeypatch.setattr(
        fill_module, "_start", lambda *_, **__: subprocess.Popen([sys.executable, "-S", "-c", ""])
    )
    assert filling(("render",)) == ["render"]


def test_workers_do_not_outlive_an_interruption(monkeypatch, folder):
    started = []

    def start(jobs, own_session):
        code = "import sys; sys.stdin.read()"
        started.append(subprocess.Popen([sys.executable, "-S", "-c", code], stdin=subprocess.PIPE))
        return started[-1]

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(fill_module, "_start", start)
    with pytest.raises(KeyboardInterrupt):
        filling(("render",), on_progress=interrupt)
    (one,) = started
    one.stdin.close()
    assert one.returncode is not None
    assert one.returncode != 0


def test_without_a_folder_nothing_is_started(monkeypatch, workers):
    monkeypatch.setattr(fill_module, "cache_folder", lambda: None)
    assert filling(("render",)) == []
    fill_module.fill_aside(("render",))
    assert workers == []


def test_a_worker_stamps_its_job_when_it_is_done_and_does_it_once(monkeypatch, folder):
    done = []
    monkeypatch.setattr(fill_module, "target", lambda job: lambda: done.append(job))
    fill_module.main(["render"])
    fill_module.main(["render"])
    assert done == ["render"]
    assert stamp_of(folder, "render").exists()


def test_a_worker_that_fails_leaves_no_stamp(monkeypatch, folder):
    def fail():
        raise RuntimeError("no room")

    monkeypatch.setattr(fill_module, "target", lambda job: fail)
    with pytest.raises(RuntimeError, match="no room"):
        fill_module.main(["render"])
    assert not stamp_of(folder, "render").exists()


def test_what_is_announced_before_compiling_happens_once(monkeypatch):
    seen = []
    kernels.before_compiling(lambda: seen.append(1))
    kernels.announce_compiling()
    kernels.announce_compiling()
    assert seen == [1]


def test_every_job_is_in_one_chain_and_names_what_exists():
    chained = [job for chain in fill_module.CHAINS for job in chain]
    assert sorted(chained) == sorted(fill_module.JOBS)
    for target, count in fill_module.JOBS.values():
        module, _, function = target.partition(":")
        assert callable(getattr(importlib.import_module(module), function))
        assert count > 0
