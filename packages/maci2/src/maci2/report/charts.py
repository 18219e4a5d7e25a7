"""SVG charts without a plotting library: they scale with the page and follow its colours."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import NamedTuple

import numpy as np

from maci2.metrics.nees import Bin
from maci2.types import Array

WIDTH, HEIGHT = 440, 250
LEFT, RIGHT, TOP, BOTTOM = 72, 14, 28, 44
COLORS = tuple(f"var(--c{i})" for i in range(10))
TICKS = 5
LEGEND_LINE = 18
"""Height of a legend line [px]."""


@dataclass(frozen=True)
class Series:
    """One line of a chart."""

    name: str
    x: Array
    y: Array
    band: Array | None = None
    """Half width of a band around the line, such as standard deviations."""

    marks: bool = False
    """Points instead of a line."""

    dashed: bool = False
    """Dashed line, for expected values."""

    same_color: bool = False
    """Use the colour of the previous line, for its prediction."""

    titles: Sequence[str] = ()
    """Tooltips of the points."""


@dataclass(frozen=True)
class Axes:
    """Axes that map numbers to positions in the picture."""

    x: tuple[float, float]
    y: tuple[float, float]
    width: int = WIDTH
    height: int = HEIGHT
    logarithmic: tuple[bool, bool] = (False, False)
    """Logarithmic x and y axes."""

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Position of a point [px]."""
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


def chart(
    series: Sequence[Series],
    x_label: str,
    y_label: str,
    from_zero: bool = False,
    logarithmic: tuple[bool, bool] = (False, False),
    limits: tuple[tuple[float, float], tuple[float, float]] | None = None,
) -> str:
    """Line chart with bands and a legend above it.

    `logarithmic` axes (x, y) show positive numbers only. `limits` of the axes (x, y) make charts
    comparable; not given, they are those of the data.
    """
    shown = [_finite(_scaled(one, logarithmic)) for one in series]
    low, high = value_range(np.concatenate([edge for one in shown for edge in _edges(one)]), 0.06)
    x_limits, y_limits = limits or (
        value_range(np.concatenate([one.x for one in shown]), 0.0),
        (0.0 if from_zero else low, high),
    )
    axes = Axes(x_limits, y_limits, logarithmic=logarithmic)
    colors = _colors(shown)
    body = [frame(axes, x_label, y_label)]
    body += [line(one, axes, color) for one, color in zip(shown, colors, strict=True)]
    names = [one.name for one in shown]
    return with_legend(axes, "".join(body), names, colors)


def _scaled(one: Series, logarithmic: tuple[bool, bool]) -> Series:
    """Series on logarithmic axes; values without a logarithm become NaN."""
    if not any(logarithmic):
        return one
    with np.errstate(divide="ignore", invalid="ignore"):
        x = np.log10(one.x) if logarithmic[0] else one.x
        y = np.log10(one.y) if logarithmic[1] else one.y
    return replace(one, x=x, y=y, band=None if logarithmic[1] else one.band)


def arrow(start: Array, end: Array, color: str, label: str = "") -> str:
    """Arrow with an optional label at its end."""
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
    """SVG element that fills its column."""
    return f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img">{body}</svg>'


def nice_ticks(low: float, high: float, count: int = TICKS) -> list[float]:
    """Round numbers that divide a range into about `count` parts."""
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1.0, 2.0, 5.0, 10.0) if power * factor >= raw)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def axis_ticks(low: float, high: float, logarithmic: bool) -> list[tuple[float, str]]:
    """Tick positions and labels; between decades only if there are few."""
    if not logarithmic:
        return [(value, f"{value:g}") for value in nice_ticks(low, high)]
    digits = (1.0,) if high - low > 2.5 else (1.0, 3.0) if high - low > 1.0 else (1.0, 2.0, 5.0)
    decades = range(math.floor(low), math.ceil(high) + 1)
    values = [digit * 10.0**decade for decade in decades for digit in digits]
    if high - low < 0.5:
        # Less than half a decade has at most one of these digits.
        values = nice_ticks(10.0**low, 10.0**high)
    return [(math.log10(v), f"{v:g}") for v in values if low <= math.log10(v) <= high]


def _finite(one: Series) -> Series:
    kept = np.isfinite(one.x) & np.isfinite(one.y)
    band = None if one.band is None else np.where(np.isfinite(one.band), one.band, 0.0)[kept]
    titles = [title for title, keep in zip(one.titles, kept, strict=False) if keep]
    return replace(one, x=one.x[kept], y=one.y[kept], band=band, titles=titles)


def _edges(one: Series) -> tuple[Array, ...]:
    return (one.y,) if one.band is None else (one.y - one.band, one.y + one.band)


def value_range(values: Array, margin: float) -> tuple[float, float]:
    """Limits of an axis: those of the values with a margin on both sides."""
    if not len(values):
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    if high - low < 1e-12 * max(abs(low), abs(high), 1e-12):
        low, high = low - 0.5, high + 0.5
    return low - margin * (high - low), high + margin * (high - low)


