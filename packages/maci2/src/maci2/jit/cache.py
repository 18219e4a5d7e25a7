"""Folders of compiled kernels: one for this very code on this very processor.

Numba asks only whether the file of a function has changed, not the files of the functions it
calls. So the folder's name holds a digest of all that kernels are made of, and a kernel from
before a change is never found.
"""

import hashlib
import os
import platform
import sys
import tempfile
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]

MARKS = (b"maci2.jit import", b"import njit")
"""Sources with one of these hold kernels; `maci2/types.py` holds their constants, and this room
how they are compiled."""


@lru_cache(maxsize=1)
def cache_folder() -> Path | None:
    """Folder that new kernels are written to, created; None where nothing can be written."""
    return next((folder for folder in cache_folders() if _is_writable(folder)), None)


def cache_folders() -> list[Path]:
    """Folders that kernels are read from, the first that has one first.

    `NUMBA_CACHE_DIR` if it is set, or else beside the package and in the user's cache. What was
    filled in advance where nothing can be written (an image, a robot) is read in its place.
    """
    return [base / f"kernels-{_digest()}" for base in _bases()]


def is_filled(job: str) -> bool:
    """The kernels of a job have been compiled."""
    return any(stamp_of(folder, job).exists() for folder in cache_folders())


def stamp_of(folder: Path, job: str) -> Path:
    """File that says a job's kernels are all in the folder."""
    return folder / f"{job}.filled"


def kernels_in(folder: Path) -> int:
    """Number of kernels in the folder."""
    return sum(1 for _ in folder.rglob("*.nbi"))


def _bases() -> list[Path]:
    if os.environ.get("NUMBA_CACHE_DIR"):
        return [Path(os.environ["NUMBA_CACHE_DIR"])]
    user = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return [PACKAGE / "__pycache__", Path(user) / "maci2"]


@lru_cache(maxsize=1)
def _digest() -> str:
    """Digest of Python, numba, the processor and the sources of all kernels."""
    import llvmlite.binding as llvm

    machine = (sys.version, version("numba"), version("numpy"), platform.machine())
    processor = (llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())
    digest = hashlib.sha256(repr((machine, processor)).encode())
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_bytes()
        is_kernel = any(mark in source for mark in MARKS)
        if is_kernel or path == PACKAGE / "types.py" or path.parent == PACKAGE / "jit":
            digest.update(str(path.relative_to(PACKAGE)).encode() + source)
    return digest.hexdigest()[:16]


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
