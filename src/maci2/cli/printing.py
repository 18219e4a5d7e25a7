"""Tables and progress on the terminal."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress

    from maci2.estimation import InitResult, Verdict

FILE_WIDTH = 100
"""Characters in a line where the output is not a terminal."""


class _Shown:
    """Progress is drawn on the terminal, and by which bar at the moment."""

    wanted = True
    live: "Progress | None" = None


def show_progress(wanted: bool) -> None:
    """Whether commands show what they are doing; never in a pipe or a log."""
    _Shown.wanted = wanted


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    """A bar on stderr that is told what is being done, how much is done and how much there is.

    Nothing is drawn where stderr is not a terminal, or with `--quiet`. A total of 0 is unknown.
    """
    if not (_Shown.wanted and sys.stderr.isatty()):
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), *Progress.get_default_columns(), TimeElapsedColumn())
    progress = Progress(
        *columns,
        console=Console(stderr=True),
        transient=True,
        # Lines on the same terminal go above the bar; into a pipe they go as they are.
        redirect_stdout=sys.stdout.isatty(),
        redirect_stderr=True,
    )
    task = progress.add_task("", total=None)

    def on_progress(name: str, done: int = 0, total: int = 0) -> None:
        progress.update(task, description=name, completed=done, total=total or None)

    outer, _Shown.live = _Shown.live, progress
    if outer is not None:
        outer.stop()
    progress.start()
    try:
        yield on_progress
    finally:
        progress.stop()
        _Shown.live = outer


@contextmanager
def working_on(command: str) -> Iterator[None]:
    """A spinner from the first moment of a command to its end, or until it has a bar of its own."""
    with progress_bar() as on_progress:
        on_progress(command, 0, 0)
        yield


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
