"""Tables and progress on the terminal."""

import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maci2.estimation import InitResult, Verdict

FILE_WIDTH = 100
"""Characters in a line where the output is not a terminal."""


def number(value: float | None, digits: int = 3) -> str:
    """A number, or a dash where there is none."""
    return "-" if value is None else f"{value:.{digits}f}"


def vector(values: Iterable[float], digits: int = 4) -> str:
    """Numbers in a row, with signs so that columns align."""
    return " ".join(f"{value:+.{digits}f}" for value in values)


def sigmas(values: Iterable[float], digits: int = 4) -> str:
    """Standard deviations in a row."""
    return " ".join(f"{value:.{digits}f}" for value in values)


def print_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], width: int = FILE_WIDTH
) -> None:
    """A table whose first column is text and whose others are numbers; `width` characters where
    the output is not a terminal."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for i, column in enumerate(columns):
        table.add_column(Text(column), justify="left" if i == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console = Console()
    if not console.is_terminal:
        console.width = width
    console.print(table)


def print_verdict(verdict: "Verdict") -> None:
    """Status and reasons, a line each."""
    from rich.console import Console

    color = {"ok": "green", "weak": "yellow", "failed": "red"}[verdict.status]
    console = Console()
    console.print(f"verdict: [bold {color}]{verdict.status}[/]")
    for reason in verdict.reasons:
        console.print(f"  - {reason}", markup=False, highlight=False)


def print_initialization(
    result: "InitResult", gyro_bias: Any, acc_bias: Any, errors: dict[str, str]
) -> None:
    """Estimate, 1-sigma and (where known) error, side by side."""
    from maci2.pipeline.results_json import stds

    state, posterior = result.state, result.posterior
    if state is not None and posterior is not None:
        last = len(state.stamps_ns) - 1
        rows = [
            ("gravity_c0 [m/s^2]", vector(state.gravity_c0), f"{result.gravity_std_deg:.3f} deg"),
            (
                f"velocity_b{last} [m/s]",
                vector(state.velocity_b[last]),
                sigmas(stds(posterior.velocity_b[last])),
            ),
            ("gyro bias [rad/s]", vector(gyro_bias), sigmas(stds(posterior.gyro_bias))),
            ("acc bias [m/s^2]", vector(acc_bias), sigmas(stds(posterior.acc_bias))),
        ]
        keys = ("gravity", "velocity", "gyro_bias", "acc_bias")
        print_table(
            f"{len(state.stamps_ns)} keyframes, "
            f"{(state.stamps_ns[-1] - state.stamps_ns[0]) / 1e9:.2f} s, "
            f"solved in {result.report.solve_ms:.1f} ms",
            ("state", "estimate", "1-sigma", "true error"),
            [(*row, errors.get(key, "-")) for row, key in zip(rows, keys, strict=True)],
        )
    print_verdict(result.verdict)


def write_json(path: Path | None, record: dict[str, Any]) -> None:
    """Write a result, whole or not at all; nothing without a path."""
    if path is None:
        return
    from maci2 import files

    files.write_json(path, record)


def command_line() -> str:
    """What the user typed, as a report quotes it."""
    return shlex.join(["maci2", *sys.argv[1:]])
