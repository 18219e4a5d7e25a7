"""The report of experiments: stored runs, their tables, claims and figures."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from maci2 import __version__
from maci2.errors import DatasetError, OptionError
from maci2.report.charts import (
    BOTTOM,
    COLORS,
    INK,
    LEFT,
    RIGHT,
    SOFT,
    TOP,
    WIDTH,
    Axes,
    Series,
    axis_ticks,
    chart,
    dots,
    element,
    frame,
    label,
    picture,
    polyline,
    segment,
    tooltip,
    y_equals_x,
)
from maci2.report.html import Section, page, side_by_side
from maci2.types import Array
from maci2_lab.experiments.catalogue import find_experiments
from maci2_lab.experiments.store import RESULTS, Store, read_result, time_table
from maci2_lab.experiments.table import Cell, Claim, Findings, Table
from maci2_lab.reports.figures import interval_picture

INDEX = "experiment.json"


@dataclass(frozen=True)
class Run:
    """One experiment in one folder."""

    label: str
    """Name of the experiment, with its folder if several have the same name."""

    about: dict[str, Any]
    findings: Findings

    @property
    def stale(self) -> bool:
        """True if it was run by another version of maci2."""
        return bool(self.about["version"] != __version__)


def read_runs(folders: list[Path]) -> list[Run]:
    """Read all experiments in these folders: written by `reproduce -o`, or single experiments."""
    indices = [index for folder in folders for index in _indices(folder)]
    if not indices:
        raise OptionError("report: no folder given; name what `maci2 reproduce -o` wrote.")
    names = [index.parent.name for index in indices]
    return [_read(index, several=names.count(index.parent.name) > 1) for index in indices]


def _indices(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise DatasetError(f"{folder}: no such folder; give what `maci2 reproduce -o` wrote.")
    if (folder / INDEX).is_file():
        return [folder / INDEX]
    found = sorted(folder.glob(f"*/{INDEX}"))
    if not found:
        raise DatasetError(
            f"{folder}: neither it nor its subfolders contain {INDEX}; `maci2 reproduce -o` "
            "writes it."
        )
    return found


def _read(index: Path, several: bool) -> Run:
    about = read_result(index)
    [experiment] = find_experiments([about["name"]])
    records = {key: read_result(index.parent / RESULTS / f"{key}.json") for key in about["results"]}
    findings = experiment.findings(records) if records else Findings([])
    times = time_table(Store(index.parent), records)
    if times is not None:
        findings.tables.append(times)
    label = f"{about['name']} ({index.parent.parent})" if several else about["name"]
    return Run(label, about, findings)


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
    left, top, bottom = 14.0, 8.0, 10.0 + BOX * len(groups)

    def at(value: float, y: float) -> Array:
        across = (np.log10(value) - low) / (high - low)
        return np.array([left + across * (WIDTH - left - RIGHT), y])

    parts = []
    for tick, text in axis_ticks(low, high, True):
        start, end = at(10.0**tick, top), at(10.0**tick, bottom)
        parts.append(segment(start, end, class_="axis"))
        parts.append(label(end[0], bottom + 16, text, "middle", class_="soft"))
    parts.append(label((left + WIDTH) / 2, bottom + 36, figure["unit"], "middle"))
    for i, (name, values) in enumerate(groups):
        y = top + BOX * i + 28.0
        levels = np.quantile(values, [0.05, 0.25, 0.5, 0.75, 0.95])
        first, low_quartile, middle, high_quartile, last = (at(value, y) for value in levels)
        up, beyond = np.array([0.0, 7.0]), values[(values < levels[0]) | (values > levels[-1])]
        about = f"{name}: median {levels[2]:.3g}, 95 % below {levels[4]:.3g}, {len(values)} values"
        x, corner = low_quartile
        box = {"x": x, "y": corner - 7.0, "width": max(high_quartile[0] - x, 1.0), "height": 14}
        parts += [
            f"<g>{tooltip(about)}",
            label(14, y - 12, name, class_="halo"),
            segment(first, last, stroke=COLORS[0]),
            element("rect", **box, fill=COLORS[0], fill_opacity="0.35", stroke=COLORS[0]),
            segment(middle - up, middle + up, stroke=INK, stroke_width=2),
            dots(np.array([at(value, y) for value in beyond]), 1.5, COLORS[0]),
            "</g>",
        ]
    return picture(WIDTH, round(bottom) + 44, "".join(parts))


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
    axes = _square((places.max(axis=0) + places.min(axis=0)) / 2.0, half)
    largest = np.nanmax(errors) if np.isfinite(errors).any() else 1.0
    body = frame(axes, "x [m], from above", "y [m]") + polyline(axes.at(*places.T), SOFT)
    for i, (x, y), error in zip(known, axes.at(*places.T), errors, strict=True):
        if np.isfinite(error):
            about = tooltip(f"{first['verdict'][i]}, {error:.3g} {figure['unit']}")
            size = {"r": 3.0 + 7.0 * error / largest, "fill": COLORS[0], "fill_opacity": "0.5"}
            body += element("circle", about, cx=x, cy=y, **size)
    note = f"{first['name']}: the largest dot is {largest:.3g} {figure['unit']}."
    svg = picture(axes.width, axes.height, body)
    return f"<div>{svg}<p class='note'>{escape(note)}</p></div>"


def _square(center: Array, half: float) -> Axes:
    """Axes with equal units around a center."""
    (x, y), height = center, TOP + BOTTOM + WIDTH - LEFT - RIGHT
    return Axes((x - half, x + half), (y - half, y + half), height=height)


def _bins(figure: dict[str, Any]) -> str:
    """Predicted against actual errors, with the line y = x."""
    lines = [
        Series(
            one["name"],
            _numbers(one["predicted"]),
            _numbers(one["actual"]),
            titles=[f"{one['name']}: {count} windows" for count in one["count"]],
        )
        for one in figure["series"]
    ]
    return y_equals_x(lines, figure["unit"]) or "<p>No sigma was predicted.</p>"


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
    axes = _square(np.zeros(2), reach)
    circle = np.column_stack([f(2.0 * np.pi * np.arange(25) / 24.0) for f in (np.cos, np.sin)])
    body = frame(axes, "deg", "deg")
    for cov in covs:
        values, vectors = np.linalg.eigh(cov)
        outline = circle * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
        body += polyline(axes.at(*outline.T), COLORS[0], stroke_opacity="0.25")
    body += dots(axes.at(*errors.T), 2.5, COLORS[1], [point["label"] for point in points])
    note = "<p class='note'>Dots: errors. Ellipses: stated, one standard deviation.</p>"
    return picture(axes.width, axes.height, body) + note


_KINDS: dict[str, Callable[[dict[str, Any]], str]] = {
    "distributions": _distributions,
    "along": _along,
    "bins": _bins,
    "difficulty": _difficulty,
    "growth": _growth,
    "ellipses": _ellipses,
    "intervals": interval_picture,
}


def build_page(runs: list[Run], command: str) -> str:
    """Self-contained HTML: style, numbers and pictures."""
    sections = [Section(run.about["title"], _section(i, run)) for i, run in enumerate(runs)]
    sections.append(Section("Options and versions", _versions(runs)))
    return page("The paper's experiments", _summary(runs), sections, command)


def _summary(runs: list[Run]) -> str:
    claims = [claim for run in runs for claim in run.findings.claims]
    held = sum(claim.holds for claim in claims)
    links = "".join(
        f"<li><a href='#run{i}'>{escape(run.about['title'])}</a> <code>{escape(run.label)}</code>"
        f"{_tally(run)}</li>"
        for i, run in enumerate(runs)
    )
    fails = [claim for claim in claims if not claim.holds]
    failed = f"<h3>Statements that do not hold</h3>{_claims(fails)}" if fails else ""
    return (
        f"<p class='lead'>{held} of {len(claims)} statements hold on these results. Numbers in "
        "brackets are the paper's, made with its own camera motion.</p>"
        f"<ul>{links}</ul>{failed}"
    )


def _tally(run: Run) -> str:
    """Statements that hold, and recordings that were missing."""
    claims, text = run.findings.claims, ""
    if claims:
        text = f": {sum(claim.holds for claim in claims)} of {len(claims)} hold"
    if run.about["missing"]:
        names = escape(", ".join(run.about["missing"]))
        text += f"<br><small class='missing'>missing: {names}</small>"
    return text


def _section(number: int, run: Run) -> str:
    settings = ", ".join(f"{key} {value}" for key, value in run.about["settings"].items())
    stale = (
        f"<p class='missing'>Run by version {escape(run.about['version'])}, shown by {__version__}."
        "</p>"
        if run.stale
        else ""
    )
    figures = []
    for one in run.findings.figures:
        kind = " class='wide'" if one["kind"] == "along" else ""
        text = f"<figcaption>{escape(one['title'])}</figcaption>{experiment_figure(one)}"
        figures.append(f"<figure{kind}>{text}</figure>")
    drawn = side_by_side(*figures) if figures else ""
    return (
        f"<p id='run{number}'><code>maci2 reproduce {escape(run.about['name'])}</code>, "
        f"{escape(settings)} <code>{escape(run.label)}</code></p>{stale}"
        f"{_claims(run.findings.claims)}"
        f"{''.join(_table(table) for table in run.findings.tables)}{drawn}"
    )


def _claims(claims: list[Claim]) -> str:
    lines = ""
    for claim in claims:
        word = "yes" if claim.holds else "no"
        lines += f"<li class='{word}'><b>{word}</b> {escape(claim.text)}</li>"
    return f"<ul class='claims'>{lines}</ul>"


def _table(table: Table) -> str:
    head = "".join(f"<th scope='col'>{escape(column)}</th>" for column in table.columns)
    lines = "".join(
        f"<tr><th scope='row'>{escape(line.label)}<small>{escape(line.source)}</small></th>"
        f"{''.join(_cell(cell) for cell in line.cells)}</tr>"
        for line in table.lines
    )
    note = f"<p class='note'>{escape(table.note)}</p>" if table.note else ""
    return (
        f"<h3>{escape(table.title)}</h3><div class='scroll' tabindex='0'><table><thead>"
        f"<tr><td></td>{head}</tr>"
        f"</thead><tbody>{lines}</tbody></table></div>{note}"
    )


def _cell(cell: Cell) -> str:
    best = " class='best'" if cell.best else ""
    return f"<td{best}>{escape(cell.text())}</td>"


def _versions(runs: list[Run]) -> str:
    lines = "".join(
        f"<li><code>{escape(run.label)}</code>: maci2 {escape(run.about['version'])}, "
        f"{escape(json.dumps(run.about['settings']))}, {len(run.about['results'])} results</li>"
        for run in runs
    )
    return f"<ul>{lines}</ul>"


def pictures(run: Run) -> dict[str, str]:
    """Stand-alone pictures of an experiment's values with standard deviations, by file name."""
    figures = [one for one in run.findings.figures if one["kind"] == "intervals"]
    name = run.about["name"]
    return {f"{name}_{i + 1}.svg": interval_picture(one) for i, one in enumerate(figures)}
