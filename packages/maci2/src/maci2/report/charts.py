"""SVG charts without a plotting library: they scale with the page and follow its colours."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import compress

import numpy as np

from maci2.imu import ImuMeasurements
from maci2.metrics.nees import Bin
from maci2.report.html import asset, figure
from maci2.sensors import ImuSamples
from maci2.types import NS, Array, Stamps

WIDTH, HEIGHT = 440, 250
LEFT, RIGHT, TOP, BOTTOM = 72, 14, 28, 44
COLORS = tuple(f"var(--c{i})" for i in range(10))
INK, SOFT = "var(--ink)", "var(--soft)"
TICKS = 5
SVG = "http://www.w3.org/2000/svg"
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

    def on(self, logarithmic: tuple[bool, bool]) -> "Series":
        """Series as it is drawn on logarithmic axes (x, y), without values that are not numbers
        there."""
        with np.errstate(divide="ignore", invalid="ignore"):
            x, y = (
                np.log10(values) if is_log else values
                for values, is_log in zip((self.x, self.y), logarithmic, strict=True)
            )
        kept = np.isfinite(x) & np.isfinite(y)
        band = None if self.band is None or logarithmic[1] else self.band[kept]
        if band is not None:
            band = np.where(np.isfinite(band), band, 0.0)
        titles = list(compress(self.titles, kept))
        return replace(self, x=x[kept], y=y[kept], band=band, titles=titles)


@dataclass(frozen=True)
class Axes:
    """Axes that map numbers to positions in the picture."""

    x: tuple[float, float]
    y: tuple[float, float]
    width: int = WIDTH
    height: int = HEIGHT
    logarithmic: tuple[bool, bool] = (False, False)
    """Logarithmic x and y axes."""

    def at(self, x: float | Array, y: float | Array) -> Array:
        """Position of a point (2,), or of many (n, 2) [px]."""
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        up = (y - self.y[0]) / (self.y[1] - self.y[0])
        right = LEFT + across * (self.width - LEFT - RIGHT)
        down = self.height - BOTTOM - up * (self.height - TOP - BOTTOM)
        return np.stack([right, down], axis=-1)


def element(name: str, content: str = "", /, **attributes: object) -> str:
    """SVG element; `_` in the name of an attribute stands for `-`. Lengths [px] are floats, rounded
    to hundredths."""
    words = [name]
    for key, value in attributes.items():
        text = f"{round(value, 2):g}" if isinstance(value, float) else str(value)
        words.append(f'{key.strip("_").replace("_", "-")}="{text}"')
    return f"<{' '.join(words)}>{content}</{name}>" if content else f"<{' '.join(words)}/>"


def tooltip(text: str) -> str:
    """Content of an element that shows a text where the pointer is over it."""
    return f"<title>{escape(text)}</title>" if text else ""


def label(x: float, y: float, text: str, anchor: str = "start", **attributes: object) -> str:
    """Text that begins, ends or has its middle at a position."""
    return element("text", escape(text), x=x, y=y, text_anchor=anchor, **attributes)


def segment(start: Array, end: Array, **attributes: object) -> str:
    """Straight line between two positions."""
    (x1, y1), (x2, y2) = start, end
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, **attributes)


def polyline(places: Array, color: str, **attributes: object) -> str:
    """Line through positions (n, 2)."""
    points = _listed(places)
    return element("polyline", points=points, fill="none", stroke=color, **attributes)


def dots(places: Array, radius: float, color: str, titles: Sequence[str] = ()) -> str:
    """Filled circles at positions (n, 2), each with a tooltip if `titles` are given."""
    return "".join(
        element("circle", tooltip(title), cx=x, cy=y, r=radius, fill=color)
        for (x, y), title in zip(places, titles or [""] * len(places), strict=True)
    )


def _listed(places: Array) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


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
    shown = [one.on(logarithmic) for one in series]
    bands = [0.0 if one.band is None else one.band for one in shown]
    edges = [one.y + s * band for one, band in zip(shown, bands, strict=True) for s in (-1.0, 1.0)]
    low, high = value_range(np.concatenate(edges), 0.06)
    x_limits, y_limits = limits or (
        value_range(np.concatenate([one.x for one in shown]), 0.0),
        (0.0 if from_zero else low, high),
    )
    axes = Axes(x_limits, y_limits, logarithmic=logarithmic)
    colors = _colors(shown)
    lines = [line(one, axes, color) for one, color in zip(shown, colors, strict=True)]
    body = frame(axes, x_label, y_label) + "".join(lines)
    return with_legend(axes, body, [one.name for one in shown], colors)


def arrow(start: Array, end: Array, color: str) -> str:
    """Arrow from one position to another."""
    along = end - start
    length = float(np.hypot(*along))
    head = ""
    if length > 1e-6:
        ahead = along / length
        aside = np.array([-ahead[1], ahead[0]])
        corners = np.array([end, end - 8 * ahead + 3.5 * aside, end - 8 * ahead - 3.5 * aside])
        head = element("polygon", points=_listed(corners), fill=color)
    return segment(start, end, stroke=color, stroke_width=2) + head


def picture(width: int, height: int, body: str) -> str:
    """SVG element that fills its column."""
    size = {"viewBox": f"0 0 {width} {height}", "width": width}
    return element("svg", body, **size, role="img")


def standalone(width: int, height: int, body: str) -> str:
    """SVG that is a file of its own: the colours of a page, on white."""
    size = {"viewBox": f"0 0 {width} {height}", "width": width, "height": height}
    style = element("style", asset("picture.css"))
    background = element("rect", width=width, height=height, fill="var(--back)")
    return element("svg", style + background + body, xmlns=SVG, **size) + "\n"


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
            colors.append(SOFT)
        else:
            colors.append(COLORS[number % len(COLORS)])
            number += 1
    return colors


def line(one: Series, axes: Axes, color: str) -> str:
    """SVG of one series."""
    if not len(one.x):
        return ""
    places = axes.at(one.x, one.y)
    if one.marks:
        return dots(places, 3, color, one.titles)
    band = ""
    if one.band is not None:
        above, below = (axes.at(one.x, one.y + sign * one.band) for sign in (1.0, -1.0))
        outline = _listed(np.concatenate([above, below[::-1]]))
        band = element("polygon", points=outline, fill=color, opacity="0.18")
    dashes = {"stroke_dasharray": "5 4"} if one.dashed else {}
    marks = dots(places, 2.5, color, one.titles) if one.titles else ""
    return band + polyline(places, color, stroke_width="1.5", **dashes) + marks


def frame(axes: Axes, x_label: str, y_label: str, names: Sequence[str] = ()) -> str:
    """Border, ticks and labels; with `names`, one for each number from zero on, instead of ticks
    below."""
    (left, bottom), (right, top) = axes.at(axes.x[0], axes.y[0]), axes.at(axes.x[1], axes.y[1])
    size = {"width": right - left, "height": bottom - top}
    parts = [element("rect", class_="axis", x=left, y=top, **size)]
    below = [(float(i), name) for i, name in enumerate(names)]
    for value, text in below or axis_ticks(*axes.x, axes.logarithmic[0]):
        kind = {} if names else {"class_": "soft"}
        parts.append(label(axes.at(value, 0.0)[0], bottom + 16, text, "middle", **kind))
    for value, text in axis_ticks(*axes.y, axes.logarithmic[1]):
        y = axes.at(axes.x[0], value)[1]
        parts.append(segment(np.array([left, y]), np.array([right, y]), class_="axis"))
        parts.append(label(left - 6, y + 4, text, "end", class_="soft"))
    aside = f"translate(14 {(top + bottom) / 2:.1f}) rotate(-90)"
    parts.append(label((left + right) / 2, axes.height - 8, x_label, "middle"))
    parts.append(label(0, 0, y_label, "middle", transform=aside))
    return "".join(parts)


def with_legend(axes: Axes, body: str, names: Sequence[str], colors: Sequence[str]) -> str:
    """Chart below its legend, which has as many lines as it needs."""
    named = [(name, color) for name, color in zip(names, colors, strict=False) if name]
    if len(named) < 2:
        return picture(axes.width, axes.height, body)
    x, lower, legend = float(LEFT), 0, ""
    for name, color in named:
        width = 34.0 + 6.8 * len(name)
        if x > LEFT and x + width > WIDTH:
            x, lower = float(LEFT), lower + LEGEND_LINE
        y = TOP - 9 + lower
        legend += element("rect", x=x, y=y - 7, width=12, height=4, fill=color)
        legend += label(x + 16.0, y, name)
        x += width
    moved = element("g", body, transform=f"translate(0 {lower})") if lower else body
    return picture(axes.width, axes.height + lower, legend + moved)


def bars(names: Sequence[str], pairs: Array, labels: tuple[str, str], y_label: str) -> str:
    """Two bars with values for each name, such as prior and posterior standard deviation."""
    axes = Axes((-0.6, len(names) - 0.4), (0.0, 1.15 * float(pairs.max())))
    parts = [frame(axes, "", y_label, names)]
    for (i, j), value in np.ndenumerate(pairs):
        left, top = axes.at(i - 0.32 + 0.34 * j, float(value))
        right, bottom = axes.at(i - 0.02 + 0.34 * j, 0.0)
        size = {"width": right - left, "height": max(bottom - top, 0.5)}
        parts.append(element("rect", x=left, y=top, **size, fill=COLORS[j]))
        middle = (left + right) / 2
        parts.append(label(middle, top - 3, f"{value:.2g}", "middle", class_="soft"))
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
    half = 3.0 * np.nan_to_num(np.asarray(std, dtype=float))
    first = marks[0].y
    lows = np.maximum(first - half, first / 10.0)
    ends = np.concatenate([*(one.y for one in marks), first + half, lows, [stated]])
    low, high = value_range(np.log10(ends), 0.08)
    axes = Axes((-0.6, len(names) - 0.4), (low, high), logarithmic=(False, True))
    parts = [frame(axes, "", y_label, names)]
    across = np.arange(float(len(names))) - 0.15
    tops, bottoms = (axes.at(across, np.log10(level)) for level in (first + half, lows))
    for top, bottom in zip(tops, bottoms, strict=True):
        parts.append(segment(top, bottom, stroke=COLORS[0], stroke_width=2))
    for j, one in enumerate(marks):
        shifted = replace(one, x=one.x + 0.15 * (j - 1), y=np.log10(one.y), marks=True)
        parts.append(line(shifted, axes, COLORS[j]))
    level = np.full(2, math.log10(stated))
    parts.append(line(Series("", np.array(axes.x), level, dashed=True), axes, SOFT))
    legend = [*(one.name for one in marks), "stated"]
    return with_legend(axes, "".join(parts), legend, [*COLORS[: len(marks)], SOFT])


def binned(name: str, bins: Sequence[Bin]) -> Series:
    """Rms error over predicted sigma, one point for each bin."""
    predicted, actual = np.array([(one.predicted, one.actual) for one in bins]).T
    titles = [
        f"{one.count} windows: predicted {one.predicted:.3g}, actual {one.actual:.3g}"
        for one in bins
    ]
    return Series(name, predicted, actual, titles=titles)


def y_equals_x(lines: Sequence[Series], unit: str) -> str:
    """Predicted sigma across, rms error up, both logarithmic, with the line y = x; empty without
    positive values."""
    every = np.concatenate([np.empty(0), *(values for one in lines for values in (one.x, one.y))])
    every = every[np.isfinite(every) & (every > 0.0)]
    if not len(every):
        return ""
    equal = np.array([every.min() / 1.2, every.max() * 1.2])
    shown = [*lines, Series("y = x", equal, equal, dashed=True)]
    labels = f"predicted sigma [{unit}]", f"rms error [{unit}]"
    return chart(shown, *labels, logarithmic=(True, True))


def row_of(pictures: Sequence[str]) -> str:
    """Charts side by side, as a file of its own."""
    placed = [part.replace("<svg ", f'<svg x="{i * WIDTH}" ', 1) for i, part in enumerate(pictures)]
    return standalone(len(pictures) * WIDTH, HEIGHT, "".join(placed))


AXES = "xyz"

POINTS = 700
"""Largest number of points of a line."""

WITH_BANDS = "Bands: three standard deviations."


def every_nth(count: int) -> int:
    """Stride that leaves at most `POINTS` of this many."""
    return max(-(-count // POINTS), 1)


def components(
    time_s: Array,
    values: Array,
    label: str,
    caption: str,
    band: Array | None = None,
    from_zero: bool = False,
    x_label: str = "time [s]",
) -> str:
    """Three components (n, 3) over time, with bands around them."""
    series = [
        Series(axis, time_s, values[:, i], None if band is None else band[:, i])
        for i, axis in enumerate(AXES)
    ]
    return figure(chart(series, x_label, label, from_zero), caption)


def seconds(stamps_ns: Stamps, start_ns: int) -> Array:
    """Time since a start [s]."""
    return np.asarray((stamps_ns - start_ns) / NS, dtype=np.float64)


def beside_one(
    time_s: Array, residuals: dict[str, Array], expected: str, label: str, is_log: bool = False
) -> str:
    """Chart of residuals (n,) over time beside their expectation, which is one."""
    series = [Series(name, time_s, values, marks=True) for name, values in residuals.items()]
    series.append(Series(expected, time_s, np.ones(len(time_s)), dashed=True))
    return chart(series, "time [s]", label, from_zero=not is_log, logarithmic=(False, is_log))


def imu_figures(imu: ImuSamples | ImuMeasurements, gyro_caption: str, acc_caption: str) -> str:
    """Angular rate and specific force over time."""
    every = every_nth(len(imu.stamps_ns))
    time_s = seconds(imu.stamps_ns[::every], int(imu.stamps_ns[0]))
    gyro_deg, acc = np.rad2deg(imu.gyro[::every]), imu.acc[::every]
    rate = components(time_s, gyro_deg, "angular rate [deg/s]", gyro_caption)
    return rate + components(time_s, acc, "specific force [m/s²]", acc_caption)
