"""Tables to print, to show in the report and to store with the results."""

from dataclasses import dataclass, field, replace
from typing import Any

Record = dict[str, Any]
"""Content of the result file of a task."""


@dataclass(frozen=True)
class Cell:
    """One number, with the paper's number if there is one."""

    value: float | None
    digits: int = 3
    paper: float | None = None
    best: bool = False

    def text(self) -> str:
        shown = "-" if self.value is None else f"{self.value:.{self.digits}f}"
        return shown if self.paper is None else f"{shown} ({self.paper:.3f})"


@dataclass(frozen=True)
class Line:
    """Row of a table: method, input and numbers."""

    label: str
    source: str
    """Vision source and IMU model."""

    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """A title, columns and lines; numbers in brackets are the paper's."""

    title: str
    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    note: str = ""


@dataclass(frozen=True)
class Claim:
    """A statement about the results, and whether it holds."""

    text: str
    holds: bool


@dataclass(frozen=True)
class Findings:
    """Tables, claims and figures of an experiment."""

    tables: list[Table]
    claims: list[Claim] = field(default_factory=list)
    figures: list[Record] = field(default_factory=list)
    """Data of figures; the report plots each by its `kind`."""


def figure(kind: str, title: str, unit: str, **content: Any) -> Record:
    """Data of one figure."""
    return {"kind": kind, "title": title, "unit": unit, **content}


def bin_series(name: str, bins: list[Record], actual: str, scale: float = 1.0) -> Record:
    """Bins of predicted sigma as a figure of kind `bins` plots them; `actual` is the key of the
    error."""
    return {
        "name": name,
        "predicted": [scale * one["predicted"] for one in bins],
        "actual": [scale * one[actual] for one in bins],
        "count": [one["count"] for one in bins],
    }


Entry = tuple[str, float | None, int]
"""Column, value and digits of one number."""


def table_of(title: str, lines: list[tuple[str, str, list[Entry]]], note: str = "") -> Table:
    """Table of lines (label, source, entries) that all have the same columns."""
    columns = tuple(column for column, _, _ in lines[0][2]) if lines else ()
    filled = [
        Line(label, source, tuple(Cell(value, digits) for _, value, digits in entries))
        for label, source, entries in lines
    ]
    return Table(title, columns, tuple(filled), note)


def mark_best(lines: list[Line], columns: dict[int, bool]) -> tuple[Line, ...]:
    """Mark the best value of each named column; True if larger is better."""
    best: dict[int, str] = {}
    for column, more in columns.items():
        cells = [line.cells[column] for line in lines if line.cells[column].value is not None]
        if len(cells) > 1:
            # Compared as shown: two rows that read the same are both best.
            extreme = (max if more else min)(cells, key=lambda cell: cell.value or 0.0)
            best[column] = replace(extreme, paper=None).text()
    return tuple(
        replace(
            line,
            cells=tuple(
                replace(cell, best=replace(cell, paper=None).text() == best[column])
                if column in best
                else cell
                for column, cell in enumerate(line.cells)
            ),
        )
        for line in lines
    )
