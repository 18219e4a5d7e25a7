"""CSV tables with a timestamp in nanoseconds in the first column; other columns are found by their
headings.

Timestamps go from text to int64 without passing through float. A path is a path: what it holds of
pattern characters or of `~` means nothing.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from maci2.errors import DatasetError
from maci2.files import read_lines
from maci2.sensors.validation import require_count, require_finite, require_increasing
from maci2.types import Array, Stamps

Headings = dict[str, tuple[str, ...]]
"""Headings that a column is known by, lower case, without unit."""

STAMP_HEADINGS = ("timestamp", "time", "t", "stamp")

MAX_ABSOLUTE = 1e9
"""Largest number in a table: no rate, force, speed or distance is larger in SI units or in the
units they are confused with."""

MAX_DURATION_NS = 30 * 86_400 * 1_000_000_000
"""Longest recording, 30 days; more means a wrong timestamp."""


@dataclass(frozen=True)
class Table:
    """Rows of a CSV file, checked: timestamps increase, required columns are finite."""

    stamps_ns: Stamps
    columns: dict[str, Array]
    """All required columns, and the optional ones in the file."""

    lines: Stamps
    """Line number of each row."""

    source: str

    texts: dict[str, list[str]] = field(default_factory=dict)
    """Text columns in the file; an empty field is an empty string."""

    def stack(self, *names: str) -> Array:
        """(n, k) array of these columns; NaN for an optional column that the file lacks."""
        missing = np.full(len(self.stamps_ns), np.nan)
        return np.stack([self.columns.get(name, missing) for name in names], axis=1)


def read_table(
    path: Path,
    what: str,
    required: Headings,
    optional: Headings,
    texts: Headings | None = None,
    least: int = 2,
) -> Table:
    """Read timestamps and columns of `path`; `what` describes the file in messages.

    A file without a heading line has its columns in the order required, optional, texts.
    """
    headings: Headings = required | optional | (texts or {})
    rows = read_lines(path, what)
    header, first_line = _header(rows, headings)
    lines = np.array(
        [
            number
            for number, row in enumerate(rows, 1)
            if number >= first_line and row.strip(", \t")
        ],
        dtype=np.int64,
    )
    require_count(len(lines), least, str(path))
    where = _locate(header, headings, required, path)
    fields = _split([rows[number - 1] for number in lines], lines, header, path)
    stamps_ns = _numbers(fields[:, 0], lines, "timestamp", pl.Int64, path).astype(np.int64)
    columns = {
        name: _numbers(fields[:, index], lines, header[index], pl.Float64, path).astype(np.float64)
        for name, index in where.items()
        if name in required or name in optional
    }
    require_increasing(stamps_ns, str(path), lines)
    require_short_enough(stamps_ns, str(path))
    if required:
        values = np.stack([columns[name] for name in required], axis=1)
        require_finite(values, [header[where[name]] for name in required], str(path), lines)
    _require_bounded(columns, lines, path)
    words = {
        name: fields[:, where[name]].fill_null("").to_list()
        for name in texts or {}
        if name in where
    }
    return Table(stamps_ns, columns, lines, str(path), words)


def require_short_enough(stamps_ns: Stamps, source: str) -> None:
    """Raise if timestamps cover more than the longest recording."""
    # Python's integers: the difference of two int64 may not be one.
    duration_ns = int(stamps_ns[-1]) - int(stamps_ns[0])
    if duration_ns > MAX_DURATION_NS or stamps_ns[0] < 0:
        raise DatasetError(
            f"{source}: timestamps run from {stamps_ns[0]} to {stamps_ns[-1]} ns, "
            f"{duration_ns / 86_400e9:.1f} days; needed 0 or later, and at most "
            f"{MAX_DURATION_NS / 86_400e9:.0f} days. Remove the lines with a wrong timestamp, or "
            "convert the timestamps to nanoseconds."
        )


def _header(rows: Sequence[str], headings: Mapping[str, tuple[str, ...]]) -> tuple[list[str], int]:
    """Headings without unit, and the first line with numbers."""
    fields = rows[0].split(",") if rows else [""]
    if re.fullmatch(r'[\s"]*-?\d+[\s"]*', fields[0]):
        known = ["timestamp", *[names[0] for names in headings.values()]]
        unnamed = [f"column {number}" for number in range(len(known) + 1, len(fields) + 1)]
        return [*known, *unnamed][: len(fields)], 1
    return [re.sub(r'[#\s"]|\[.*?\]|\(.*?\)', "", field).lower() for field in fields], 2


def _locate(
    header: list[str], headings: Headings, required: Headings, path: Path
) -> dict[str, int]:
    """Our column names -> position in the file."""
    if header[0] not in STAMP_HEADINGS:
        raise DatasetError(
            f"{path}, line 1: the first column is '{header[0][:40]}', needed 'timestamp' in "
            "nanoseconds. Add it or move it to the front; separate columns by commas."
        )
    where = {}
    for name, names in headings.items():
        index = next((header.index(heading) for heading in names if heading in header), None)
        if index is not None:
            where[name] = index
        elif name in required:
            raise DatasetError(
                f"{path}, line 1: no column '{names[0]}'; found {', '.join(header)[:400]}; "
                f"needed timestamp, {', '.join(names[0] for names in required.values())}. "
                "Add the column or correct its heading."
            )
    return where


def _split(rows: list[str], lines: Stamps, header: list[str], path: Path) -> pl.DataFrame:
    """All fields as text, null if empty; no row has more fields than there are headings."""
    width = len(header)
    if any(row.count(",") != width - 1 for row in rows):
        rows = [
            _evened(row, int(line), header, path) for row, line in zip(rows, lines, strict=True)
        ]
    content = "\n".join(rows)
    fields = pl.read_csv(
        content.encode(),
        has_header=False,
        # A stray quote would join lines; quotes around a field are removed below.
        quote_char=None,
        schema={f"column_{number}": pl.String for number in range(width)},
    )
    assert len(fields) == len(rows)
    text = pl.all().str.strip_chars()
    if '"' in content:
        text = text.str.replace(r'^"([^"]*)"$', "$1").str.strip_chars()
    return fields.select(text.replace("", None))


def _evened(row: str, line: int, header: list[str], path: Path) -> str:
    """Row with as many fields as there are headings; only empty ones are added or removed."""
    row = row.rstrip(", \t")
    found, width = row.count(",") + 1, len(header)
    if found > width:
        raise DatasetError(
            f"{path}, line {line}: has {found} fields, needed {width}: {', '.join(header)[:400]}. "
            "Correct this line, or add the heading of the column."
        )
    return row + "," * (width - found)


def _numbers(
    text: pl.Series, lines: Stamps, name: str, kind: type[pl.DataType], path: Path
) -> np.ndarray:
    """Column as numbers; raises at the first field that is not a number."""
    numbers = text.cast(kind, strict=False)
    bad = numbers.is_null().to_numpy()
    if bad.any():
        row = int(np.argmax(bad))
        found = "nothing" if text[row] is None else f"'{text[row][:40]}'"
        needed = "an integer of nanoseconds" if kind is pl.Int64 else "a number"
        raise DatasetError(
            f"{path}, line {lines[row]}: column {name} holds {found}, needed {needed}. "
            "Repair or remove this line."
        )
    return numbers.to_numpy()


def _require_bounded(columns: Mapping[str, Array], lines: Stamps, path: Path) -> None:
    for name, values in columns.items():
        bad = np.abs(values) > MAX_ABSOLUTE
        if bad.any():
            row = int(np.argmax(bad))
            raise DatasetError(
                f"{path}, line {lines[row]}: {name} is {values[row]:g}, needed at most "
                f"{MAX_ABSOLUTE:g} in size. Remove this line or repair the recording."
            )
