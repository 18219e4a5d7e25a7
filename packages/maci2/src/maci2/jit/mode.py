"""Choice of this process to compile its kernels or to interpret them, made once for all of them.

A kernel cannot change sides later: compiled kernels call each other without asking. Only those of
a job that is seldom run may wait for a caller that runs it often.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, get_args

from maci2.errors import OptionError
from maci2.jit.cache import is_filled

Mode = Literal["auto", "compiled", "interpreted"]
"""`auto`: compiled where the cache has what is needed, interpreted where it has not."""

VARIABLE = "MACI2_KERNELS"
"""Environment variable that overrides what a program asks for."""


class _Choice:
    """The mode requested, and the one in use once the first kernel was defined."""

    mode: Mode = "compiled"
    jobs: tuple[str, ...] = ()
    interpreted: bool | None = None
    aside: bool = False


_CHOICE = _Choice()
_SELDOM: ContextVar[tuple[str, ...]] = ContextVar("seldom", default=())


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


def use_kernels(mode: Mode, jobs: tuple[str, ...] = ()) -> None:
    """Choose before the first kernel is imported; `jobs` are what `auto` looks for in the cache.

    Without a call kernels are compiled. `MACI2_KERNELS` overrides it.
    """
    if mode not in get_args(Mode):
        raise OptionError(f"kernels are {', '.join(get_args(Mode))}; found {mode!r}.")
    if _CHOICE.interpreted is not None:
        raise OptionError("kernels are in use already; choose before importing any of them.")
    _CHOICE.mode, _CHOICE.jobs = mode, jobs


def are_decided() -> bool:
    """The first kernel has been defined, so it is too late to choose."""
    return _CHOICE.interpreted is not None


def chosen_mode() -> Mode:
    """Mode that the environment requests, or else the program."""
    named = os.environ.get(VARIABLE, "")
    if not named:
        return _CHOICE.mode
    for mode in get_args(Mode):
        if named == mode:
            return mode
    raise OptionError(f"{VARIABLE} is {named!r}; it may be {', '.join(get_args(Mode))}.")


def are_interpreted() -> bool:
    """Kernels run as plain Python in this process; the first question decides."""
    if _CHOICE.interpreted is None:
        mode = chosen_mode()
        cold = mode == "auto" and not all(is_filled(job) for job in _CHOICE.jobs)
        disabled = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
        _CHOICE.interpreted = mode == "interpreted" or cold or disabled
        _CHOICE.aside = cold and not disabled
        if is_interpreting_asked_for():
            _disable_numba()
    return _CHOICE.interpreted


def is_interpreting_asked_for() -> bool:
    """Kernels are interpreted, and not for want of compiled ones."""
    return are_interpreted() and not _CHOICE.aside


def jobs_to_fill_aside() -> tuple[str, ...]:
    """Jobs that another process had better compile, since this one interprets only for the lack of
    it."""
    return _CHOICE.jobs if are_interpreted() and _CHOICE.aside else ()


def _disable_numba() -> None:
    """Also for functions that use numba without this room: they may call kernels."""
    if "numba" in sys.modules:
        sys.modules["numba"].config.DISABLE_JIT = True
    else:
        os.environ["NUMBA_DISABLE_JIT"] = "1"
