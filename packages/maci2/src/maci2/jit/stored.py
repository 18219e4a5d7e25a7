"""Compiled kernels in files, found again by the names of module and function.

Numba's own cache looks under the path of the source file and compares its modification time, so a
kernel compiled in one checkout, image or environment is lost to another that holds the very same
code. The folder's name already stands for the code (`cache.py`), so neither matters here.
"""

import hashlib
import pickle
from pathlib import Path
from typing import Any

from numba.core.compiler import CompileResult
from numba.core.runtime import rtsys
from numba.core.serialize import dumps

from maci2.errors import OutputError
from maci2.files import write_atomically
from maci2.jit.cache import cache_folder, cache_folders

DIGEST_BYTES = hashlib.sha256().digest_size


def is_stored(function: Any) -> bool:
    """The function has been compiled for some types of its arguments."""
    return any(_has_kernel(folder, function) for folder in cache_folders())


class KernelFiles:
    """Numba's interface of a cache: one file for each list of types that a kernel is compiled for.

    Each begins with the SHA-256 of the rest. A machine that loses its power leaves files of the
    right name and half their content, and machine code with one wrong bit kills the interpreter:
    a file that does not fit its checksum is as good as missing, and is written again.
    """

    def __init__(self, function: Any, folder: Path) -> None:
        self.cache_path = str(folder / function.__module__)
        self._name = _name_of(function)
        # The folder's name covers this package's files only.
        self._source = Path(function.__code__.co_filename).read_bytes()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Read a kernel, or None.

        Numba would first load all that it compiles with, a third of a second. Running a kernel
        takes only the counting of references; who compiles loads the rest then.
        """
        rtsys.initialize(target_context)
        try:
            content = self._path(sig).read_bytes()
        except OSError:
            return None
        if hashlib.sha256(content[DIGEST_BYTES:]).digest() != content[:DIGEST_BYTES]:
            return None
        return CompileResult._rebuild(target_context, *pickle.loads(content[DIGEST_BYTES:]))

    def save_overload(self, sig: Any, compiled: Any) -> None:
        """Keep a kernel; one that cannot be written is compiled again next time."""
        if compiled.library.has_dynamic_globals:
            return  # it holds addresses of this process
        content = dumps(compiled._reduce())
        path = self._path(sig)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, hashlib.sha256(content).digest() + content)
        except (OSError, OutputError):
            return

    def _path(self, sig: Any) -> Path:
        key = hashlib.sha256(repr(sig).encode() + self._source).hexdigest()[:16]
        return Path(self.cache_path) / f"{self._name}.{key}.nbi"


def kernel_files(function: Any) -> KernelFiles | None:
    """Files of a kernel; None where there are none yet and no folder to write them to."""
    with_kernel = (folder for folder in cache_folders() if _has_kernel(folder, function))
    folder = next(with_kernel, cache_folder())
    return None if folder is None else KernelFiles(function, folder)


def _name_of(function: Any) -> str:
    return f"{function.__qualname__}-{function.__code__.co_firstlineno}"


def _has_kernel(folder: Path, function: Any) -> bool:
    return any((folder / function.__module__).glob(f"{_name_of(function)}.*.nbi"))