def _colors(series: Sequence[Series]) -> list[str]:
    """Colours of the lines; expected values have that of the text."""
    colors: list[str] = []
    number = 0
    for one in series:
        if one.same_color:
            colors.append(colors[-1])
        elif one.dashed:
            colors.append("var(--soft)")
        else:
            colors.append(COLORS[number % len(COLORS)])
            number += 1
    return colors


def line(one: Series, axes: Axes, color: str) -> str:
    """SVG of one series."""
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
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{color}"><title>{escape(title)}</title>'
        "</circle>"
        for (x, y), title in zip(map(axes.at, one.x, one.y), one.titles, strict=False)
    )
    dashes = ' stroke-dasharray="5 4"' if one.dashed else ""
    return (
        f'{band}<polyline points="{axes.points(one.x, one.y)}" fill="none" stroke="{color}" '
        f'stroke-width="1.5"{dashes}/>{dots}'
    )


def frame(axes: Axes, x_label: str, y_label: str, x_ticks: bool = True) -> str:
    """Border, ticks and labels."""
    (left, bottom), (right, top) = axes.at(axes.x[0], axes.y[0]), axes.at(axes.x[1], axes.y[1])
    parts = [
        f'<rect class="axis" x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" '
        f'height="{bottom - top:.1f}"/>'
    ]
    for value, text in axis_ticks(*axes.x, axes.logarithmic[0]) if x_ticks else []:
        x, _ = axes.at(value, axes.y[0])
        parts.append(
            f'<text class="soft" x="{x:.1f}" y="{bottom + 16:.1f}" text-anchor="middle">'
            f"{text}</text>"
        )
    for value, text in axis_ticks(*axes.y, axes.logarithmic[1]):
        _, y = axes.at(axes.x[0], value)
        parts.append(
            f'<line class="axis" x1="{left:.1f}" x2="{right:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="soft" x="{left - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">'
            f"{text}</text>"
        )
    parts.append(
        f'<text x="{(left + right) / 2:.1f}" y="{axes.height - 8}" text-anchor="middle">'
        f"{escape(x_label)}</text>"
        f'<text transform="translate(14 {(top + bottom) / 2:.1f}) rotate(-90)" '
        f'text-anchor="middle">{escape(y_label)}</text>'
    )
    return "".join(parts)


def _legend(names: Sequence[str], colors: Sequence[str]) -> tuple[str, int]:
    """Legend above the plot in as many lines as needed, and the height it adds."""
    named = [(name, color) for name, color in zip(names, colors, strict=False) if name]
    if len(named) < 2:
        return "", 0
    lines: list[list[str]] = [[]]
    x = float(LEFT)
    for name, color in named:
        width = 34.0 + 6.8 * len(name)
        if lines[-1] and x + width > WIDTH:
            lines.append([])
            x = float(LEFT)
        y = TOP - 9 + LEGEND_LINE * (len(lines) - 1)
        lines[-1].append(
            f'<rect x="{x:.1f}" y="{y - 7}" width="12" height="4" fill="{color}"/>'
            f'<text x="{x + 16:.1f}" y="{y}">{escape(name)}</text>'
        )
        x += width
    return "".join("".join(line) for line in lines), LEGEND_LINE * (len(lines) - 1)


def with_legend(axes: Axes, body: str, names: Sequence[str], colors: Sequence[str]) -> str:
    """Chart with its legend."""
    legend, lower = _legend(names, colors)
    moved = f'<g transform="translate(0 {lower})">{body}</g>' if lower else body
    return picture(axes.width, axes.height + lower, legend + moved)


def bars(names: Sequence[str], pairs: Array, labels: tuple[str, str], y_label: str) -> str:
    """Two bars with values for each name, such as prior and posterior standard deviation."""
    axes = Axes((-0.6, len(names) - 0.4), (0.0, 1.15 * float(pairs.max())))
    parts = [frame(axes, "", y_label, x_ticks=False)]
    for i, (name, pair) in enumerate(zip(names, pairs, strict=True)):
        for j, value in enumerate(pair):
            left, top = axes.at(i - 0.32 + 0.34 * j, float(value))
            right, bottom = axes.at(i - 0.02 + 0.34 * j, 0.0)
            parts.append(
                f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" '
                f'height="{max(bottom - top, 0.5):.1f}" fill="{COLORS[j]}"/>'
                f'<text class="soft" x="{(left + right) / 2:.1f}" y="{top - 3:.1f}" '
                f'text-anchor="middle">{value:.2g}</text>'
            )
        x, y = axes.at(i, 0.0)
        parts.append(
            f'<text x="{x:.1f}" y="{y + 16:.1f}" text-anchor="middle">{escape(name)}</text>'
        )
    return with_legend(axes, "".join(parts), labels, COLORS)


