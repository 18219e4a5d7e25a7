"""Results handed to a user's function in a thread of its own, whatever that function does."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

_LOG = logging.getLogger(__name__)

Result = TypeVar("Result")


class CallbackThread(Generic[Result]):
    """Calls a function with each result; a slow one gets the newest, and what it missed is counted.

    The function may raise anything, block, or call whatever it likes: nobody waits for it.
    """

    def __init__(self, function: Callable[[Result], object], size: int, name: str) -> None:
        self._function = function
        self._changed = threading.Condition()
        self._waiting: deque[Result] = deque(maxlen=size)
        self._running = False
        self._closed = False
        self._dropped = 0
        self._error = ""
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def dropped(self) -> int:
        """Results that the function did not get because it was busy."""
        with self._changed:
            return self._dropped

    @property
    def error(self) -> str:
        """What the function raised last; empty after a call that went well."""
        with self._changed:
            return self._error

    @property
    def is_current(self) -> bool:
        """Whether this is asked from inside the function."""
        return threading.current_thread() is self._thread

    def put(self, result: Result) -> None:
        """Hand over a result; never waits."""
        with self._changed:
            if self._closed:
                return
            self._dropped += len(self._waiting) == self._waiting.maxlen
            self._waiting.append(result)
            self._changed.notify_all()

    def drain(self, deadline_s: float) -> bool:
        """Wait until every result has been handed out, up to a time of `time.monotonic`."""
        if self.is_current:
            return True
        with self._changed:
            return self._changed.wait_for(
                lambda: self._closed or not (self._waiting or self._running),
                max(deadline_s - time.monotonic(), 0.0),
            )

    def close(self, wait_s: float) -> None:
        """Drop what waits; a call that runs is waited for, but no longer than `wait_s`."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()
        if not self.is_current:
            self._thread.join(wait_s)
            if self._thread.is_alive():
                _LOG.warning("a callback still runs %g s after closing; it is left alone", wait_s)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._waiting)
                if self._closed:
                    return
                result = self._waiting.popleft()
                self._running = True
            error = self._call(result)
            with self._changed:
                self._running = False
                self._error = error
                self._changed.notify_all()

    def _call(self, result: Result) -> str:
        try:
            self._function(result)
        except BaseException as error:  # SystemExit in a callback must not end the stream
            text = f"the callback raised {type(error).__name__}: {error}"
            if text != self._error:
                _LOG.warning("%s; the stream goes on", text, exc_info=True)
            return text
        return ""
