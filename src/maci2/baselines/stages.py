"""Timing of the stages of an initializer, without changes to the initializer."""

import threading
import time
from collections.abc import Callable
from functools import wraps
from typing import NamedTuple, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class StageTime(NamedTuple):
    """Wall time of one stage."""

    name: str
    ms: float


class _Clock(threading.local):
    """Timer of the current thread; inactive outside `with_stage_times`."""

    times: dict[str, float] | None = None
    inside: bool = False
    """Whether a stage is running; nested stages count as part of it."""


_CLOCK = _Clock()


def stage(name: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorator of functions that are stages of initializers."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def timed(*args: P.args, **kwargs: P.kwargs) -> T:
            times = _CLOCK.times
            if times is None or _CLOCK.inside:
                return function(*args, **kwargs)
            _CLOCK.inside = True
            began_s = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                _CLOCK.inside = False
                times[name] = times.get(name, 0.0) + 1e3 * (time.perf_counter() - began_s)

        return timed

    return decorate


def with_stage_times(function: Callable[[], T]) -> tuple[T, tuple[StageTime, ...]]:
    """Result of a function, and the times of its stages in order."""
    times: dict[str, float] = {}
    before, _CLOCK.times = _CLOCK.times, times
    try:
        result = function()
    finally:
        _CLOCK.times = before
    return result, tuple(StageTime(name, ms) for name, ms in times.items())
