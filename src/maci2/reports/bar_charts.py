"""Charts with one position for each name: bars, and values with their ranges."""

import math
from collections.abc import Sequence
from html import escape

import numpy as np

from maci2.reports.svg import COLORS, Axes, Series, frame, line, value_range, with_legend
from maci2.types import Array


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
