"""Standard output and error that may be closed, full, or without UTF-8."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper

from maci2.errors import OutputError

UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF)
"""Errors of a stream that cannot be written, except a closed pipe."""


@contextmanager
def usable_streams() -> Iterator[None]:
    """Make printing safe: a stream that cannot be written gives an error, not a traceback."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.filename is not None or error.errno not in (*UNWRITABLE, errno.EPIPE):
            raise
        _drop_output()
        if error.errno == errno.EPIPE:
            sys.exit(1)
        raise OutputError(
            f"the standard output cannot be written ({os.strerror(error.errno).lower()}), so the "
            "result was not printed. Check where the output goes and how much space is left."
        ) from None


def _drop_output() -> None:
    """Discard what is still buffered, which would fail again when the interpreter exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
