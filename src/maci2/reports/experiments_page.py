"""Report of experiments: summary first, then tables and figures, then options and versions."""

import json
from html import escape

from maci2 import __version__
from maci2.experiments.table import Cell, Claim, Table
from maci2.reports.experiment_figures import experiment_figure
from maci2.reports.html import Section, page
from maci2.reports.runs import Run

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
