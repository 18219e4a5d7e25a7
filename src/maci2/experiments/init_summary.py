"""Summary of a combined experiment: one table per metric over all inputs, in the paper's order."""

from collections.abc import Iterator
from itertools import combinations

from maci2.evaluation.metrics import METRICS
from maci2.experiments.board import Board
from maci2.experiments.method import Method, short_vision
from maci2.experiments.paper_numbers import PaperTable
from maci2.experiments.table import Cell, Claim, Line, Table, mark_best

Boards = list[tuple[str, Board]]
"""Title of a part and its results."""

LEAST_DIFFERENCE = 0.03
"""Difference of success rates below which methods are not ordered."""

PAPER_COLUMN = "the paper"

WHOSE = (
    "The paper's column is its mean over its own test recordings, with its own camera motion. "
    "Methods with a bias guess, a constant bias or a learned IMU know this very sensor."
)
OTHER_ORDER = (
    " Why the order is not the paper's everywhere: simulated tracks are never mismatched, so "
    "methods that lose their images in the paper (VINS-Mono, ORB-SLAM3, Stereo-NEC) do not here; "
    "VINS-Fusion has no prior on the accelerometer bias, which takes gravity's place in windows "
    "with little rotation; the FF back end has stereo depth in place of its network."
)
"""Note on differences from the paper's setting that concern all inputs."""


def summary_tables(boards: Boards, paper: PaperTable) -> list[Table]:
    """Tables of gravity, velocity and success: methods down, inputs across."""
    inputs = [
        (f"{title}: {short_vision(vision)}", board, vision)
        for title, board in boards
        for vision in board.visions()
    ]
    names = list(dict.fromkeys(one.name for _, board in boards for one in board.methods))
    return [_summary_table(metric, names, inputs, paper) for metric in (*FOUND, "success")]


FOUND = ("gravity_deg", "velocity_rmse")


def _summary_table(
    metric: str, names: list[str], inputs: list[tuple[str, Board, str]], paper: PaperTable
) -> Table:
    title, unit, digits = METRICS.get(metric, ("success", "share", 3))
    lines = []
    for name in names:
        cells, row = [], ""
        for _, board, vision in inputs:
            method = _named(board, name, vision)
            row = row or (method.paper_row if method else "")
            cells.append(Cell(_value(board, method, metric), digits))
        lines.append(Line(name, row, (Cell(_paper_value(paper, row, metric), 3), *cells)))
    best = dict.fromkeys(range(1, len(inputs) + 1), metric == "success")
    return Table(
        f"Summary: {title} [{unit}], mean over recordings",
        (PAPER_COLUMN, *(label for label, _, _ in inputs)),
        mark_best(lines, best),
        WHOSE + OTHER_ORDER * (metric == "success"),
    )


def _named(board: Board, name: str, vision: str) -> Method | None:
    return next((one for one in board.methods if (one.name, one.vision) == (name, vision)), None)


def _value(board: Board, method: Method | None, metric: str) -> float | None:
    if method is None:
        return None
    mean = board.average(method)
    return mean.success if metric == "success" else mean.mean[metric]


def _paper_value(paper: PaperTable, row: str, metric: str) -> float | None:
    if metric == "success":
        return paper.success.get(row)
    return paper.mean(row, metric, paper.recordings)


def order_claims(boards: Boards, paper: PaperTable) -> Iterator[Claim]:
    """Claims that methods that differ in the paper differ in the same way here, for every input."""
    for title, board in boards:
        for vision in board.visions():
            rates = {
                one.paper_row: board.average(one).success
                for one in board.of_vision(vision)
                if one.paper_row in paper.success
            }
            claim = _order_claim(f"{title}, vision {short_vision(vision)}", rates, paper)
            if claim is not None:
                yield claim


def _order_claim(where: str, rates: dict[str, float | None], paper: PaperTable) -> Claim | None:
    known = {row: rate for row, rate in rates.items() if rate is not None}
    pairs = [
        (better, worse)
        for a, b in combinations(known, 2)
        for better, worse in ((a, b) if paper.success[a] > paper.success[b] else (b, a),)
        if paper.success[better] - paper.success[worse] > LEAST_DIFFERENCE
    ]
    if not pairs:
        return None
    other = [
        f"{worse} {known[worse]:.3f} above {better} {known[better]:.3f}"
        for better, worse in pairs
        if known[worse] - known[better] > LEAST_DIFFERENCE
    ]
    text = (
        f"{where}: success rates are in the paper's order in {len(pairs) - len(other)} of "
        f"{len(pairs)} pairs of methods"
    )
    return Claim(f"{text}; not: {'; '.join(other)}" if other else text, not other)
