"""Text of results: numbers in rows, and tables as the terminal shows them."""

import io
from collections.abc import Iterable, Sequence
from math import isnan
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

FILE_WIDTH = 100
"""Width of the output if it is not a terminal [characters]."""


MIN_NAME_WIDTH = 12
"""Least width of the first column [characters]."""


def number(value: float | None, digits: int = 3) -> str:
    """Number as text; a dash for None."""
    return "-" if value is None or isnan(value) else f"{value:.{digits}f}"


def vector(values: Iterable[float], digits: int = 4) -> str:
    """Numbers in a row, with signs so that columns align."""
    return " ".join(f"{value:+.{digits}f}" for value in values)


def sigmas(values: Iterable[float], digits: int = 4) -> str:
    """Standard deviations in a row."""
    return " ".join(f"{value:.{digits}f}" for value in values)


def rich_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> "Table":
    """Table with text in the first column and numbers in the others."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    rows = list(rows)
    for i, column in enumerate(columns):
        # Where room is short, words are folded: a number without its last digits is another one.
        longest = max((len(row[i]) for row in rows if i < len(row)), default=0)
        table.add_column(
            Text(column),
            justify="left" if i == 0 else "right",
            overflow="fold",
            min_width=longest if i > 0 else min(longest, MIN_NAME_WIDTH),
        )
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def table_text(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], width: int = FILE_WIDTH
) -> str:
    """Table as plain text, at most `width` characters wide."""
    from rich.console import Console

    output = io.StringIO()
    Console(file=output, width=width, color_system=None, force_terminal=False).print(
        rich_table(title, columns, rows)
    )
    return "\n".join(line.rstrip() for line in output.getvalue().splitlines())
