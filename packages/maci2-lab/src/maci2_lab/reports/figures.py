"""Figures of the lab: intervals of errors, consistency of IMU models and of relative poses."""

from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from maci2.metrics.nees import equal_bins
from maci2.report.charts import Panel, nice_ticks, y_equals_x
from maci2_lab.evaluation.vo_report import VisualScore

WIDTH, ROW, LEFT, RIGHT, TOP, BOTTOM = 640, 18, 170, 16, 52, 40
COLORS = ("#0969da", "#1a7f37", "#9a6700", "#cf222e")
INK, SOFT, LINE = "#1f2328", "#59636e", "#d1d9e0"


def interval_picture(figure: dict[str, Any]) -> str:
    """SVG of a figure of kind `intervals`: one row for each group, one colour for each series."""
    groups, names = figure["groups"], figure["names"]
    pairs = [pair for group in groups for pair in group["values"] if pair[0] is not None]
    low = min(0.0, *(value - std for value, std in pairs))
    high = max(value + std for value, std in pairs)
    height = TOP + ROW * (len(names) + 1) * len(groups) + BOTTOM

    def across(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (value - low) / (high - low)

    parts = [_axis(across, low, high, height, figure["unit"]), _legend(names)]
    for i, group in enumerate(groups):
        top = TOP + ROW * (len(names) + 1) * i + ROW
        middle = top + 0.5 * ROW * (len(names) - 1)
        parts.append(f'<text x="8" y="{middle + 5:.1f}">{escape(group["name"])}</text>')
        for j, (value, std) in enumerate(group["values"]):
            if value is not None:
                y = top + ROW * j
                color = COLORS[j % len(COLORS)]
                parts.append(
                    _mark(across(value - std), across(value), across(value + std), y, color)
                )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'font-family="sans-serif" font-size="13" fill="{INK}">'
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>'
        f'<text x="8" y="20" font-weight="bold">{escape(figure["title"])}</text>'
        f"{''.join(parts)}</svg>\n"
    )


def _mark(low: float, middle: float, high: float, y: float, color: str) -> str:
    return (
        f'<line x1="{low:.1f}" y1="{y}" x2="{high:.1f}" y2="{y}" stroke="{color}" '
        f'stroke-width="2"/><circle cx="{middle:.1f}" cy="{y}" r="4" fill="{color}"/>'
    )


def _axis(across: Callable[[float], float], low: float, high: float, height: int, unit: str) -> str:
    bottom = height - BOTTOM
    parts = []
    for tick in nice_ticks(low, high):
        x = across(tick)
        parts.append(
            f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}" stroke="{LINE}"/>'
            f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle" fill="{SOFT}">'
            f"{tick:g}</text>"
        )
    x = 0.5 * (LEFT + WIDTH - RIGHT)
    label = f'<text x="{x:.1f}" y="{height - 8}" text-anchor="middle">{escape(unit)}</text>'
    return "".join(parts) + label


def _legend(names: list[str]) -> str:
    parts = []
    for j, name in enumerate(names):
        x = LEFT + 115 * j
        parts.append(
            f'<circle cx="{x}" cy="38" r="4" fill="{COLORS[j % len(COLORS)]}"/>'
            f'<text x="{x + 9}" y="43">{escape(name)}</text>'
        )
    return "".join(parts)


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


def _panels(title: str) -> tuple[Any, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title)
    return figure, figure.subplots(1, 3)


def _draw_bins(report: dict[str, Any], horizon: str, path: Path, title: str) -> Path:
    figure, axes = _panels(title)
    for axis, (part, (unit, scale)) in zip(axes, PARTS.items(), strict=True):
        for model, by_horizon in report["bins"].items():
            if model in ("raw", "datasheet"):
                continue
            rows = by_horizon[horizon][part]
            predicted = [scale * row["predicted"] for row in rows]
            axis.plot(predicted, [scale * row["rms"] for row in rows], "o-", label=model, ms=3)
        low, high = axis.get_xlim()
        ends = np.array([max(low, 1e-9), high])
        axis.plot(ends, ends, "k--", lw=1, label="y = x")
        axis.set(xscale="log", yscale="log", title=part)
        axis.set(xlabel=f"predicted [{unit}]", ylabel=f"rms error [{unit}]")
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize=7)
    figure.savefig(path, dpi=130)
    return path


def _draw_growth(report: dict[str, Any], path: Path) -> Path:
    figure, axes = _panels(
        "integration error over time against the ground truth as published: mean over recordings, "
        "predicted dashed"
    )
    for axis, (part, (unit, scale)) in zip(axes, PARTS.items(), strict=True):
        for model in report["average"]:
            if model in ("raw", "datasheet"):
                continue
            growth = [one["models"][model]["growth"] for one in report["sequences"].values()]
            times = [float(h) for h in growth[0]["rms"]]
            rms, predicted = (
                scale * np.mean([[v[part] for v in one[key].values()] for one in growth], axis=0)
                for key in ("rms", "predicted")
            )
            (line,) = axis.plot(times, rms, "-", label=model)
            axis.plot(times, predicted, "--", color=line.get_color(), lw=1)
        axis.set(xlabel="time since start [s]", ylabel=f"[{unit}]", title=part, yscale="log")
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize=7)
    figure.savefig(path, dpi=130)
    return path


POSE_BINS = 6


def pose_reliability(scores: list[VisualScore]) -> str:
    """SVG of predicted sigma and rms error of translation and rotation."""
    errors = np.concatenate([score.errors for score in scores])
    covs = np.concatenate([score.covs for score in scores])
    panels = []
    for title, unit, part, scale in (
        ("translation", "mm", slice(0, 3), 1e3),
        ("rotation", "deg", slice(3, 6), 180.0 / np.pi),
    ):
        predicted = scale * np.sqrt(np.trace(covs[:, part, part], axis1=1, axis2=2))
        actual = scale * np.linalg.norm(errors[:, part], axis=1)
        panels.append(Panel(title, unit, equal_bins(predicted, actual, POSE_BINS)))
    return y_equals_x(panels)
