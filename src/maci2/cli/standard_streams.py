"""The standard output and error as users have them: closed, full, or without UTF-8."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper

from maci2.errors import OutputError

UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF)
"""Reasons why a stream takes nothing more, other than a reader that left."""


@contextmanager
def usable_streams() -> Iterator[None]:
    """What is printed goes somewhere, or is an error: never a traceback, never a quiet success."""
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
            f"the standard output cannot be written ({os.strerror(error.errno).lower()}); what was "
            "found is not printed. Check the place that it is sent to, and the space left."
        ) from None


def _drop_output() -> None:
    """What is still buffered would fail once more when the interpreter ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
