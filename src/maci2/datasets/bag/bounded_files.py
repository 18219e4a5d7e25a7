"""Files that never allocate more bytes than they contain, whatever a damaged header requests.

Reading n bytes allocates n bytes first: four damaged bytes of a bag would ask for gigabytes.
"""

import io
import os
from pathlib import Path
from typing import Any


class BoundedReader(io.BufferedReader):
    """File opened for reading, with requests limited to its size."""

    def __init__(self, path: Path) -> None:
        super().__init__(io.FileIO(path, "rb"))
        self._size = os.fstat(self.fileno()).st_size

    def read(self, size: int | None = -1, /) -> bytes:
        """Read at most `size` bytes, and never allocate more than the file has."""
        return super().read(size if size is None else min(size, self._size))


class BoundedPath(type(Path())):  # type: ignore[misc]
    """Path whose files are opened as `BoundedReader`."""

    def open(self, mode: str = "r", *args: Any, **options: Any) -> Any:
        """Open as `Path.open` does, bounded when bytes are read."""
        return BoundedReader(self) if mode == "rb" else super().open(mode, *args, **options)
