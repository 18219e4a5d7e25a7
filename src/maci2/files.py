"""Writing files whole or not at all, and JSON in one form."""

import json
import math
import os
import tempfile
from pathlib import Path
from typing import Any


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write `content` under a temporary name in the same folder, then rename it to `path`."""
    data = content.encode("utf-8") if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        # mkstemp makes private files; a result should be as readable as any other file.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def write_json(path: Path, record: Any) -> None:
    """Write a record as indented JSON, whole or not at all; NaN has no place in it."""
    write_atomically(path, json.dumps(record, indent=2, allow_nan=False) + "\n")


def finite_or_none(value: float) -> float | None:
    """The number, or None (null in JSON) where it is NaN or infinite."""
    return float(value) if math.isfinite(value) else None
