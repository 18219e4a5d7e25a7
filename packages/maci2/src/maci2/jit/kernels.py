"""The decorator of every kernel.

A kernel that Python calls is compiled and cached as a whole. What it calls becomes part of it:
those functions are neither wrapped for Python nor cached on their own.
"""

import logging
from collections.abc import Callable
from functools import cached_property, lru_cache, partial, update_wrapper
from importlib import import_module
from typing import Any

from maci2.jit.fill import OWN_KERNELS, announce_compiling
from maci2.jit.mode import are_interpreted, is_interpreting_asked_for, is_seldom

OPTIONS = {
    "error_model": "numpy",
    "fastmath": False,
    "forceinline": False,
    "no_cfunc_wrapper": True,
}
"""Numba's options of a kernel that names no others. What numba itself brings along (`np.zeros`) is
compiled once for each set of options, so few sets compile faster."""

_LOG = logging.getLogger(__name__)


def kernel(
    function: Callable[..., Any] | None = None, per_pixel: bool = False, **options: Any
) -> Any:
    """A function in numba's part of Python, for Python and for other kernels.

    `options` are numba's: `fastmath`, `forceinline`, `nogil`. Where kernels are interpreted this
    is the function itself. One that goes through pixels is compiled faster than it is interpreted
    once: `per_pixel` has it compiled unless interpreting was asked for. It may call only its like.
    """
    if function is None:
        return partial(kernel, per_pixel=per_pixel, **options)
    interpreted = is_interpreting_asked_for() if per_pixel else are_interpreted()
    return function if interpreted else Kernel(function, options)


class Kernel:
    """A function that is compiled when Python first calls it, or read from the cache."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        if not are_interpreted():
            _show_kernels_to_numba()
        self.py_func = function
        self._options = OPTIONS | options
        self._compiled: Callable[..., Any] | None = None
        self._part: Any = None
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

    def part(self) -> Any:
        """Form of this kernel that other kernels call."""
        if self._part is None:
            _show_kernels_to_numba()
            self._part = _linking().PartDispatcher(self.py_func, targetoptions=self._options)
        return self._part

    @cached_property
    def _was_stored(self) -> bool:
        """The cache had the kernel when it was first asked."""
        stored: Any = import_module("maci2.jit.stored")
        return bool(stored.is_stored(self.py_func))

    def _entry(self) -> Callable[..., Any]:
        stored: Any = import_module("maci2.jit.stored")
        compiled: Any = _linking().EntryDispatcher(self.part())
        if not stored.is_stored(self.py_func):
            announce_compiling()
        try:
            compiled._cache = stored.KernelCache(self.py_func)
        except RuntimeError as error:
            _LOG.info("%s: %s", self.py_func.__qualname__, error)
        return compiled


def _linking() -> Any:
    return import_module("maci2.jit.linking")


@lru_cache(maxsize=1)
def _show_kernels_to_numba() -> None:
    """Have numba take a kernel that a kernel calls for its part."""
    extending: Any = import_module("numba.extending")
    types: Any = import_module("numba.core.types")
    extending.typeof_impl.register(Kernel)(lambda kernel, _: types.Dispatcher(kernel.part()))


def _kernel_named(module: str, name: str) -> Any:
    return getattr(import_module(module), name)
