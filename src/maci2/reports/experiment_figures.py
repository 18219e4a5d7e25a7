"""Figures of experiments, by kind: static pictures without scripts."""

from collections.abc import Callable
from html import escape
from typing import Any

import numpy as np

from maci2.reports.html import side_by_side
from maci2.reports.interval_picture import interval_picture
from maci2.reports.svg import (
    COLORS,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Axes,
    Series,
    axis_ticks,
    chart,
    frame,
    picture,
)
from maci2.types import Array

FIRST_SHOWN = 3
"""Number of methods shown at once along a recording; the others are folded."""

DIFFICULTY_BIN = 0.2
"""Width of a bin of difficulty."""

BOX = 40
"""Height of a box with its name [px]."""


def experiment_figure(figure: dict[str, Any]) -> str:
    """HTML of one figure, without its title."""
    return _KINDS[figure["kind"]](figure)


def _numbers(values: list[float | None]) -> Array:
    return np.array([np.nan if value is None else value for value in values], dtype=float)


def _distributions(figure: dict[str, Any]) -> str:
    """Box plots: quartiles with the median, whiskers from 5 to 95 %, dots beyond."""
    groups = [(group["name"], _numbers(group["values"])) for group in figure["groups"]]
    groups = [(name, values[np.isfinite(values) & (values > 0.0)]) for name, values in groups]
    groups = [(name, values) for name, values in groups if len(values)]
    if not groups:
        return "<p>No value was measured.</p>"
    every = np.log10(np.concatenate([values for _, values in groups]))
    low, high = float(every.min()) - 0.1, float(every.max()) + 0.1
    left, top = 14.0, 8
    height = top + BOX * len(groups) + 46

    def across(value: float) -> float:
        return left + (value - low) / (high - low) * (WIDTH - left - RIGHT)

    bottom = height - 44
    parts = [
        f'<line class="axis" x1="{across(at):.1f}" x2="{across(at):.1f}" y1="{top}" '
        f'y2="{bottom}"/><text class="soft" x="{across(at):.1f}" y="{bottom + 16}" '
        f'text-anchor="middle">{text}</text>'
        for at, text in axis_ticks(low, high, True)
    ]
    parts.append(
        f'<text x="{(left + WIDTH) / 2:.1f}" y="{height - 8}" text-anchor="middle">'
        f"{escape(figure['unit'])}</text>"
    )
    for i, (name, values) in enumerate(groups):
        parts.append(_box(name, values, top + BOX * i + 28.0, across))
    return picture(WIDTH, height, "".join(parts))


def _box(name: str, values: Array, y: float, across: Callable[[float], float]) -> str:
    least, first, middle, third, most = np.quantile(values, [0.05, 0.25, 0.5, 0.75, 0.95])
    a, b, c, d, e = (across(float(np.log10(v))) for v in (least, first, middle, third, most))
    beyond = values[(values < least) | (values > most)]
    about = f"{name}: median {middle:.3g}, 95 % below {most:.3g}, {len(values)} values"
    dots = "".join(
        f'<circle cx="{across(float(np.log10(v))):.1f}" cy="{y:.1f}" r="1.5" fill="{COLORS[0]}"/>'
        for v in beyond
    )
    return (
        f'<g><title>{escape(about)}</title><text class="halo" x="14" y="{y - 12:.1f}">'
        f"{escape(name)}</text>"
        f'<line x1="{a:.1f}" x2="{e:.1f}" y1="{y:.1f}" y2="{y:.1f}" stroke="{COLORS[0]}"/>'
        f'<rect x="{b:.1f}" y="{y - 7:.1f}" width="{max(d - b, 1.0):.1f}" height="14" '
        f'fill="{COLORS[0]}" fill-opacity="0.35" stroke="{COLORS[0]}"/>'
        f'<line x1="{c:.1f}" x2="{c:.1f}" y1="{y - 7:.1f}" y2="{y + 7:.1f}" '
        f'stroke="var(--ink)" stroke-width="2"/>{dots}</g>'
    )


def _along(figure: dict[str, Any]) -> str:
    """Errors from window to window, and their place on the path."""
    series = figure["series"]
    if not series:
        return "<p>No window was solved.</p>"
    shown = side_by_side(_errors_along(series[:FIRST_SHOWN], figure["unit"]), _map(figure))
    if len(series) <= FIRST_SHOWN:
        return shown
    rest = "".join(
        _errors_along([series[0], *series[i : i + FIRST_SHOWN]], figure["unit"])
        for i in range(FIRST_SHOWN, len(series), FIRST_SHOWN)
    )
    return f"{shown}<details><summary>Other methods</summary>{side_by_side(rest)}</details>"


def _errors_along(series: list[dict[str, Any]], unit: str) -> str:
    lines = [
        Series(one["name"], _numbers(one["time_s"]), _numbers(one["error"]), titles=one["verdict"])
        for one in series
    ]
    svg = chart(lines, "start of the window [s]", unit, logarithmic=(False, True))
    return f"<div>{svg}</div>"


