"""What might not end, ends; waiting and compiling are not counted."""

import threading
import time

import numpy as np
import pytest
from numba import njit
from numba.core.compiler_lock import global_compiler_lock

from maci2_lab.evaluation import time_limit
from maci2_lab.evaluation.time_limit import TimeLimitError, within


def burn(seconds):
    """Use so much processor time of the calling thread."""
    began_s = time.thread_time()
    while time.thread_time() - began_s < seconds:
        pass
    return "done"


def test_a_result_in_time_is_handed_on():
    assert within(5.0, lambda: 41 + 1) == 42


def test_an_error_is_the_callers():
    def fails():
        raise ZeroDivisionError("as it was raised")

    with pytest.raises(ZeroDivisionError, match="as it was raised"):
        within(5.0, fails)


@pytest.fixture
def patient(monkeypatch):
    """No wall time is too long: only processor time ends the wait."""
    monkeypatch.setattr(time_limit, "PATIENCE", 1e6)


def test_waiting_does_not_count_as_work(patient):
    def waits():
        time.sleep(0.3)
        return "done"

    assert within(0.1, waits) == "done"


def test_the_work_of_other_threads_does_not_count(patient):
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            pass

    others = [threading.Thread(target=busy, daemon=True) for _ in range(2)]
    for thread in others:
        thread.start()
    try:
        # The process as a whole uses about three times the work of this thread.
        assert within(0.25, lambda: burn(0.15)) == "done"
    finally:
        stop.set()
        for thread in others:
            thread.join()


def test_a_sleep_without_end_is_left(monkeypatch):
    monkeypatch.setattr(time_limit, "PATIENCE", 2.0)
    with pytest.raises(TimeLimitError, match=r"did not end within 0\.1 s, of which it used 0\.0 s"):
        within(0.05, lambda: time.sleep(60.0))


@pytest.mark.parametrize("share_of_a_core", [0.04, 0.02])
def test_a_busy_machine_does_not_end_what_works(share_of_a_core):
    waited_s = 400.0
    assert time_limit._beyond(20.0, waited_s, share_of_a_core * waited_s, 0.0) == ""


def test_a_loop_without_end_is_stopped(patient):
    counts = [0]
    ended = threading.Event()

    def loop():
        try:
            while True:
                counts[0] += 1
        finally:
            ended.set()

    with pytest.raises(TimeLimitError, match=r"within 0\.1 s of processor time"):
        within(0.1, loop)
    assert ended.wait(60.0)


def test_compiling_does_not_count(patient):
    limit_s = 0.03

    def compiled_now():
        @njit
        def polynomial(x):
            return x**3 - 2.0 * x**2 + np.sqrt(x)

        began_s = time.thread_time()
        polynomial(4.0)
        return time.thread_time() - began_s

    assert within(limit_s, compiled_now) > limit_s


def test_what_compiles_is_stopped_only_when_it_leaves_the_compiler():
    """Inside, an interrupt would make llvmlite free what it has freed."""
    inside, interrupted, done = threading.Event(), threading.Event(), []

    def compiles():
        with global_compiler_lock:
            inside.set()
            interrupted.wait()
            done.append("compiled")
        done.append("went on")

    worker = time_limit._Worker(compiles)
    worker.start()
    inside.wait()
    worker.interrupt()
    interrupted.set()
    worker.join()
    assert done == ["compiled"]
    assert isinstance(worker.failure, SystemExit)


def test_what_is_stopped_does_not_enter_the_compiler():
    ready, done = threading.Event(), []

    def compiles():
        ready.set()
        while not worker._gate.stop:
            pass
        with global_compiler_lock:
            done.append("compiled")

    worker = time_limit._Worker(compiles)
    worker.start()
    ready.wait()
    worker.interrupt()
    worker.join()
    assert done == []
