"""Figures of an initialization experiment as data; the page draws each `kind`."""

from typing import Any

import numpy as np

from maci2.evaluation.consistency import equal_bins
from maci2.experiments.board import Board
from maci2.experiments.method import Method
from maci2.experiments.summary import METRICS, is_right

BINS = 6

PREDICTED = {
    "gravity_deg": ("gravity_std_deg", "deg"),
    "velocity_rmse": ("velocity_std", "m/s"),
}
"""Metric -> the standard deviation that was stated for it."""

Figure = dict[str, Any]


def initialization_figures(board: Board, metrics: tuple[str, ...], detail: bool) -> list[Figure]:
    """Distributions; in detail also errors along each recording, sigma against error, and
    gravity's ellipses."""
    figures = []
    for vision in board.visions():
        methods = board.of_vision(vision)
        figures += [_distributions(board, methods, vision, metric) for metric in metrics]
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


def _distributions(board: Board, methods: list[Method], vision: str, metric: str) -> Figure:
    title, unit, _ = METRICS[metric]
    groups = [
        {"name": method.name, "values": [v for _, _, v in _values(board, method, metric)]}
        for method in methods
    ]
    return {
        "kind": "distributions",
        "title": f"{title} error over all windows, vision {vision}",
        "unit": unit,
        "groups": groups,
    }


def _along(board: Board, methods: list[Method], vision: str, name: str, metric: str) -> Figure:
    """Errors from window to window, with the verdict on each."""
    title, unit, _ = METRICS[metric]
    series = []
    for method in methods:
        rows = [row for where, row in board.pooled(method) if where == name and row["errors"]]
        if not rows:
            continue
        first_ns = rows[0]["start_ns"]
        series.append(
            {
                "name": method.name,
                "time_s": [round((row["start_ns"] - first_ns) / 1e9, 2) for row in rows],
                "error": [row["errors"][metric] for row in rows],
                "verdict": [_verdict(board, row) for row in rows],
                "position": [row["position_w"] for row in rows],
            }
        )
    return {
        "kind": "along",
        "title": f"{title} error along {name}, vision {vision}",
        "unit": unit,
        "series": series,
    }


def _verdict(board: Board, row: dict[str, Any]) -> str:
    said = "accepted" if row["accepted"] else "unsure" if row["unsure"] else "rejected"
    right = "right" if is_right(row, board.velocity_limit) else "wrong"
    reason = f": {row['reason']}" if row["reason"] else ""
    return f"window {row['index']} at {row['start_ns']} ns, {said}, {right}{reason}"


def _bins(board: Board, methods: list[Method], vision: str, metric: str) -> Figure:
    title = METRICS[metric][0]
    stated, unit = PREDICTED[metric]
    series = []
    for method in methods:
        rows = [row for _, row in board.pooled(method) if "posterior" in row]
        predicted = np.array([row["posterior"][stated] for row in rows])
        actual = np.array([row["errors"][metric] for row in rows])
        bins = equal_bins(predicted, actual, min(BINS, len(rows)))
        series.append(
            {
                "name": method.name,
                "predicted": [one.predicted for one in bins],
                "actual": [one.actual for one in bins],
                "count": [one.count for one in bins],
            }
        )
    return {
        "kind": "bins",
        "title": f"{title}: stated sigma against rms error, vision {vision}",
        "unit": unit,
        "series": series,
    }


def _ellipses(board: Board, method: Method, vision: str) -> Figure:
    """Gravity's error in the plane across it, with the ellipse that was stated."""
    points = [
        {
            "label": f"{name}, {_verdict(board, row)}",
            "error": row["posterior"]["gravity_error_deg"],
            "cov": row["posterior"]["gravity_cov_deg2"],
        }
        for name, row in board.pooled(method)
        if "posterior" in row
    ]
    return {
        "kind": "ellipses",
        "title": f"gravity's direction, {method.name}, vision {vision}: errors and stated ellipses",
        "unit": "deg",
        "points": points,
    }


def _states(board: Board, method: Method) -> bool:
    return any("posterior" in row for _, row in board.pooled(method))


def _values(board: Board, method: Method, metric: str) -> list[tuple[str, int, float]]:
    return [
        (name, row["index"], row["errors"][metric])
        for name, row in board.pooled(method)
        if row["errors"] is not None and row["errors"][metric] is not None
    ]
