"""Charts as SVG text, without a plotting library: they scale with the page and follow its colours.

Colours are the style's variables (`page.css`), so a chart is dark on a dark page.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from maci2.types import Array

WIDTH, HEIGHT = 440, 250
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 14, 44
COLORS = tuple(f"var(--c{i})" for i in range(5))
TICKS = 5


@dataclass(frozen=True)
class Series:
    """One line of a chart."""

    name: str
    x: Array
    y: Array
    band: Array | None = None
    """Half width of a band about the line, as standard deviations are shown."""

    marks: bool = False
    """Points instead of a line."""


@dataclass(frozen=True)
class Axes:
    """Axes that map numbers to places in the picture."""

    x: tuple[float, float]
    y: tuple[float, float]
    width: int = WIDTH
    height: int = HEIGHT

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Place of a point [px]."""
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        up = (y - self.y[0]) / (self.y[1] - self.y[0])
        return (
            LEFT + across * (self.width - LEFT - RIGHT),
            self.height - BOTTOM - up * (self.height - TOP - BOTTOM),
        )

    def points(self, x: Array, y: Array) -> str:
        """A polyline's points."""
        places = (self.at(float(a), float(b)) for a, b in zip(x, y, strict=True))
        return " ".join(f"{a:.1f},{b:.1f}" for a, b in places)


def chart(series: Sequence[Series], x_label: str, y_label: str, from_zero: bool = False) -> str:
    """Lines over a common axis, each with its band, a legend above them."""
    shown = [_finite(one) for one in series]
    low, high = _range(np.concatenate([edge for one in shown for edge in _edges(one)]), 0.06)
    # Room above the lines for their names.
    high += 0.16 * (high - low) if len(shown) > 1 else 0.0
    axes = Axes(
        _range(np.concatenate([one.x for one in shown]), 0.0),
        (0.0 if from_zero else low, high),
    )
    body = [_frame(axes, x_label, y_label)]
    body += [_line(one, axes, color) for one, color in zip(shown, _colors(shown), strict=True)]
    names = [one.name for one in shown]
    return picture(axes.width, axes.height, "".join(body) + _legend(names))


def bars(names: Sequence[str], pairs: Array, labels: tuple[str, str], y_label: str) -> str:
    """Two bars for each name, such as a prior's spread and the posterior's."""
    axes = Axes((-0.6, len(names) - 0.4), (0.0, 1.15 * float(pairs.max())))
    parts = [_frame(axes, "", y_label, x_ticks=False)]
    for i, (name, pair) in enumerate(zip(names, pairs, strict=True)):
        for j, value in enumerate(pair):
            left, top = axes.at(i - 0.32 + 0.34 * j, float(value))
            right, bottom = axes.at(i - 0.02 + 0.34 * j, 0.0)
            parts.append(
                f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" '
                f'height="{max(bottom - top, 0.5):.1f}" fill="{COLORS[j]}"/>'
            )
        x, y = axes.at(i, 0.0)
        parts.append(
            f'<text x="{x:.1f}" y="{y + 16:.1f}" text-anchor="middle">{escape(name)}</text>'
        )
    return picture(axes.width, axes.height, "".join(parts) + _legend(labels))


def arrow(start: Array, end: Array, color: str, label: str = "") -> str:
    """A line with a head and, where given, a name at its end."""
    along = np.asarray(end) - np.asarray(start)
    length = float(np.hypot(*along))
    head = ""
    if length > 1e-6:
        along = along / length
        aside = np.array([-along[1], along[0]])
        corners = [end, end - 8 * along + 3.5 * aside, end - 8 * along - 3.5 * aside]
        places = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
        head = f'<polygon points="{places}" fill="{color}"/>'
    text = f'<text x="{end[0] + 5:.1f}" y="{end[1]:.1f}">{escape(label)}</text>' if label else ""
    return (
        f'<line x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}" '
        f'stroke="{color}" stroke-width="2"/>{head}{text}'
    )


def picture(width: int, height: int, body: str) -> str:
    """The SVG element; it shrinks with the page and never grows beyond its own size."""
    return f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img">{body}</svg>'


def nice_ticks(low: float, high: float, count: int = TICKS) -> list[float]:
    """Round numbers that divide a range into about `count` parts."""
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1.0, 2.0, 5.0, 10.0) if power * factor >= raw)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def _finite(one: Series) -> Series:
    kept = np.isfinite(one.x) & np.isfinite(one.y)
    band = None if one.band is None else np.where(np.isfinite(one.band), one.band, 0.0)[kept]
    return Series(one.name, one.x[kept], one.y[kept], band, one.marks)


def _edges(one: Series) -> tuple[Array, ...]:
    return (one.y,) if one.band is None else (one.y - one.band, one.y + one.band)


def _range(values: Array, margin: float) -> tuple[float, float]:
    if not len(values):
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    if high - low < 1e-12 * max(abs(low), abs(high), 1e-12):
        low, high = low - 0.5, high + 0.5
    return low - margin * (high - low), high + margin * (high - low)


def _colors(series: Sequence[Series]) -> list[str]:
    return [COLORS[i % len(COLORS)] for i in range(len(series))]


def _line(one: Series, axes: Axes, color: str) -> str:
    if not len(one.x):
        return ""
    if one.marks:
        places = (axes.at(float(x), float(y)) for x, y in zip(one.x, one.y, strict=True))
        return "".join(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in places
        )
    band = ""
    if one.band is not None:
        x = np.concatenate([one.x, one.x[::-1]])
        y = np.concatenate([one.y + one.band, (one.y - one.band)[::-1]])
        band = f'<polygon points="{axes.points(x, y)}" fill="{color}" opacity="0.18"/>'
    return (
        f'{band}<polyline points="{axes.points(one.x, one.y)}" fill="none" stroke="{color}" '
        'stroke-width="1.5"/>'
    )


def _frame(axes: Axes, x_label: str, y_label: str, x_ticks: bool = True) -> str:
    (left, bottom), (right, top) = axes.at(axes.x[0], axes.y[0]), axes.at(axes.x[1], axes.y[1])
    parts = [
        f'<rect class="axis" x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" '
        f'height="{bottom - top:.1f}"/>'
    ]
    for value in nice_ticks(*axes.x) if x_ticks else []:
        x, _ = axes.at(value, axes.y[0])
        parts.append(
            f'<text class="soft" x="{x:.1f}" y="{bottom + 16:.1f}" text-anchor="middle">'
            f"{value:g}</text>"
        )
    for value in nice_ticks(*axes.y):
        _, y = axes.at(axes.x[0], value)
        parts.append(
            f'<line class="axis" x1="{left:.1f}" x2="{right:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="soft" x="{left - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">'
            f"{value:g}</text>"
        )
    parts.append(
        f'<text x="{(left + right) / 2:.1f}" y="{axes.height - 8}" text-anchor="middle">'
        f"{escape(x_label)}</text>"
        f'<text transform="translate(14 {(top + bottom) / 2:.1f}) rotate(-90)" '
        f'text-anchor="middle">{escape(y_label)}</text>'
    )
    return "".join(parts)


def _legend(names: Sequence[str]) -> str:
    if len(names) < 2:
        return ""
    parts, x = [], LEFT + 10.0
    for i, name in enumerate(names):
        color = COLORS[i % len(COLORS)]
        parts.append(
            f'<rect x="{x:.1f}" y="{TOP + 6}" width="12" height="4" fill="{color}"/>'
            f'<text x="{x + 16:.1f}" y="{TOP + 12}">{escape(name)}</text>'
        )
        x += 30.0 + 6.6 * len(name)
    return "".join(parts)
