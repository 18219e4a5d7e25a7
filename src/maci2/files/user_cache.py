"""The user's cache: results that can be made again at any time."""

import os
import tempfile
from pathlib import Path


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
