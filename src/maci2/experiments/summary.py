"""From rows to the numbers of a table: means, medians, success, and how the verdicts scored."""

from dataclasses import dataclass
from typing import Any

import numpy as np

METRICS = {
    "gravity_deg": ("gravity", "deg", 3),
    "velocity_rmse": ("velocity", "m/s", 4),
    "speed_rmse": ("speed", "m/s", 4),
    "rotation_deg": ("rotation", "deg", 3),
    "translation_m": ("translation", "m", 4),
    "gyro_bias_pct": ("gyro bias", "%", 2),
    "gyro_bias_norm_pct": ("gyro bias, norms", "%", 2),
}
"""Metric -> title, unit, digits."""

SUCCESS_GRAVITY_DEG = 2.0


@dataclass(frozen=True)
class Summary:
    """Of one method on one recording, or the mean over recordings."""

    windows: int
    mean: dict[str, float | None]
    median: dict[str, float | None]
    success: float | None
    """Share of all windows, those without an answer included."""

    accepted_wrong: float | None
    """Share of all windows: the method said yes and the answer was not good enough."""

    rejected_right: float | None
    """Share of all windows: the method said no to an answer that was good enough."""

    unsure: float | None
    """Share of all windows for which the method asked for more motion."""

    nees: dict[str, float | None]


def is_right(row: dict[str, Any], velocity_limit: float) -> bool:
    """The paper's success: gravity within 2 deg, velocity within its limit."""
    errors = row["errors"]
    if errors is None or errors["gravity_deg"] is None or errors["velocity_rmse"] is None:
        return False
    gravity, velocity = errors["gravity_deg"], errors["velocity_rmse"]
    return bool(gravity < SUCCESS_GRAVITY_DEG and velocity < velocity_limit)


def summarize(rows: list[dict[str, Any]], velocity_limit: float) -> Summary:
    """Means and medians over the windows with an answer; shares over all."""
    right = [is_right(row, velocity_limit) for row in rows]
    wrong = [row["accepted"] and not ok for row, ok in zip(rows, right, strict=True)]
    missed = [
        ok and not (row["accepted"] or row["unsure"]) for row, ok in zip(rows, right, strict=True)
    ]
    values = {metric: _values(rows, metric) for metric in METRICS}
    scores = sorted({name for row in rows for name in row["nees"]})
    return Summary(
        len(rows),
        {metric: _mean(found) for metric, found in values.items()},
        {metric: _median(found) for metric, found in values.items()},
        _share(right),
        _share(wrong),
        _share(missed),
        _share([row["unsure"] for row in rows]),
        {name: _mean([r["nees"][name] for r in rows if r["nees"].get(name)]) for name in scores},
    )


def average(summaries: list[Summary]) -> Summary:
    """Each recording counts once; what one of them lacks is left out of that mean."""
    names = sorted({name for one in summaries for name in one.nees})
    return Summary(
        sum(one.windows for one in summaries),
        {metric: _known_mean([one.mean[metric] for one in summaries]) for metric in METRICS},
        {metric: _known_mean([one.median[metric] for one in summaries]) for metric in METRICS},
        _known_mean([one.success for one in summaries]),
        _known_mean([one.accepted_wrong for one in summaries]),
        _known_mean([one.rejected_right for one in summaries]),
        _known_mean([one.unsure for one in summaries]),
        {name: _known_mean([one.nees.get(name) for one in summaries]) for name in names},
    )


def _values(rows: list[dict[str, Any]], metric: str) -> list[float]:
    found = [row["errors"][metric] for row in rows if row["errors"] is not None]
    return [value for value in found if value is not None]


def _mean(values: list[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _median(values: list[float]) -> float | None:
    return float(np.median(values)) if values else None


def _known_mean(values: list[float | None]) -> float | None:
    return _mean([value for value in values if value is not None])


def _share(flags: list[bool]) -> float | None:
    return sum(flags) / len(flags) if flags else None
