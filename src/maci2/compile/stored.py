"""How a compiled kernel is found again: by the names of its module and function.

Numba looks under the path of the source file and compares its modification time, so a kernel
compiled in one checkout, image or environment is lost to another that holds the very same code.
The folder's name already stands for the code (`cache.py`), so neither is asked here.
"""

import hashlib
from pathlib import Path
from typing import Any

from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.core.runtime import rtsys

from maci2.compile.cache import cache_folder, cache_folders


def is_stored(function: Any) -> bool:
    """The function has been compiled for some types of its arguments."""
    return any(_has_kernel(folder, function) for folder in cache_folders())


class KernelLocator(_CacheLocator):
    """Numba's questions about where a kernel is kept, answered from its module's name."""

    def __init__(self, function: Any, path: str, folder: Path) -> None:
        self._py_file = path
        self._function = function
        self._folder = folder

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> "KernelLocator | None":
        """None where there is neither the kernel nor a folder to write it to."""
        with_kernel = (folder for folder in cache_folders() if _has_kernel(folder, py_func))
        folder = next(with_kernel, cache_folder())
        return None if folder is None else cls(py_func, py_file, folder)

    def get_cache_path(self) -> str:
        """Folder of the module's kernels."""
        return str(self._folder / self._function.__module__)

    def get_source_stamp(self) -> str:
        """What the file holds: the folder's name says so of this package's files only."""
        return hashlib.sha256(Path(self._py_file).read_bytes()).hexdigest()

    def get_disambiguator(self) -> str:
        """The function's line."""
        return str(self._function.__code__.co_firstlineno)


class KernelStore(CompileResultCacheImpl):
    """Numba's form of a compiled function in a file, at this room's places."""

    _locator_classes: Any = (KernelLocator,)


class KernelCache(FunctionCache):
    """Numba's cache of a function; raises RuntimeError where there is no folder for it."""

    _impl_class = KernelStore

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Read a kernel, or None.

        Numba would first load all that it compiles with, a third of a second. Running a kernel
        takes only the counting of references; who compiles loads the rest then.
        """
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a kernel; one that cannot be written is compiled again next time."""
        try:
            super().save_overload(sig, data)
        except OSError:
            self.disable()


def _has_kernel(folder: Path, function: Any) -> bool:
    pattern = f"*.{function.__qualname__}-{function.__code__.co_firstlineno}.*.nbi"
    return any((folder / function.__module__).glob(pattern))
