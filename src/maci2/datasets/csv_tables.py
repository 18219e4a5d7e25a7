"""CSV tables with a stamp in nanoseconds first; columns are found by their headings.

Stamps go from text to int64 without passing through float.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from maci2.errors import DatasetError
from maci2.sensors.validation import (
    require_count,
    require_file,
    require_finite,
    require_increasing,
)
from maci2.types import Array, Stamps

Headings = dict[str, tuple[str, ...]]
"""Our name of a column -> the headings it is known by, lower case, without unit."""

STAMP_HEADINGS = ("timestamp", "time", "t", "stamp")


@dataclass(frozen=True)
class Table:
    """Rows of a CSV file, checked: stamps increase, required columns are finite."""

    stamps_ns: Stamps
    columns: dict[str, Array]
    """Every required column, and those optional ones that the file has."""

    lines: Stamps
    """Line of the file that each row came from."""

    source: str

    def stack(self, *names: str) -> Array:
        """(n, k) array of these columns; NaN for an optional column that the file lacks."""
        missing = np.full(len(self.stamps_ns), np.nan)
        return np.stack([self.columns.get(name, missing) for name in names], axis=1)


def read_table(
    path: Path, what: str, required: Headings, optional: Headings, least: int = 2
) -> Table:
    """Read stamps and columns of `path`; `what` says in plain words what the file holds.

    A file without a heading line has its columns in the order required, optional.
    """
    require_file(path, what)
    header, first_line = _header(path)
    if first_line == 1:
        known = ["timestamp", *[names[0] for names in (required | optional).values()]]
        header = known[: len(header)]
    text = _read_text(path, width=len(header), skip=first_line - 1)
    require_count(len(text), least, str(path))
    where = _locate(header, required, optional, path)
    # +1: the row index that `_read_text` puts first.
    lines = text[:, 0].to_numpy().astype(np.int64) + first_line
    stamps_ns = _numbers(text[:, 1], lines, "timestamp", pl.Int64, path).astype(np.int64)
    columns = {
        name: _numbers(text[:, at + 1], lines, header[at], pl.Float64, path).astype(np.float64)
        for name, at in where.items()
    }
    require_increasing(stamps_ns, str(path), lines)
    if required:
        values = np.stack([columns[name] for name in required], axis=1)
        require_finite(values, [header[where[name]] for name in required], str(path), lines)
    return Table(stamps_ns, columns, lines, str(path))


def _header(path: Path) -> tuple[list[str], int]:
    """Headings without unit, and the line where numbers begin: the first if it has none."""
    with path.open(encoding="utf-8") as file:
        fields = file.readline().strip().split(",")
    if re.fullmatch(r"\s*-?\d+\s*", fields[0]):
        return fields, 1
    return [re.sub(r"[#\s]|\[.*\]|\(.*\)", "", field).lower() for field in fields], 2


def _read_text(path: Path, width: int, skip: int) -> pl.DataFrame:
    """All fields as text, first column the row index; lines without anything are left out."""
    text = pl.read_csv(
        path,
        has_header=False,
        skip_rows=skip,
        schema={f"column_{i}": pl.String for i in range(width)},
        truncate_ragged_lines=True,
        raise_if_empty=False,
    )
    text = text.select(pl.all().str.strip_chars().replace("", None)).with_row_index()
    return text.filter(pl.any_horizontal(pl.exclude("index").is_not_null()))


def _locate(
    header: list[str], required: Headings, optional: Headings, path: Path
) -> dict[str, int]:
    """Our column names -> position in the file."""
    if header[0] not in STAMP_HEADINGS:
        raise DatasetError(
            f"{path}, line 1: the first column is '{header[0]}', needed 'timestamp' in "
            "nanoseconds. Add it or move it to the front."
        )
    where = {}
    for name, headings in (required | optional).items():
        at = next((header.index(heading) for heading in headings if heading in header), None)
        if at is not None:
            where[name] = at
        elif name in required:
            raise DatasetError(
                f"{path}, line 1: no column '{headings[0]}'; found {', '.join(header)}; "
                f"needed timestamp, {', '.join(names[0] for names in required.values())}. "
                "Add the column or correct its heading."
            )
    return where


def _numbers(
    text: pl.Series, lines: Stamps, name: str, kind: type[pl.DataType], path: Path
) -> np.ndarray:
    """The column as numbers; raises at the first field that is not one."""
    numbers = text.cast(kind, strict=False)
    bad = numbers.is_null().to_numpy()
    if bad.any():
        row = int(np.argmax(bad))
        found = "nothing" if text[row] is None else f"'{text[row]}'"
        needed = "an integer of nanoseconds" if kind is pl.Int64 else "a number"
        raise DatasetError(
            f"{path}, line {lines[row]}: column {name} holds {found}, needed {needed}. "
            "Repair or remove this line."
        )
    return numbers.to_numpy()
