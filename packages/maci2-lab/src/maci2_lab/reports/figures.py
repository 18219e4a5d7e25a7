"""Figures of the lab: intervals of errors, consistency of IMU models and of relative poses."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from maci2.metrics.nees import equal_bins
from maci2.report.charts import (
    COLORS,
    binned,
    dots,
    label,
    nice_ticks,
    row_of,
    segment,
    standalone,
    y_equals_x,
)
from maci2.types import Array
from maci2_lab.evaluation.vo_report import VisualScore

WIDTH, ROW, LEFT, RIGHT, TOP, BOTTOM = 640, 18, 170, 16, 52, 40


def interval_picture(figure: dict[str, Any]) -> str:
    """SVG of a figure of kind `intervals`: one row for each group, one colour for each series."""
    groups, names = figure["groups"], figure["names"]
    pairs = [pair for group in groups for pair in group["values"] if pair[0] is not None]
    low = min(0.0, *(value - std for value, std in pairs))
    high = max(value + std for value, std in pairs)
    height = TOP + ROW * (len(names) + 1) * len(groups) + BOTTOM

    def at(value: float, y: float) -> Array:
        return np.array([LEFT + (WIDTH - LEFT - RIGHT) * (value - low) / (high - low), y])

    bottom = height - BOTTOM
    parts = [label(8, 20, figure["title"], style="font-weight: bold")]
    for tick in nice_ticks(low, high):
        start, end = at(tick, TOP), at(tick, bottom)
        parts.append(segment(start, end, class_="axis"))
        parts.append(label(end[0], bottom + 16, f"{tick:g}", "middle", class_="soft"))
    parts.append(label(0.5 * (LEFT + WIDTH - RIGHT), height - 8, figure["unit"], "middle"))
    for j, name in enumerate(names):
        x = LEFT + 115 * j
        parts += [dots(np.array([[x, 38]]), 4, COLORS[j]), label(x + 9, 43, name)]
    for i, group in enumerate(groups):
        top = TOP + ROW * (len(names) + 1) * i + ROW
        parts.append(label(8, top + 0.5 * ROW * (len(names) - 1) + 5, group["name"]))
        for j, (value, std) in enumerate(group["values"]):
            if value is not None:
                y = top + ROW * j
                ends = at(value - std, y), at(value + std, y)
                parts.append(segment(*ends, stroke=COLORS[j], stroke_width=2))
                parts.append(dots(at(value, y)[None], 4, COLORS[j]))
    return standalone(WIDTH, height, "".join(parts))


NOT_DRAWN = ("raw", "datasheet")
"""IMU models that would hide the differences between the others."""

PARTS = {"rotation": ("deg", 57.29578), "velocity": ("mm/s", 1e3), "position": ("mm", 1e3)}


def plot_figures(report: dict[str, Any], folder: Path) -> list[Path]:
    """Write `imu_bins_H.png` for each horizon, `imu_bins_H_audited.png` if a ground truth could be
    audited, and `imu_growth.png`; returns the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    horizons = list(next(iter(report["bins"].values())))
    paths = []
    for h in horizons:
        title = f"rms error against predicted sigma over {h} s, pooled, ground truth as published"
        paths.append(_draw_bins(report, h, folder / f"imu_bins_{h}.png", title))
        audited = report.get("audited", {"average": None})
        if audited["average"] is not None:
            title = title.replace("as published", "audited")
            paths.append(_draw_bins(audited, h, folder / f"imu_bins_{h}_audited.png", title))
    return [*paths, _draw_growth(report, folder / "imu_growth.png")]


def _draw(path: Path, title: str, draw: Callable[[Any, str, str, float], None]) -> Path:
    """Write a picture with one panel for each part, drawn by `draw(axis, part, unit, scale)`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title)
    axes = figure.subplots(1, 3)
    for axis, (part, (unit, scale)) in zip(axes, PARTS.items(), strict=True):
        draw(axis, part, unit, scale)
        axis.set(yscale="log", title=part)
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize=7)
    figure.savefig(path, dpi=130)
    return path


def _draw_bins(report: dict[str, Any], horizon: str, path: Path, title: str) -> Path:
    def draw(axis: Any, part: str, unit: str, scale: float) -> None:
        for model, by_horizon in report["bins"].items():
            if model not in NOT_DRAWN:
                rows = by_horizon[horizon][part]
                predicted = [scale * row["predicted"] for row in rows]
                axis.plot(predicted, [scale * row["rms"] for row in rows], "o-", label=model, ms=3)
        low, high = axis.get_xlim()
        ends = np.array([max(low, 1e-9), high])
        axis.plot(ends, ends, "k--", lw=1, label="y = x")
        axis.set(xscale="log", xlabel=f"predicted [{unit}]", ylabel=f"rms error [{unit}]")

    return _draw(path, title, draw)


def _draw_growth(report: dict[str, Any], path: Path) -> Path:
    def draw(axis: Any, part: str, unit: str, scale: float) -> None:
        for model in report["average"]:
            if model in NOT_DRAWN:
                continue
            growth = [one["models"][model]["growth"] for one in report["sequences"].values()]
            times = [float(h) for h in growth[0]["rms"]]
            rms, predicted = (
                scale * np.mean([[v[part] for v in one[key].values()] for one in growth], axis=0)
                for key in ("rms", "predicted")
            )
            (line,) = axis.plot(times, rms, "-", label=model)
            axis.plot(times, predicted, "--", color=line.get_color(), lw=1)
        axis.set(xlabel="time since start [s]", ylabel=f"[{unit}]")

    title = "integration error over time against the ground truth as published: mean over "
    return _draw(path, f"{title}recordings, predicted dashed", draw)


POSE_BINS = 6


def pose_reliability(scores: list[VisualScore]) -> str:
    """SVG of predicted sigma and rms error of translation and rotation."""
    errors = np.concatenate([score.errors for score in scores])
    covs = np.concatenate([score.covs for score in scores])
    charts = []
    for title, unit, part, scale in (
        ("translation", "mm", slice(0, 3), 1e3),
        ("rotation", "deg", slice(3, 6), 180.0 / np.pi),
    ):
        predicted = scale * np.sqrt(np.trace(covs[:, part, part], axis1=1, axis2=2))
        actual = scale * np.linalg.norm(errors[:, part], axis=1)
        bins = binned(title, equal_bins(predicted, actual, POSE_BINS))
        charts.append(y_equals_x([bins], unit))
    return row_of(charts)