def _map(figure: dict[str, Any]) -> str:
    """Windows of the first method seen from above; larger dots are larger errors."""
    first = figure["series"][0]
    known = [i for i, position in enumerate(first["position"]) if position is not None]
    if not known:
        return ""
    places = np.array([first["position"][i][:2] for i in known], dtype=float)
    errors = _numbers(first["error"])[known]
    half = 0.55 * max(float(np.ptp(places, axis=0).max()), 1e-3)
    x, y = (places.max(axis=0) + places.min(axis=0)) / 2.0
    width = WIDTH - LEFT - RIGHT
    axes = Axes((x - half, x + half), (y - half, y + half), height=TOP + 44 + width)
    largest = np.nanmax(errors) if np.isfinite(errors).any() else 1.0
    path = axes.points(places[:, 0], places[:, 1])
    dots = "".join(
        f'<circle cx="{cx:.1f}" cy="{cy:.1f}" r="{3.0 + 7.0 * error / largest:.1f}" '
        f'fill="{COLORS[0]}" fill-opacity="0.5"><title>{escape(first["verdict"][i])}, '
        f"{error:.3g} {escape(figure['unit'])}</title></circle>"
        for i, (cx, cy), error in zip(known, map(axes.at, *places.T), errors, strict=True)
        if np.isfinite(error)
    )
    svg = picture(
        axes.width,
        axes.height,
        f"{frame(axes, 'x [m], from above', 'y [m]')}"
        f'<polyline points="{path}" fill="none" stroke="var(--soft)"/>{dots}',
    )
    note = f"{first['name']}: the largest dot is {largest:.3g} {figure['unit']}."
    return f"<div>{svg}<p class='note'>{escape(note)}</p></div>"


def _bins(figure: dict[str, Any]) -> str:
    """Predicted against actual errors, with the line y = x."""
    lines, ends = [], []
    for one in figure["series"]:
        predicted, actual = _numbers(one["predicted"]), _numbers(one["actual"])
        titles = [f"{one['name']}: {count} windows" for count in one["count"]]
        lines.append(Series(one["name"], predicted, actual, titles=titles))
        ends.append(np.concatenate([predicted, actual]))
    every = np.concatenate([np.empty(0), *ends])
    every = every[np.isfinite(every) & (every > 0.0)]
    if not len(every):
        return "<p>No sigma was predicted.</p>"
    equal = np.array([every.min() / 1.2, every.max() * 1.2])
    unit = figure["unit"]
    return chart(
        [*lines, Series("y = x", equal, equal, dashed=True)],
        f"predicted sigma [{unit}]", f"rms error [{unit}]", logarithmic=(True, True),
    )  # fmt: skip


def _difficulty(figure: dict[str, Any]) -> str:
    """Success rate by difficulty, a few methods at a time beside the first."""
    series = [
        Series(
            one["name"],
            _numbers(one["difficulty"]) + 0.5 * DIFFICULTY_BIN,
            _numbers(one["success"]),
            titles=[f"{one['name']}: {count} windows" for count in one["count"]],
        )
        for one in figure["series"]
    ]
    size = 2 * FIRST_SHOWN
    groups = [series[i : i + size] for i in range(1, len(series), size)] or [[]]
    charts = [
        chart([*series[:1], *group], figure["unit"], "success", limits=((0.0, 1.0), (-0.05, 1.05)))
        for group in groups
    ]
    return side_by_side(*(f"<div>{one}</div>" for one in charts))


def _growth(figure: dict[str, Any]) -> str:
    """Errors over time, and the predicted ones as dashed lines of the same colour."""
    lines = []
    for one in figure["series"]:
        time_s = _numbers(one["time_s"])
        lines.append(Series(one["name"], time_s, _numbers(one["rms"])))
        lines.append(Series("", time_s, _numbers(one["predicted"]), dashed=True, same_color=True))
    return chart(lines, "time [s]", figure["unit"], logarithmic=(False, True)) + (
        "<p class='note'>Broken lines: predicted.</p>"
    )


def _ellipses(figure: dict[str, Any]) -> str:
    """Errors in a plane with the stated ellipses."""
    points = figure["points"]
    if not points:
        return "<p>No window stated an ellipse.</p>"
    errors = np.array([point["error"] for point in points], dtype=float)
    covs = np.array([point["cov"] for point in points], dtype=float)
    reach = 1.15 * max(
        float(np.abs(errors).max()), float(np.sqrt(np.einsum("kii->ki", covs).max())), 1e-6
    )
    width = WIDTH - LEFT - RIGHT
    axes = Axes((-reach, reach), (-reach, reach), height=TOP + 44 + width)
    circle = np.column_stack([f(2.0 * np.pi * np.arange(25) / 24.0) for f in (np.cos, np.sin)])
    body = [frame(axes, "deg", "deg")]
    for cov in covs:
        values, vectors = np.linalg.eigh(cov)
        outline = circle * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
        body.append(
            f'<polyline points="{axes.points(*outline.T)}" fill="none" stroke="{COLORS[0]}" '
            'stroke-opacity="0.25"/>'
        )
    body += [
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{COLORS[1]}">'
        f"<title>{escape(point['label'])}</title></circle>"
        for point, (x, y) in zip(points, map(axes.at, *errors.T), strict=True)
    ]
    note = "<p class='note'>Dots: errors. Ellipses: stated, one standard deviation.</p>"
    return picture(axes.width, axes.height, "".join(body)) + note


_KINDS: dict[str, Callable[[dict[str, Any]], str]] = {
    "distributions": _distributions,
    "along": _along,
    "bins": _bins,
    "difficulty": _difficulty,
    "growth": _growth,
    "ellipses": _ellipses,
    "intervals": interval_picture,
}
