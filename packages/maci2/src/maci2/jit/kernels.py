"""The decorator of every kernel, and the choice of this process to compile or to interpret them.

A kernel that Python calls is compiled and cached as a whole. What it calls becomes part of it:
those functions are neither wrapped for Python nor cached on their own. Compiled kernels call each
other without asking, so the choice is made once for all of them; only kernels of a job that is
seldom run may wait for a caller that runs it often.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property, lru_cache, partial, update_wrapper
from importlib import import_module
from typing import Any, Literal, get_args

from maci2.errors import OptionError
from maci2.jit.cache import is_filled

Mode = Literal["auto", "compiled", "interpreted"]
"""`auto`: compiled where the cache has what is needed, interpreted where it has not."""

VARIABLE = "MACI2_KERNELS"
"""Environment variable that overrides what a program asks for."""

OPTIONS = {
    "error_model": "numpy",
    "fastmath": False,
    "forceinline": False,
    "no_cfunc_wrapper": True,
}
"""Numba's options of a kernel that names no others. What numba itself brings along (`np.zeros`) is
compiled once for each set of options, so few sets compile faster."""

OWN_KERNELS = {"maci2.estimator": "initialize"}
"""Rooms whose kernels nobody needs who does not run the job."""


class _Choice:
    """The mode requested, and the one in use once the first kernel was defined."""

    mode: Mode = "compiled"
    jobs: tuple[str, ...] = ()
    interpreted: bool | None = None
    for_want_of_cache: bool = False


_SELDOM: ContextVar[tuple[str, ...]] = ContextVar("seldom", default=())
_ANNOUNCE: list[Callable[[], object]] = []


@contextmanager
def seldom(*jobs: str) -> Iterator[None]:
    """Jobs that are run a few times only in here, which takes less time interpreted than compiling
    does: their kernels are compiled only if the cache has them."""
    token = _SELDOM.set((*_SELDOM.get(), *jobs))
    try:
        yield
    finally:
        _SELDOM.reset(token)


def is_seldom(job: str) -> bool:
    """A job is not worth compiling here."""
    return job in _SELDOM.get()


def before_compiling(callback: Callable[[], object]) -> None:
    """Have `callback` run once in this process, before the first kernel that is not cached."""
    _ANNOUNCE[:] = [callback]


def announce_compiling() -> None:
    """A kernel is not in the cache."""
    if _ANNOUNCE:
        _ANNOUNCE.pop()()


def use_kernels(mode: Mode, jobs: tuple[str, ...] = ()) -> None:
    """Choose before the first kernel is imported; `jobs` are what `auto` looks for in the cache.

    Without a call kernels are compiled. `MACI2_KERNELS` overrides it.
    """
    if mode not in get_args(Mode):
        raise OptionError(f"kernels are {', '.join(get_args(Mode))}; found {mode!r}.")
    if are_decided():
        raise OptionError("kernels are in use already; choose before importing any of them.")
    _Choice.mode, _Choice.jobs = mode, jobs


def are_decided() -> bool:
    """The first kernel has been defined, so it is too late to choose."""
    return _Choice.interpreted is not None


def chosen_mode() -> str:
    """Mode that the environment requests, or else the program."""
    named = os.environ.get(VARIABLE) or _Choice.mode
    if named not in get_args(Mode):
        raise OptionError(f"{VARIABLE} is {named!r}; it may be {', '.join(get_args(Mode))}.")
    return named


def are_interpreted() -> bool:
    """Kernels run as plain Python in this process; the first question decides."""
    if _Choice.interpreted is None:
        mode = chosen_mode()
        cold = mode == "auto" and not all(is_filled(job) for job in _Choice.jobs)
        disabled = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
        _Choice.interpreted = mode == "interpreted" or cold or disabled
        _Choice.for_want_of_cache = cold and not disabled
        if is_interpreting_requested():
            _disable_numba()
    return _Choice.interpreted


def is_interpreting_requested() -> bool:
    """Kernels are interpreted, and not for want of compiled ones."""
    return are_interpreted() and not _Choice.for_want_of_cache


def jobs_to_fill_aside() -> tuple[str, ...]:
    """Jobs that another process had better compile, since this one interprets only for the lack of
    it."""
    return _Choice.jobs if are_interpreted() and _Choice.for_want_of_cache else ()


def warm_up(*jobs: str) -> None:
    """Load what jobs need, so that no measured time includes it.

    Where kernels are interpreted for want of compiled ones, another process compiles from now on.
    """
    if waiting := jobs_to_fill_aside():
        _room("fill").fill_aside(waiting)
    if not are_interpreted():
        for job in jobs:
            _room("fill").target(job)()


def _disable_numba() -> None:
    """Also for functions that use numba without this room: they may call kernels."""
    if "numba" in sys.modules:
        sys.modules["numba"].config.DISABLE_JIT = True
    else:
        os.environ["NUMBA_DISABLE_JIT"] = "1"


def kernel(
    function: Callable[..., Any] | None = None, per_pixel: bool = False, **options: Any
) -> Any:
    """A function in numba's part of Python, for Python and for other kernels.

    `options` are numba's: `fastmath`, `forceinline`, `nogil`. Where kernels are interpreted this
    is the function itself. One that goes through pixels is compiled faster than it is interpreted
    once: `per_pixel` has it compiled unless interpreting was requested. It may call only its like.
    """
    if function is None:
        return partial(kernel, per_pixel=per_pixel, **options)
    interpreted = is_interpreting_requested() if per_pixel else are_interpreted()
    return function if interpreted else Kernel(function, options)


class Kernel:
    """A function that is compiled when Python first calls it, or read from the cache."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        if not are_interpreted():
            _show_kernels_to_numba()
        self.py_func = function
        self._options = OPTIONS | options
        self._compiled: Callable[..., Any] | None = None
        self._job = OWN_KERNELS.get(function.__module__.rpartition(".")[0], "")
        update_wrapper(self, function)

    def __call__(self, *args: Any) -> Any:
        if self._compiled is None:
            if is_seldom(self._job) and not self._was_stored:
                return self.py_func(*args)
            self._compiled = self._entry()
        return self._compiled(*args)

    def __reduce__(self) -> Any:
        # As functions are pickled: by name.
        return _kernel_named, (self.py_func.__module__, self.py_func.__qualname__)

    @cached_property
    def part(self) -> Any:
        """Form of this kernel that other kernels call."""
        _show_kernels_to_numba()
        return _room("linking").PartDispatcher(self.py_func, targetoptions=self._options)

    @cached_property
    def _was_stored(self) -> bool:
        """The cache had the kernel when it was first asked."""
        return bool(_room("stored").is_stored(self.py_func))

    def _entry(self) -> Callable[..., Any]:
        if not _room("stored").is_stored(self.py_func):
            announce_compiling()
        compiled: Any = _room("linking").EntryDispatcher(self.part)
        files = _room("stored").kernel_files(self.py_func)
        if files is not None:
            compiled._cache = files
        return compiled


def _room(module: str) -> Any:
    """A module of this room that compiling needs, and interpreted kernels do without."""
    return import_module(f"maci2.jit.{module}")


@lru_cache(maxsize=1)
def _show_kernels_to_numba() -> None:
    """Have numba take a kernel that a kernel calls for its part."""
    extending: Any = import_module("numba.extending")
    types: Any = import_module("numba.core.types")
    extending.typeof_impl.register(Kernel)(lambda kernel, _: types.Dispatcher(kernel.part))


def _kernel_named(module: str, name: str) -> Any:
    return getattr(import_module(module), name)
