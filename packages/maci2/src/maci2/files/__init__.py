"""Reading and writing of files: any content gives a value or an error with a remedy.

Reading goes through `read_bytes`, `read_text`, `read_lines`, `read_json` and `read_npz`; writing
through `write_atomically`, `write_json`, `write_npz`, `write_together` and `open_lines`.
"""

from maci2.files.reading import (
    NpzField,
    parse_json,
    read_bytes,
    read_json,
    read_lines,
    read_npz,
    read_text,
)
from maci2.files.writing import (
    finite_or_none,
    json_text,
    open_lines,
    real_path,
    require_new_folder,
    require_writable,
    user_cache,
    whole_folder,
    write_atomically,
    write_json,
    write_npz,
    write_together,
)

__all__ = [
    "NpzField",
    "finite_or_none",
    "json_text",
    "open_lines",
    "parse_json",
    "read_bytes",
    "read_json",
    "read_lines",
    "read_npz",
    "read_text",
    "real_path",
    "require_new_folder",
    "require_writable",
    "user_cache",
    "whole_folder",
    "write_atomically",
    "write_json",
    "write_npz",
    "write_together",
]
