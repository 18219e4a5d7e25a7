"""Arrays in `.npz` files: never pickled, and no memory taken before shape and size are checked."""

import io
import math
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from maci2.errors import Maci2Error, MeasurementError
from maci2.files.reading import MAX_BYTES, read_bytes
from maci2.files.writing import write_atomically

MAX_UNPACKED_BYTES = 1 << 28
"""Largest total size of compressed arrays after unpacking; uncompressed arrays are bounded by the
size of the file."""

KIND_NAMES = {"iu": "integers", "f": "floating-point numbers", "U": "text", "b": "true or false"}


@dataclass(frozen=True)
class NpzField:
    """Required type and shape of an array in a file."""

    kinds: str
    """Kinds of the array's dtype in numpy's notation: "iu", "f", "U" or "b"."""

    shape: tuple[int | str, ...]
    """Sizes; those named by a letter may be any, but the same for all arrays of the file."""

    optional: bool = False
    """The file may lack it."""


def write_npz(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays under their names, whole or not at all."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    write_atomically(path, buffer.getvalue())


def read_npz(
    path: Path,
    fields: Mapping[str, NpzField],
    what: str,
    error: type[Maci2Error] = MeasurementError,
) -> dict[str, NDArray]:
    """The arrays named in `fields`; other arrays of the file are ignored."""
    content = read_bytes(path, what, MAX_BYTES, error)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = _entries(archive, fields, path, error)
            raw = {name: archive.read(entry) for name, entry in entries.items()}
    except Maci2Error:
        raise
    except Exception as problem:  # a damaged archive can make the parser fail in any way
        raise error(
            f"{path}: is no readable .npz file ({problem or type(problem).__name__}); it should "
            f"hold {what}. Copy or write it again."
        ) from None
    arrays = {
        name: _array(data, fields[name], f"{path}: {name}", error) for name, data in raw.items()
    }
    _require_shapes(arrays, fields, path, error)
    return arrays


def _entries(
    archive: zipfile.ZipFile, fields: Mapping[str, NpzField], path: Path, error: type[Maci2Error]
) -> dict[str, zipfile.ZipInfo]:
    """Position of each array in the file, by name, with a bound on the unpacked size."""
    found = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
    missing = [name for name, field in fields.items() if name not in found and not field.optional]
    if missing:
        raise error(
            f"{path}: lacks {', '.join(missing)}; holds {', '.join(sorted(found)) or 'nothing'}. "
            "Write it again with `maci2 vo`, or with numpy.savez and these names."
        )
    entries = {name: found[name] for name in fields if name in found}
    unpacked = sum(entry.file_size for entry in entries.values())
    stored = sum(entry.compress_size for entry in entries.values())
    if unpacked > max(MAX_UNPACKED_BYTES, stored):
        raise error(
            f"{path}: would unpack to {unpacked / 1e6:.0f} MB, needed at most "
            f"{MAX_UNPACKED_BYTES / 1e6:.0f} MB. Copy it again, or split it."
        )
    return entries


def _array(data: bytes, field: NpzField, place: str, error: type[Maci2Error]) -> NDArray:
    """One array from the bytes of its .npy entry."""
    try:
        file = io.BytesIO(data)
        version = npy.read_magic(file)
        read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, by_column, dtype = read_header(file)
        body = data[file.tell() :]
    except Exception as problem:  # the header is Python text of any content
        raise error(f"{place}: has no readable header ({problem}); write the file again.") from None
    if dtype.kind not in field.kinds:
        raise error(
            f"{place}: holds {dtype.name}, needed {KIND_NAMES[field.kinds]}. Convert the array and "
            "write the file again."
        )
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(body):
        raise error(
            f"{place}: shape {shape} of {dtype.name} needs {math.prod(shape) * dtype.itemsize} "
            f"bytes, found {len(body)}: the file is damaged. Copy or write it again."
        )
    array = np.frombuffer(body, dtype) if dtype.itemsize else np.zeros(math.prod(shape), dtype)
    array = array.reshape(shape, order="F" if by_column else "C")
    if dtype.kind == "U":
        return _text(array, place, error)
    return np.array(array.astype(dtype.newbyteorder("=")), order="C")


def _text(array: NDArray, place: str, error: type[Maci2Error]) -> NDArray:
    try:
        return np.array(array.tolist(), dtype=np.str_)
    except ValueError as problem:
        raise error(f"{place}: holds text that cannot be read ({problem}).") from None


def _require_shapes(
    arrays: Mapping[str, NDArray],
    fields: Mapping[str, NpzField],
    path: Path,
    error: type[Maci2Error],
) -> None:
    sizes: dict[str, int] = {}
    for name, array in arrays.items():
        needed = fields[name].shape
        fits = len(needed) == array.ndim and all(
            size == (wanted if isinstance(wanted, int) else sizes.setdefault(wanted, size))
            for size, wanted in zip(array.shape, needed, strict=True)
        )
        if not fits:
            known = tuple(
                sizes.get(size, size) if isinstance(size, str) else size for size in needed
            )
            shape = ", ".join(str(size) for size in known)
            raise error(f"{path}: {name} has shape {array.shape}, needed ({shape}).")
