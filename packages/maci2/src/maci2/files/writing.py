"""Atomic writing of files, which never replaces anything but a regular file, and the user's cache
of results that can be made again at any time."""

import errno
import io
import json
import math
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from maci2.errors import OutputError
from maci2.files.reading import reason_of

Content = str | bytes


def write_atomically(path: Path, content: Content) -> None:
    """Write `content` under a temporary name in the same folder, then rename it to `path`.

    Content is on the disk before the rename and the rename before the return, so that a power cut
    leaves the old file or the new one, never half of it.
    """
    write_together({path: content})


def write_json(path: Path, record: Any) -> None:
    """Write a record as indented JSON, whole or not at all; NaN has no place in it."""
    write_atomically(path, json_text(record))


def json_text(record: Any) -> str:
    """A record as indented JSON; NaN has no place in it."""
    return json.dumps(record, indent=2, allow_nan=False) + "\n"


def write_together(contents: Mapping[Path, Content]) -> None:
    """Write the files of one result: either all of them are replaced, or none is.

    Only a process killed between two renames leaves some of them new and some old; each file is
    whole even then.
    """
    staged: list[tuple[Path, Path]] = []
    try:
        for path, content in contents.items():
            with _failing_as_output_error(path):
                target = _replaceable(path)
                staged.append((_stage(target, content), target))
        _rename(staged)
    finally:
        for temporary, _ in staged:
            temporary.unlink(missing_ok=True)


def write_npz(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays under their names, whole or not at all."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    write_atomically(path, buffer.getvalue())


@contextmanager
def open_lines(path: Path) -> Iterator[Callable[[str], None]]:
    """A file that grows while a command runs: the yielded function appends one line, which readers
    see at once."""
    if str(path) == "-":
        yield _print_line
        return
    with _failing_as_output_error(path):
        target = _replaceable(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        file = target.open("w", encoding="utf-8")

    def append(line: str) -> None:
        with _failing_as_output_error(path):
            file.write(line + "\n")
            file.flush()

    with file:
        yield append


def _print_line(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def require_writable(path: Path) -> None:
    """Raise if a file cannot be written; called before long work whose result goes there."""
    with _failing_as_output_error(path):
        target = _replaceable(path)
        folder = next(folder for folder in target.parents if folder.exists())
        if not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        # Asked by doing: root may write anywhere by its rights, and not in /proc all the same.
        with tempfile.TemporaryFile(dir=folder):
            pass


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A new folder to write into; it gets its final name when everything is written, and is removed
    otherwise.

    Nothing is ever written over: `folder` must not exist, or be empty.
    """
    require_new_folder(folder)
    with _failing_as_output_error(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name[:40]}."))
    try:
        with _failing_as_output_error(folder):
            yield temporary
            # mkdtemp makes private folders; a result should be as readable as its files.
            temporary.chmod(0o777 & ~_umask())
            if folder.exists():
                folder.rmdir()
            for path in (*temporary.rglob("*"), temporary):
                _put_on_disk(path)
            temporary.rename(folder)
            _put_on_disk(folder.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def require_new_folder(folder: Path) -> None:
    """Raise if a folder of this name is not empty; called before long work."""
    with _failing_as_output_error(folder):
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise OutputError(
                f"{folder} exists and is not an empty folder; nothing was written. Choose another "
                "name or remove it first."
            )


def finite_or_none(value: float) -> float | None:
    """The number, or None (null in JSON) if it is NaN or infinite."""
    return float(value) if math.isfinite(value) else None


def real_path(path: Path) -> Path:
    """The path with all links resolved."""
    return Path(os.path.realpath(path))


def _replaceable(path: Path) -> Path:
    """The regular file to write, with links resolved; raises if the name belongs to something
    else."""
    if "\0" in str(path):
        raise OSError(errno.EINVAL, "the name holds a zero byte")
    target = real_path(path)
    try:
        status = os.stat(target)
    except FileNotFoundError:
        return target
    if stat.S_ISDIR(status.st_mode):
        raise OutputError(f"{path}: is a folder, needed the name of a file; nothing was written.")
    if not stat.S_ISREG(status.st_mode) or _is_own_output(status):
        raise OutputError(
            f"{path}: is a device, a pipe or the terminal, and is never replaced; nothing was "
            "written. Give the name of a regular file."
        )
    return target


def _is_own_output(status: os.stat_result) -> bool:
    """True for the file that this process prints to: /dev/stdout of a redirected
    command."""
    for stream in (sys.__stdout__, sys.__stderr__):
        with suppress(OSError, ValueError):
            if stream is not None and os.path.samestat(status, os.fstat(stream.fileno())):
                return True
    return False


def _stage(target: Path, content: Content) -> Path:
    """Write to a new file with a random name in the folder of the target."""
    data = content.encode("utf-8") if isinstance(content, str) else content
    target.parent.mkdir(parents=True, exist_ok=True)
    with _beside(target) as (file, temporary):
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
        # Permissions of the file replaced, else those of any new file; mkstemp makes private ones.
        replaced = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
        temporary.chmod(0o666 & ~_umask() if replaced is None else replaced)
    return temporary


@contextmanager
def _beside(target: Path) -> Iterator[tuple[BinaryIO, Path]]:
    """A new file with a random name in the folder of the target, removed if it cannot be filled."""
    # mkstemp never follows a link and never opens what exists; the name is kept short of limits.
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:40]}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file, Path(name)
    except BaseException:
        os.unlink(name)
        raise


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask


def _rename(staged: list[tuple[Path, Path]]) -> None:
    """Rename all; where one cannot be renamed, those before it are put back."""
    undo: list[tuple[Path, Path, Path | None]] = []
    try:
        for temporary, target in staged:
            with _failing_as_output_error(target):
                undo.append((temporary, target, _kept(target) if len(staged) > 1 else None))
                os.replace(temporary, target)
    except BaseException:
        for temporary, target, kept in reversed(undo):
            # An interrupt can come after a file was renamed and before the next one is.
            if len(staged) == 1 or temporary.exists():
                continue
            if kept is None:
                target.unlink(missing_ok=True)
            else:
                os.replace(kept, target)
        raise
    finally:
        for *_, kept in undo:
            if kept is not None:
                kept.unlink(missing_ok=True)
    for folder in {target.parent for _, target in staged}:
        with _failing_as_output_error(folder):
            _put_on_disk(folder)


def _put_on_disk(path: Path) -> None:
    """Wait until a file's content, or the names in a folder, would survive a power cut."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return  # a folder that cannot be opened, as on Windows or without the right to list it
    try:
        os.fsync(handle)
    except OSError as problem:
        # Some network and user-space file systems cannot do this for a folder.
        if problem.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(handle)


def _kept(target: Path) -> Path | None:
    """A copy of a file that is about to be replaced; None if there is no file."""
    if not target.exists():
        return None
    with _beside(target) as (_, kept):
        shutil.copy2(target, kept)
    return kept


@contextmanager
def _failing_as_output_error(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise OutputError(
            f"{path}: cannot be written ({reason_of(problem)}); nothing was changed. Choose "
            "another place, or check the folder, its permissions and the space left."
        ) from problem


def user_cache(kind: str) -> Path | None:
    """Folder of one kind of result, created; None where nothing can be written.

    `XDG_CACHE_HOME` if it is set, or else `~/.cache`.
    """
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = Path(base) / "maci2" / kind
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return None
