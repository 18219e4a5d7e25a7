"""SVG charts without a plotting library: they scale with the page and follow its colours."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from html import escape
from itertools import compress

import numpy as np

from maci2.imu import ImuMeasurements
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
    """Half width of a band around the line, or half length of bars through the points, such as
    standard deviations; on a logarithmic axis they reach down by a decade at most."""

    marks: bool = False
    """Points instead of a line."""

    dashed: bool = False
    """Dashed line, for expected values."""

    same_color: bool = False
    """Use the colour of the previous line, for its prediction."""

    titles: Sequence[str] = ()
    """Tooltips of the points."""

    edges: Array = field(default_factory=lambda: np.empty((2, 0)))
    """(2, n) upper and lower edge of the band as it is drawn, set by `on`."""

    def on(self, logarithmic: tuple[bool, bool]) -> "Series":
        """Series as it is drawn on logarithmic axes (x, y), without values that are not numbers
        there."""
        y, half = self.y, np.zeros(len(self.y))
        if self.band is not None:
            half = np.where(np.isfinite(self.band), self.band, 0.0)
        edges = np.stack([y + half, y - half])
        with np.errstate(divide="ignore", invalid="ignore"):
            x = np.log10(self.x) if logarithmic[0] else self.x
            if logarithmic[1]:
                y, edges = np.log10(y), np.log10(np.maximum(edges, y / 10.0))
        kept = np.isfinite(x) & np.isfinite(y)
        titles = list(compress(self.titles, kept))
        return replace(self, x=x[kept], y=y[kept], edges=edges[:, kept], titles=titles)


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
    names: Sequence[str] = (),
) -> str:
    """Chart of lines and points with bands and a legend above it.

    `logarithmic` axes (x, y) show positive numbers only. `limits` of the axes (x, y) make charts
    comparable; not given, they are those of the data. With `names`, x counts them from zero on.
    """
    shown = [one.on(logarithmic) for one in series]
    low, high = value_range(np.concatenate([one.edges.ravel() for one in shown]), 0.06)
    across = value_range(np.concatenate([one.x for one in shown]), 0.0)
    x_limits, y_limits = limits or (
        (-0.6, len(names) - 0.4) if names else across,
        (0.0 if from_zero else low, high),
    )
    axes = Axes(x_limits, y_limits, logarithmic=logarithmic)
    body, legend, color, number = frame(axes, x_label, y_label, names), [], "", 0
    for one in shown:
        if one.dashed and not one.same_color:
            color = SOFT
        elif not one.same_color:
            color, number = COLORS[number % len(COLORS)], number + 1
        body += line(one, axes, color)
        legend.append((one.name, color))
    return with_legend(axes, body, [(name, color) for name, color in legend if name])


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


def line(one: Series, axes: Axes, color: str) -> str:
    """SVG of one series."""
    if not len(one.x):
        return ""
    places = axes.at(one.x, one.y)
    above, below = (axes.at(one.x, edge) for edge in one.edges)
    band = ""
    if one.marks:
        if one.band is not None:
            ends = zip(above, below, strict=True)
            band = "".join(segment(*bar, stroke=color, stroke_width=2) for bar in ends)
        return band + dots(places, 3, color, one.titles)
    if one.band is not None:
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


def with_legend(axes: Axes, body: str, named: Sequence[tuple[str, str]]) -> str:
    """Chart below its legend of names and colours, which has as many lines as it needs."""
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


@dataclass(frozen=True)
class Bin:
    """Windows of similar predicted uncertainty."""

    predicted: float
    """Root mean square of the predicted sigma."""

    actual: float
    """Root mean square of the error."""

    count: int
    """Windows in the bin."""


def equal_bins(predicted: Array, actual: Array, count: int) -> list[Bin]:
    """Equally filled bins of predicted sigma; on y = x the prediction is consistent."""
    groups = [group for group in np.array_split(np.argsort(predicted), count) if len(group)]
    return [Bin(_rms(predicted[group]), _rms(actual[group]), len(group)) for group in groups]


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(values**2)))


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
    time_s: Array,
    residuals: dict[str, Array],
    expected: str,
    label: str,
    caption: str,
    is_log: bool = False,
) -> str:
    """Residuals (n,) over time beside their expectation, which is one."""
    series = [Series(name, time_s, values, marks=True) for name, values in residuals.items()]
    series.append(Series(expected, time_s, np.ones(len(time_s)), dashed=True))
    svg = chart(series, "time [s]", label, from_zero=not is_log, logarithmic=(False, is_log))
    return figure(svg, caption)


def imu_figures(imu: ImuSamples | ImuMeasurements, gyro_caption: str, acc_caption: str) -> str:
    """Angular rate and specific force over time."""
    every = every_nth(len(imu.stamps_ns))
    time_s = seconds(imu.stamps_ns[::every], int(imu.stamps_ns[0]))
    gyro_deg, acc = np.rad2deg(imu.gyro[::every]), imu.acc[::every]
    rate = components(time_s, gyro_deg, "angular rate [deg/s]", gyro_caption)
    return rate + components(time_s, acc, "specific force [m/s²]", acc_caption)
