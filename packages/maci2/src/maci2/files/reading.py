"""Bytes, text, JSON and arrays from files of unknown quality.

Every error names the file, the line where there is one, what was found, what is needed and what to
do; `error` is its class, by what the file should have been. Arrays in `.npz` files are never
unpickled, and take no memory before shape and size are checked.
"""

import io
import json
import math
import os
import stat
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from maci2.errors import DatasetError, Maci2Error, MeasurementError

MAX_BYTES = 1 << 30
"""Largest file read at once: an IMU at 1 kHz writes this much in two hours."""

UTF_16_MARKS = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
"""Byte order marks of what some Windows programs call Unicode."""

UTF_8_MARK = b"\xef\xbb\xbf"


def read_bytes(
    path: Path, what: str, limit: int = MAX_BYTES, error: type[Maci2Error] = DatasetError
) -> bytes:
    """The content of a regular file; `what` says in plain words what it should hold."""
    try:
        # Opened without waiting: a FIFO that nobody writes to would block for ever.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except (FileNotFoundError, NotADirectoryError):
        raise error(
            f"{path}: file not found; it should hold {what}. Check the path, or that the "
            "recording was unpacked completely."
        ) from None
    except (OSError, ValueError) as problem:
        raise error(
            f"{path}: cannot be opened ({reason_of(problem)}); it should hold {what}. Check the "
            "path and the permissions of the file."
        ) from None
    try:
        status = os.fstat(handle)
        if stat.S_ISDIR(status.st_mode):
            raise error(
                f"{path}: is a folder, needed a file that holds {what}. Name the file in it."
            )
        if not stat.S_ISREG(status.st_mode):
            raise error(
                f"{path}: is a device or a pipe, needed a regular file that holds {what}. Write "
                "the data to a file first."
            )
        size, content = status.st_size, b""
        if size <= limit:
            with open(handle, "rb", closefd=False) as file:
                # As much as is requested is allocated first: the size, and a byte to see it grow.
                content = file.read(size + 1)
            size = len(content)
    except OSError as problem:
        raise error(
            f"{path}: cannot be read ({reason_of(problem)}); it should hold {what}. Copy the file "
            "again."
        ) from None
    finally:
        os.close(handle)
    if size > limit:
        raise error(
            f"{path}: has {size / 1e6:.1f} MB, needed at most {limit / 1e6:.1f} MB for {what}. "
            "Check that this is the right file, or split it."
        )
    return content


def read_text(
    path: Path, what: str, limit: int = MAX_BYTES, error: type[Maci2Error] = DatasetError
) -> str:
    """The text of a file, UTF-8 or UTF-16 with its mark; every line ends in a line feed."""
    return decode_text(read_bytes(path, what, limit, error), str(path), error)


def read_lines(path: Path, what: str) -> list[str]:
    """The lines of a text file; only line feeds and carriage returns end one."""
    lines = read_text(path, what).split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def read_json(path: Path, what: str, *, error: type[Maci2Error] = DatasetError) -> dict[str, Any]:
    """The JSON object in a file."""
    return parse_json(read_text(path, what, error=error), str(path), what, error)


def parse_json(
    text: str, source: str, what: str, error: type[Maci2Error] = DatasetError
) -> dict[str, Any]:
    """The JSON object in a text; `source` names where the text is from."""
    try:
        record = json.loads(text)
    except json.JSONDecodeError as problem:
        raise error(
            f"{source}, line {problem.lineno}: is no JSON ({problem.msg} at column "
            f"{problem.colno}); it should hold {what}. Write the file again."
        ) from None
    except (ValueError, RecursionError) as problem:
        raise error(
            f"{source}: is no usable JSON ({problem}); it should hold {what}. Write the file again."
        ) from None
    if not isinstance(record, dict):
        raise error(
            f"{source}: holds a JSON {type(record).__name__}, needed an object, {{...}}: {what}. "
            "Write the file again."
        )
    return record


def decode_text(content: bytes, source: str, error: type[Maci2Error] = DatasetError) -> str:
    """Text from bytes: byte order marks and carriage returns are removed."""
    encoding = UTF_16_MARKS.get(content[:2], "utf-8")
    body = content[2:] if encoding != "utf-8" else content.removeprefix(UTF_8_MARK)
    try:
        text = body.decode(encoding)
    except UnicodeDecodeError as problem:
        line = body[: problem.start].count(b"\n") + 1
        raise error(
            f"{source}, line {line}: byte 0x{body[problem.start]:02x} is not {encoding.upper()} "
            "text. Save the file as UTF-8, or copy it again if it is damaged."
        ) from None
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise error(
            f"{source}, line {line}: holds a zero byte, needed text. The file is binary or was "
            "not written completely; copy or record it again."
        )
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text


def reason_of(problem: Exception) -> str:
    """Reason given by the operating system, without the path, in lower case."""
    said = getattr(problem, "strerror", None) or str(problem)
    return said[:1].lower() + said[1:]


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
    sizes: dict[int | str, int] = {}
    for name, array in arrays.items():
        needed = fields[name].shape
        fits = len(needed) == array.ndim and all(
            size == (wanted if isinstance(wanted, int) else sizes.setdefault(wanted, size))
            for size, wanted in zip(array.shape, needed, strict=True)
        )
        if not fits:
            shape = ", ".join(str(sizes.get(size, size)) for size in needed)
            raise error(f"{path}: {name} has shape {array.shape}, needed ({shape}).")
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
    """Array from the bytes of its .npy entry."""
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
    if dtype.kind != "U":
        return np.array(array.astype(dtype.newbyteorder("=")), order="C")
    try:
        return np.array(array.tolist(), dtype=np.str_)
    except ValueError as problem:
        raise error(f"{place}: holds text that cannot be read ({problem}).") from None
