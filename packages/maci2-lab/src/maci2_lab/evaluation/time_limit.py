"""Run a function with a time limit: processor time of its own thread, compilation not counted."""

import ctypes
import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from numba.core import event

from maci2.errors import Maci2Error

T = TypeVar("T")

PATIENCE = 10.0
"""Wall time over the limit after which a thread that does nothing is left."""

IDLE = 0.01
"""Share of the wall time below which a thread does nothing. On a busy machine a thread that works
gets a small share of a core, but a larger one than this."""

SHORTEST_WAIT_S, LONGEST_WAIT_S = 0.002, 0.2
"""Time between two readings of the clock of the thread."""


class TimeLimitError(Maci2Error):
    """Something did not end in the time it was given."""


class _Gate:
    """Closed while a thread is in the compiler, and whether it is to stop."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.stop = False


class _Compiler(event.Listener):
    """When threads are in numba's compiler, or load what it compiled: the processor time that each
    has spent there, and a gate that keeps interrupts out."""

    def __init__(self) -> None:
        self._depth: dict[int, int] = {}
        self._began_s: dict[int, float] = {}
        self._total_s: dict[int, float] = {}
        self._gates: dict[int, _Gate] = {}

    def on_start(self, event: Any) -> None:
        ident = threading.get_ident()
        # Compiling a function compiles what it calls, inside.
        if self._depth.get(ident, 0) == 0:
            gate = self._gates.get(ident)
            if gate is not None:
                gate.lock.acquire()
                if gate.stop:
                    gate.lock.release()
                    raise SystemExit
            self._began_s[ident] = time.thread_time()
        self._depth[ident] = self._depth.get(ident, 0) + 1

    def on_end(self, event: Any) -> None:
        ident = threading.get_ident()
        self._depth[ident] = self._depth.get(ident, 1) - 1
        if self._depth[ident] > 0:
            return
        spent_s = time.thread_time() - self._began_s[ident]
        # In this order: who looks in between counts it twice rather than not at all.
        self._total_s[ident] = self._total_s.get(ident, 0.0) + spent_s
        del self._began_s[ident]
        gate = self._gates.get(ident)
        if gate is not None:
            gate.lock.release()
            if gate.stop:
                raise SystemExit

    def used_s(self, ident: int, now_s: float) -> float:
        """Time spent until `now_s` of the thread's own processor clock."""
        began_s = self._began_s.get(ident)
        running_s = 0.0 if began_s is None else max(now_s - began_s, 0.0)
        return self._total_s.get(ident, 0.0) + running_s

    def watch(self, gate: _Gate) -> None:
        """Begin with this thread; a former one may have had its number."""
        ident = threading.get_ident()
        for times in (self._depth, self._began_s, self._total_s):
            times.pop(ident, None)
        self._gates[ident] = gate

    def forget(self) -> None:
        """End with this thread."""
        self._gates.pop(threading.get_ident(), None)


_COMPILER = _Compiler()
event.register("numba:compiler_lock", _COMPILER)


class _Worker(threading.Thread, Generic[T]):
    """A thread that runs one function and measures the processor time it has used."""

    def __init__(self, function: Callable[[], T]) -> None:
        super().__init__(daemon=True)
        self._function = function
        self._gate = _Gate()
        self._clock: int | None = None
        self._process_began_s = time.process_time()
        self.result: list[T] = []
        self.failure: BaseException | None = None

    def run(self) -> None:
        _COMPILER.watch(self._gate)
        # Asked by the thread itself: of a thread that has ended nobody may ask.
        if hasattr(time, "pthread_getcpuclockid"):
            self._clock = time.pthread_getcpuclockid(threading.get_ident())
        try:
            self.result.append(self._function())
        except BaseException as error:  # handed to the waiting thread
            self.failure = error
        finally:
            _COMPILER.forget()

    def times_s(self) -> tuple[float, float]:
        """Processor time used so far, and how much of it in the compiler; of the whole process
        where a thread's own is not known."""
        try:
            total_s = time.clock_gettime(self._clock) if self._clock is not None else None
        except OSError:  # it has just ended
            return 0.0, 0.0
        if total_s is None:
            total_s = time.process_time() - self._process_began_s
        return total_s, _COMPILER.used_s(self.ident or 0, total_s)

    def interrupt(self) -> None:
        """Raise SystemExit at the next Python instruction of the thread, in the compiler when it
        leaves that: between freeing an LLVM object and noting so, llvmlite would free it twice."""
        self._gate.stop = True
        if not self._gate.lock.acquire(blocking=False):
            return
        try:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(self.ident or 0), ctypes.py_object(SystemExit)
            )
        finally:
            self._gate.lock.release()


def within(seconds: float, function: Callable[[], T]) -> T:
    """`function()`, or TimeLimitError after so many seconds of its processor time.

    It runs in a thread of its own, so that the wait can end whatever it does; what it still does
    afterwards is stopped at its next Python instruction outside numba's compiler. Time in there is
    not counted. A function that uses hardly any processor time is left after `PATIENCE` times the
    limit.
    """
    worker = _Worker(function)
    began_s = time.monotonic()
    worker.start()
    wait_s = SHORTEST_WAIT_S
    worker.join(wait_s)
    while worker.is_alive():
        reason = _beyond(seconds, time.monotonic() - began_s, *worker.times_s())
        if reason:
            worker.interrupt()
            raise TimeLimitError(reason)
        wait_s = min(2.0 * wait_s, LONGEST_WAIT_S, max(seconds, SHORTEST_WAIT_S))
        worker.join(wait_s)
    if worker.failure is not None:
        raise worker.failure
    return worker.result[0]


def _beyond(limit_s: float, elapsed_s: float, total_s: float, compiling_s: float) -> str:
    """Description of the limit that has been exceeded; empty if none."""
    used_s = total_s - compiling_s
    if used_s > limit_s:
        return f"did not end within {limit_s:g} s of processor time"
    if elapsed_s > PATIENCE * (limit_s + compiling_s) and used_s < IDLE * elapsed_s:
        return (
            f"did not end within {PATIENCE * limit_s:g} s, of which it used {used_s:.1f} s of "
            "processor time"
        )
    return ""
