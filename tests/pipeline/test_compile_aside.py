"""A helper process that compiles: waited for, not started for nothing, not left behind."""

import os
import sys
import time

import pytest

from maci2.pipeline import compile_aside


@pytest.fixture
def cold(monkeypatch):
    monkeypatch.setattr(compile_aside, "solver_is_compiled", lambda: False)


def test_the_helper_has_finished_when_it_was_waited_for(cold, monkeypatch, tmp_path):
    done = tmp_path / "done"
    work = f"import time, pathlib; time.sleep(0.3); pathlib.Path({str(done)!r}).touch()"
    monkeypatch.setattr(compile_aside, "COMMAND", work)
    with compile_aside.solver_compiled_aside() as wait:
        wait()
        assert done.exists()


def test_the_helper_does_not_outlive_an_error(cold, monkeypatch, tmp_path):
    file = tmp_path / "pid"
    work = f"import os, time, pathlib; pathlib.Path({str(file)!r}).write_text(str(os.getpid()))"
    monkeypatch.setattr(compile_aside, "COMMAND", f"{work}; time.sleep(60)")

    def fail():
        with compile_aside.solver_compiled_aside():
            while not file.exists() or not file.read_text():
                time.sleep(0.01)
            raise RuntimeError("no room")

    with pytest.raises(RuntimeError, match="no room"):
        fail()
    with pytest.raises(ProcessLookupError):
        os.kill(int(file.read_text()), 0)


def test_nothing_is_started_where_the_solver_is_in_the_cache(monkeypatch):
    monkeypatch.setattr(compile_aside, "solver_is_compiled", lambda: True)
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with compile_aside.solver_compiled_aside() as wait:
        wait()


def test_the_cache_is_looked_up_where_numba_keeps_it(monkeypatch, tmp_path):
    class Stats:
        cache_path = str(tmp_path)

    class Kernel:
        stats = Stats()

    monkeypatch.setattr(compile_aside, "levenberg_marquardt", Kernel())
    assert not compile_aside.solver_is_compiled()
    (tmp_path / "optimize.levenberg_marquardt-67.py311.nbi").touch()
    assert compile_aside.solver_is_compiled()
