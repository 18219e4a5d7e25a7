"""Figures of `maci2 imu-report`: bins on y = x, NEES and error growth of all models."""

from pathlib import Path
from typing import Any

import numpy as np

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
