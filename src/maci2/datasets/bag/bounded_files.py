"""Files that never return more bytes than they hold, whatever a damaged header requests.

Reading n bytes allocates n bytes first: four damaged bytes of a bag would ask for gigabytes.
"""

import io
import os
from pathlib import Path
from typing import Any


class BoundedReader(io.BufferedReader):
    """A file opened for reading, with requests cut to its size."""

    def __init__(self, path: Path) -> None:
        super().__init__(io.FileIO(path, "rb"))
        self._size = os.fstat(self.fileno()).st_size

    def read(self, size: int | None = -1, /) -> bytes:
        """Read at most `size` bytes, and never room for more than the file has."""
        return super().read(size if size is None else min(size, self._size))


class BoundedPath(type(Path())):  # type: ignore[misc]
    """A path whose files are opened as `BoundedReader`."""

    def open(self, mode: str = "r", *args: Any, **options: Any) -> Any:
        """Open as `Path.open` does; bounded where bytes are read."""
        return BoundedReader(self) if mode == "rb" else super().open(mode, *args, **options)
