"""Tables of an initialization experiment, the paper's numbers in brackets."""

from dataclasses import replace

from maci2.evaluation.metrics import METRICS, SCORES
from maci2.evaluation.rows import Row
from maci2.evaluation.summary import Summary, against_audit
from maci2.experiments.board import Board
from maci2.experiments.method import Method, short_vision
from maci2.experiments.paper_numbers import PaperTable
from maci2.experiments.table import Cell, Line, Table, mark_best

FOUR = ("gravity_deg", "velocity_rmse", "rotation_deg", "translation_m")

IN_BRACKETS = "In brackets: the paper's, over the same recordings, with its own camera motion."


def error_tables(board: Board, metrics: tuple[str, ...], paper: PaperTable | None) -> list[Table]:
    """Tables of errors, one per vision source and metric: methods down, recordings across."""
    return [
        _error_table(board, vision, metric, paper)
        for vision in board.visions()
        for metric in metrics
    ]


def _error_table(board: Board, vision: str, metric: str, paper: PaperTable | None) -> Table:
    title, unit, digits = METRICS[metric]
    lines = []
    for method in board.of_vision(vision):
        cells = [
            Cell(
                board.summary(method, name).mean[metric],
                digits,
                paper.value(method.paper_row, metric, name) if paper else None,
            )
            for name in board.recordings
        ]
        mean = board.average(method)
        expected = paper.mean(method.paper_row, metric, board.recordings) if paper else None
        cells.append(Cell(mean.mean[metric], digits, expected))
        cells.append(Cell(mean.success, 3, paper.success.get(method.paper_row) if paper else None))
        lines.append(Line(method.name, source_of(method), tuple(cells)))
    count = len(board.recordings)
    best = dict.fromkeys(range(count + 1), False) | {count + 1: True}
    return Table(
        f"{title} [{unit}], vision {vision}",
        (*board.recordings, "average", "success"),
        mark_best(lines, best),
        IN_BRACKETS if paper else "",
    )


def verdict_table(board: Board) -> Table:
    """Every method at every stride, with and without the excitation gate."""
    lines = []
    for method in board.methods:
        for stride_s in board.strides_s:
            mean = board.average(method, stride_s)
            label = f"{label_of(board, method)}, every {stride_s:g} s"
            lines.append(_verdict_line(label, method, mean))
            gated = board.average(method, stride_s, _is_excited)
            lines.append(_verdict_line(f"{label}, gated", method, gated))
    return Table(
        "Verdicts, medians and the other metrics",
        (
            "windows",
            "success",
            "accepted but wrong",
            "rejected but right",
            "unsure",
            "gravity [deg]",
            "median",
            "velocity [m/s]",
            "median",
            "speed [m/s]",
            "median",
            "NEES gravity",
            "NEES velocity",
        ),
        tuple(lines),
        "Shares are of all windows; unsure: the method asked for more motion instead of deciding. "
        "Gated: only windows that pass DRT's excitation gate. NEES per degree of freedom, 1 is "
        "right; methods without a covariance have none.",
    )


def audited_table(board: Board) -> Table:
    """Every method against the audited ground truths, at the first stride."""
    audited = replace(board, rows={key: against_audit(rows) for key, rows in board.rows.items()})
    lines = []
    for method in board.methods:
        mean = audited.average(method)
        cells = [Cell(mean.mean[name], METRICS[name].digits) for name in FOUR]
        cells += [Cell(mean.nees[name], 2) for name in SCORES]
        lines.append(Line(label_of(board, method), source_of(method), tuple(cells)))
    return Table(
        "Against the audited ground truth",
        (
            *(f"{METRICS[name].title} [{METRICS[name].unit}]" for name in FOUR),
            *(f"NEES {name.replace('_', ' ')}" for name in SCORES),
        ),
        tuple(lines),
        "The other tables are against the ground truth as published. NEES has the covariance of "
        "the difference between estimate and audited truth.",
    )


def _verdict_line(label: str, method: Method, summary: Summary) -> Line:
    cells = [
        Cell(summary.windows, 0),
        Cell(summary.success),
        Cell(summary.accepted_wrong),
        Cell(summary.rejected_right),
        Cell(summary.unsure),
    ]
    for metric in ("gravity_deg", "velocity_rmse", "speed_rmse"):
        digits = METRICS[metric].digits
        cells += [Cell(summary.mean[metric], digits), Cell(summary.median[metric], digits)]
    cells += [Cell(summary.nees["gravity"], 2), Cell(summary.nees["velocity"], 2)]
    return Line(label, source_of(method), tuple(cells))


def _is_excited(row: Row) -> bool:
    return row.excited is True


def label_of(board: Board, method: Method) -> str:
    """A method's name, with its vision source where the board has several."""
    if len(board.visions()) == 1:
        return method.name
    return f"{method.name}, {short_vision(method.vision)}"


def source_of(method: Method) -> str:
    """Vision source and IMU model, as every row states them."""
    return f"vision {short_vision(method.vision)}, IMU {method.imu}"
