"""Figures of an initialization experiment as data; the report plots each `kind`."""

import numpy as np

from maci2.metrics.init_errors import METRICS
from maci2.report.charts import equal_bins
from maci2.types import NS
from maci2_lab.evaluation.protocol import Row
from maci2_lab.evaluation.summary import is_right
from maci2_lab.experiments.init_tables import Board
from maci2_lab.experiments.methods import Method
from maci2_lab.experiments.table import Record, bin_series, figure

BINS = 6

FEWEST_METHODS = 5
"""Number of methods from which on the others can define the difficulty of a window."""

DIFFICULTIES = (0.0, 0.2, 0.4, 0.6, 0.8)
"""Bins of difficulty: fractions of the other methods that fail."""

PREDICTED = {
    "gravity_deg": ("gravity_std_deg", "deg"),
    "velocity_rmse": ("velocity_std", "m/s"),
}
"""Stated standard deviation that belongs to each metric."""


def initialization_figures(board: Board, metrics: tuple[str, ...], detail: bool) -> list[Record]:
    """Distributions of errors; in detail also errors along each recording, sigma against error,
    and gravity's ellipses."""
    figures = []
    for vision in board.visions():
        methods = board.of_vision(vision)
        figures += [_distributions(board, methods, vision, metric) for metric in metrics]
        if len(methods) >= FEWEST_METHODS:
            figures.append(success_over_difficulty(board, methods, vision))
        if not detail:
            continue
        figures += [
            _along(board, methods, vision, name, metric)
            for metric in metrics[:1]
            for name in board.recordings
        ]
        stating = [method for method in methods if _states(board, method)]
        if stating:
            figures += [_bins(board, stating, vision, metric) for metric in PREDICTED]
            figures.append(_ellipses(board, stating[0], vision))
    return figures


def _distributions(board: Board, methods: list[Method], vision: str, metric: str) -> Record:
    title, unit, _ = METRICS[metric]
    groups = []
    for method in methods:
        found = [getattr(row.errors, metric) for _, row in board.pooled(method) if row.errors]
        groups.append({"name": method.name, "values": [v for v in found if v is not None]})
    title = f"{title} error over all windows, vision {vision}"
    return figure("distributions", title, unit, groups=groups)


def success_over_difficulty(board: Board, methods: list[Method], vision: str) -> Record:
    """Success rate of each method where few, some and most of the other methods fail."""
    right = {
        method: {
            (name, row.index): is_right(row, board.limits) for name, row in board.pooled(method)
        }
        for method in methods
    }
    series = []
    for method in methods:
        bins: list[list[bool]] = [[] for _ in DIFFICULTIES]
        for window, success in right[method].items():
            others = [
                answers[window]
                for other, answers in right.items()
                if other is not method and window in answers
            ]
            if others:
                failing = 1.0 - sum(others) / len(others)
                bins[int(np.searchsorted(DIFFICULTIES, failing, side="right")) - 1].append(success)
        shown = [(share, one) for share, one in zip(DIFFICULTIES, bins, strict=True) if one]
        series.append(
            {
                "name": method.name,
                "difficulty": [share for share, _ in shown],
                "success": [round(sum(one) / len(one), 4) for _, one in shown],
                "count": [len(one) for _, one in shown],
            }
        )
    title = f"success over difficulty, vision {vision}"
    unit = "share of the other methods that fail on a window"
    return figure("difficulty", title, unit, series=series)


def _along(board: Board, methods: list[Method], vision: str, name: str, metric: str) -> Record:
    """Errors from window to window, with the verdict on each."""
    title, unit, _ = METRICS[metric]
    series = []
    for method in methods:
        rows = [row for recording, row in board.pooled(method) if recording == name and row.errors]
        if not rows:
            continue
        first_ns = rows[0].start_ns
        series.append(
            {
                "name": method.name,
                "time_s": [round((row.start_ns - first_ns) / NS, 2) for row in rows],
                "error": [getattr(row.errors, metric) for row in rows],
                "verdict": [_verdict(board, row) for row in rows],
                "position": [row.position_w for row in rows],
            }
        )
    return figure("along", f"{title} error along {name}, vision {vision}", unit, series=series)


def _verdict(board: Board, row: Row) -> str:
    verdict = {"ok": "accepted", "weak": "unsure", "failed": "rejected"}[row.status]
    right = "right" if is_right(row, board.limits) else "wrong"
    reason = f": {'; '.join(row.reasons)}" if row.reasons else ""
    return f"window {row.index} at {row.start_ns} ns, {verdict}, {right}{reason}"


def _bins(board: Board, methods: list[Method], vision: str, metric: str) -> Record:
    stated, unit = PREDICTED[metric]
    series = []
    for method in methods:
        rows = [
            row
            for _, row in board.pooled(method)
            if row.stated is not None and getattr(row.errors, metric, None) is not None
        ]
        predicted = np.array([getattr(row.stated, stated) for row in rows])
        actual = np.array([getattr(row.errors, metric) for row in rows])
        bins = [vars(one) for one in equal_bins(predicted, actual, min(BINS, len(rows)))]
        series.append(bin_series(method.name, bins, "actual"))
    title = f"{METRICS[metric].title}: stated sigma against rms error, vision {vision}"
    return figure("bins", title, unit, series=series)


def _ellipses(board: Board, method: Method, vision: str) -> Record:
    """Error of gravity in the plane perpendicular to it, with the stated ellipse."""
    points = [
        {
            "label": f"{name}, {_verdict(board, row)}",
            "error": row.stated.gravity_error_deg,
            "cov": row.stated.gravity_cov_deg2,
        }
        for name, row in board.pooled(method)
        if row.stated is not None
    ]
    title = f"gravity's direction, {method.name}, vision {vision}: errors and stated ellipses"
    return figure("ellipses", title, "deg", points=points)


def _states(board: Board, method: Method) -> bool:
    return any(row.stated is not None for _, row in board.pooled(method))
