"""Compiled kernels in files, found again by the names of module and function.

Numba looks under the path of the source file and compares its modification time, so a kernel
compiled in one checkout, image or environment is lost to another that holds the very same code.
The folder's name already stands for the code (`cache.py`), so neither is asked here.
"""

import hashlib
import pickle
from pathlib import Path
from typing import Any

from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    _CacheLocator,
)
from numba.core.runtime import rtsys

from maci2.jit.cache import cache_folder, cache_folders

DIGEST_BYTES = hashlib.sha256().digest_size


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
        """Digest of the file: the folder's name covers this package's files only."""
        return hashlib.sha256(Path(self._py_file).read_bytes()).hexdigest()

    def get_disambiguator(self) -> str:
        """The function's line."""
        return str(self._function.__code__.co_firstlineno)


class KernelStore(CompileResultCacheImpl):
    """Numba's form of a compiled function in a file, at this room's places."""

    _locator_classes: Any = (KernelLocator,)


class KernelFiles(IndexDataCacheFile):
    """Index and machine code of one function, each behind its SHA-256.

    A machine that loses its power leaves files of the right name and half their content, and
    machine code with one wrong bit kills the interpreter. Files that do not fit their checksum are
    as good as missing: the kernel is compiled again, and its files replaced.
    """

    def _load_index(self) -> dict[Any, str]:
        try:
            version, stamp, overloads = _read(self._index_path)
        except OSError:
            return {}
        return overloads if (version, stamp) == (self._version, self._source_stamp) else {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        self._write(self._index_path, (self._version, self._source_stamp, overloads))

    def _load_data(self, name: str) -> Any:
        return _read(self._data_path(name))

    def _save_data(self, name: str, data: Any) -> None:
        self._write(self._data_path(name), data)

    def _write(self, path: str, record: Any) -> None:
        content = self._dump(record)
        with self._open_for_write(path) as file:
            file.write(hashlib.sha256(content).digest() + content)


def _read(path: str) -> Any:
    """The record that `KernelFiles` wrote; OSError where the file is missing or damaged."""
    content = Path(path).read_bytes()
    if hashlib.sha256(content[DIGEST_BYTES:]).digest() != content[:DIGEST_BYTES]:
        raise OSError(f"{path}: is damaged")
    return pickle.loads(content[DIGEST_BYTES:])


class KernelCache(FunctionCache):
    """Numba's cache of a function; raises RuntimeError where there is no folder for it."""

    _impl_class = KernelStore

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        source_stamp = self._impl.locator.get_source_stamp()
        self._cache_file = KernelFiles(self._cache_path, self._impl.filename_base, source_stamp)

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