def ranges(
    names: Sequence[str],
    marks: Sequence[Series],
    std: Sequence[float],
    stated: float,
    y_label: str,
) -> str:
    """Several values for each name on a logarithmic axis, the first with three of its `std`, and a
    stated value as a dashed line."""
    half = [3.0 * value if np.isfinite(value) else 0.0 for value in std]
    first = marks[0].y
    ends = np.concatenate([*(one.y for one in marks), first + half, [stated]])
    lows = [max(value - h, value / 10.0) for value, h in zip(first, half, strict=True)]
    low, high = value_range(np.log10(np.concatenate([ends, lows])), 0.08)
    axes = Axes((-0.6, len(names) - 0.4), (low, high), logarithmic=(False, True))
    parts = [frame(axes, "", y_label, x_ticks=False)]
    for i, name in enumerate(names):
        x, y = axes.at(i, low)
        parts.append(f'<text x="{x:.1f}" y="{y + 16:.1f}" text-anchor="middle">{name}</text>')
        (x, top), (_, bottom) = (
            axes.at(i - 0.15, math.log10(value)) for value in (first[i] + half[i], lows[i])
        )
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top:.1f}" y2="{bottom:.1f}" '
            f'stroke="{COLORS[0]}" stroke-width="2"/>'
        )
    for j, one in enumerate(marks):
        shifted = Series(one.name, one.x + 0.15 * (j - 1), np.log10(one.y), marks=True)
        parts.append(line(shifted, axes, COLORS[j]))
    level = np.full(2, math.log10(stated))
    parts.append(line(Series("", np.array(axes.x), level, dashed=True), axes, "var(--soft)"))
    names = [*(one.name for one in marks), "stated"]
    return with_legend(axes, "".join(parts), names, [*COLORS[: len(marks)], "var(--soft)"])


SIZE = 300
MARGIN = 54


class _Colors(NamedTuple):
    """Colours of a figure."""

    ink: str
    line: str
    dot: str
    background: str


ALONE = _Colors("#24292f", "#8b949e", "#0969da", "white")
"""Colours of a figure that is a file of its own."""

IN_PAGE = _Colors("var(--ink)", "var(--soft)", "var(--c0)", "none")
"""Colours that follow the style of a page."""


@dataclass(frozen=True)
class Panel:
    """One plot of predicted against actual."""

    title: str
    unit: str
    bins: list[Bin]


def y_equals_x(panels: list[Panel], in_page: bool = False) -> str:
    """Predicted sigma across, rms error up, both logarithmic, with the line y = x."""
    colors = IN_PAGE if in_page else ALONE
    width = len(panels) * SIZE
    body = "".join(
        f'<g transform="translate({i * SIZE},0)">{_panel(panel, colors)}</g>'
        for i, panel in enumerate(panels)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {SIZE}" width="{width}" '
        f'font-family="sans-serif" font-size="12" fill="{colors.ink}">'
        f'<rect width="{width}" height="{SIZE}" fill="{colors.background}"/>{body}</svg>\n'
    )


def _panel(panel: Panel, colors: _Colors) -> str:
    values = np.array([value for one in panel.bins for value in (one.predicted, one.actual)])
    low, high = np.log10(values.min() / 1.5), np.log10(values.max() * 1.5)

    def at(value: float) -> float:
        return MARGIN + (np.log10(value) - low) / (high - low) * (SIZE - 2 * MARGIN)

    first, last = MARGIN, SIZE - MARGIN
    parts = [
        f'<text x="{SIZE / 2}" y="24" text-anchor="middle" font-weight="bold">'
        f"{escape(panel.title)}</text>",
        f'<rect x="{first}" y="{first}" width="{last - first}" height="{last - first}" '
        f'fill="none" stroke="{colors.line}"/>',
        f'<line x1="{first}" y1="{last}" x2="{last}" y2="{first}" stroke="{colors.line}" '
        'stroke-dasharray="4 3"/>',
        f'<text x="{SIZE / 2}" y="{SIZE - 10}" text-anchor="middle">predicted sigma '
        f"[{escape(panel.unit)}]</text>",
        f'<text transform="translate(14,{SIZE / 2}) rotate(-90)" text-anchor="middle">rms error '
        f"[{escape(panel.unit)}]</text>",
    ]
    for tick, text in axis_ticks(low, high, logarithmic=True):
        x = at(10.0**tick)
        parts.append(
            f'<text x="{x:.1f}" y="{last + 15}" text-anchor="middle">{text}</text>'
            f'<text x="{first - 4}" y="{SIZE - x + 4:.1f}" text-anchor="end">{text}</text>'
        )
    for one in panel.bins:
        about = f"{one.count} windows: predicted {one.predicted:.3g}, actual {one.actual:.3g}"
        parts.append(
            f'<circle cx="{at(one.predicted):.1f}" cy="{SIZE - at(one.actual):.1f}" r="5" '
            f'fill="{colors.dot}"><title>{about}</title></circle>'
        )
    return "".join(parts)
