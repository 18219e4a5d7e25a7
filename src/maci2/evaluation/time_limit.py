"""An end to what might have none."""

import ctypes
import threading
from collections.abc import Callable
from typing import TypeVar

from maci2.errors import Maci2Error

T = TypeVar("T")


class TimeLimitError(Maci2Error):
    """Something did not end in the time it was given."""


def within(seconds: float, function: Callable[[], T]) -> T:
    """`function()`, or TimeLimitError after so many seconds.

    It runs in a thread of its own, so that the wait can end whatever it does; what it still does
    afterwards is stopped at its next Python instruction. Works in any thread of any worker.
    """
    result: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            result.append(function())
        except BaseException as error:  # handed to the waiting thread below
            failure.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        _interrupt(thread)
        raise TimeLimitError(f"did not end within {seconds:g} s")
    if failure:
        raise failure[0]
    return result[0]


def _interrupt(thread: threading.Thread) -> None:
    """Raise SystemExit inside a running thread."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit)
    )
