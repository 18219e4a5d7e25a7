"""Small SVG figures, readable in a browser and in a diff, without a plotting library."""

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from maci2.evaluation.consistency import Bin, equal_bins
from maci2.reports.svg import axis_ticks

if TYPE_CHECKING:
    from maci2.evaluation.vo_report import VisualScore

BINS = 6
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


def pose_reliability(scores: "list[VisualScore]") -> str:
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
        panels.append(Panel(title, unit, equal_bins(predicted, actual, BINS)))
    return y_equals_x(panels)
