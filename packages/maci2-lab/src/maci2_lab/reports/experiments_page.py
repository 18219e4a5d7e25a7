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


WIDE = " class='wide'"
"""Attribute of a figure that takes a whole row."""


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
        f"{_tally(run)}{_missing(run)}</li>"
        for i, run in enumerate(runs)
    )
    fails = [claim for claim in claims if not claim.holds]
    failed = ""
    if fails:
        failed = f"<h3>Statements that do not hold</h3><ul class='claims'>{_claims(fails)}</ul>"
    return (
        f"<p class='lead'>{held} of {len(claims)} statements hold on these results. Numbers in "
        "brackets are the paper's, made with its own camera motion.</p>"
        f"<ul>{links}</ul>{failed}"
    )


def _tally(run: Run) -> str:
    claims = run.findings.claims
    if not claims:
        return ""
    return f": {sum(claim.holds for claim in claims)} of {len(claims)} hold"


def _missing(run: Run) -> str:
    if not run.about["missing"]:
        return ""
    names = escape(", ".join(run.about["missing"]))
    return f"<br><small class='missing'>missing: {names}</small>"


def _section(number: int, run: Run) -> str:
    settings = ", ".join(f"{key} {value}" for key, value in run.about["settings"].items())
    stale = (
        f"<p class='missing'>Run by version {escape(run.about['version'])}, shown by {__version__}."
        "</p>"
        if run.stale
        else ""
    )
    figures = "".join(
        f"<figure{WIDE if figure['kind'] == 'along' else ''}>"
        f"<figcaption>{escape(figure['title'])}</figcaption>{experiment_figure(figure)}</figure>"
        for figure in run.findings.figures
    )
    if figures:
        figures = f"<div class='beside'>{figures}</div>"
    return (
        f"<p id='run{number}'><code>maci2 reproduce {escape(run.about['name'])}</code>, "
        f"{escape(settings)} <code>{escape(run.label)}</code></p>{stale}"
        f"<ul class='claims'>{_claims(run.findings.claims)}</ul>"
        f"{''.join(_table(table) for table in run.findings.tables)}{figures}"
    )


def _claims(claims: list[Claim]) -> str:
    return "".join(
        f"<li class='{'yes' if claim.holds else 'no'}'><b>{'yes' if claim.holds else 'no'}</b> "
        f"{escape(claim.text)}</li>"
        for claim in claims
    )


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
