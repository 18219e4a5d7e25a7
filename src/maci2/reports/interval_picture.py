"""Stand-alone SVG of values with their standard deviations: a point and a bar for each."""

from collections.abc import Callable
from html import escape
from typing import Any

from maci2.reports.runs import Run
from maci2.reports.svg import nice_ticks

WIDTH, ROW, LEFT, RIGHT, TOP, BOTTOM = 640, 18, 170, 16, 52, 40
COLORS = ("#0969da", "#1a7f37", "#9a6700", "#cf222e")
INK, SOFT, LINE = "#1f2328", "#59636e", "#d1d9e0"


def pictures(run: Run) -> dict[str, str]:
    """Stand-alone pictures of an experiment's values with standard deviations, by file name."""
    figures = [one for one in run.findings.figures if one["kind"] == "intervals"]
    name = run.about["name"]
    return {f"{name}_{i + 1}.svg": interval_picture(one) for i, one in enumerate(figures)}


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
