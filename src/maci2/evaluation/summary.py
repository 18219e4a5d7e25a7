"""From rows to `summary.json`: means per recording and over recordings, failures counted."""

from typing import Any

import numpy as np

from maci2 import __version__
from maci2.evaluation.metrics import METRICS, SCORES
from maci2.evaluation.protocol import Evaluated, Row
from maci2.files import finite_or_none
from maci2.pipeline.options import RunOptions

STATUSES = ("ok", "weak", "failed")


def summarize(results: dict[str, Evaluated], options: RunOptions) -> dict[str, Any]:
    """The whole of `summary.json` (keys of docs/conventions.md)."""
    sequences = {
        name: {"left_out": found.left_out, **summarize_sequence(found.rows)}
        for name, found in results.items()
    }
    return {
        "protocol": {"version": __version__, **options.as_dict()},
        "sequences": sequences,
        "average": _average(list(sequences.values())),
    }


def summarize_sequence(rows: list[Row]) -> dict[str, Any]:
    """Means over all windows that returned a state; windows without one count against the rate."""
    errors = [row.errors for row in rows if row.errors is not None]
    summary: dict[str, Any] = {
        "segments": len(rows),
        "success_rate": _rate(rows),
    }
    for name in METRICS:
        values = [getattr(error, name) for error in errors]
        summary[name] = _mean(values)
        summary[f"{name}_median"] = finite_or_none(float(np.median(values))) if values else None
    summary["nees"] = {
        score: _mean([error.nees[score] for error in errors if score in error.nees])
        for score in SCORES
    }
    summary["verdicts"] = {}
    for status in STATUSES:
        having = [row for row in rows if row.status == status]
        summary["verdicts"][status] = {"count": len(having), "success_rate": _rate(having)}
    summary["solve_ms"] = _mean([row.solve_ms for row in rows if row.errors is not None])
    return summary


def _rate(rows: list[Row]) -> float | None:
    if not rows:
        return None
    return sum(row.errors is not None and row.errors.success for row in rows) / len(rows)


def _mean(values: list[float]) -> float | None:
    return finite_or_none(float(np.mean(values))) if values else None


def _average(sequences: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean over sequences, each counting once; what is missing in one is left out."""
    average: dict[str, Any] = {"segments": sum(one["segments"] for one in sequences)}
    for name in ("success_rate", *METRICS, "solve_ms"):
        average[name] = _mean([one[name] for one in sequences if one[name] is not None])
    average["nees"] = {
        score: _mean([one["nees"][score] for one in sequences if one["nees"][score] is not None])
        for score in SCORES
    }
    average["verdicts"] = {}
    for status in STATUSES:
        having = [one["verdicts"][status] for one in sequences]
        rates = [one["success_rate"] for one in having if one["success_rate"] is not None]
        average["verdicts"][status] = {
            "count": sum(one["count"] for one in having),
            "success_rate": _mean(rates),
        }
    return average
