"""Frame of all reports: one style, light and dark, readable on a phone and on paper, without
external resources.

A page opens with what was found and how sure it is; pictures follow; options, versions and the
command that made it close it.
"""

import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.metadata import version
from importlib.resources import files

import numpy as np

from maci2 import __version__
from maci2.estimator import Verdict
from maci2.findings import Finding


@dataclass(frozen=True)
class Section:
    """Section of a page with a heading."""

    title: str
    body: str
    """HTML."""


def page(
    title: str,
    lead: str,
    sections: Iterable[Section],
    command: str,
    scripts: str = "",
    options: Mapping[str, object] | None = None,
) -> str:
    """A whole page. `lead` is HTML; `command` is the command that makes the page, `options` are all
    options by name."""
    body = "".join(
        f"<section><h2>{escape(section.title)}</h2>{section.body}</section>" for section in sections
    )
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<meta name='color-scheme' content='light dark'><title>{escape(title)}</title>"
        f"<style>{asset('picture.css')}{asset('page.css')}</style></head><body>"
        f"<header><h1>{escape(title)}</h1>{lead}</header>{body}"
        f"{_footer(command, options or {})}{scripts}</body></html>\n"
    )


def asset(name: str) -> str:
    """Text of a file beside this module."""
    return files("maci2.report").joinpath(name).read_text(encoding="utf-8")


def verdict(found: Verdict) -> str:
    """Verdict as a coloured line, with its reasons."""
    status = escape(found.status)
    reasons = bullets(found.reasons) if found.reasons else ""
    return f"<p class='first {status}'>verdict: <b>{status}</b></p>{reasons}"


def bullets(lines: Iterable[str]) -> str:
    """List of sentences."""
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], stacked: bool = True) -> str:
    """A table whose first column is text.

    Where it is wider than the page it shows each row as a block of lines that begin with the name
    of their column, or, if not `stacked`, scrolls in itself.
    """
    head = "".join(f"<th scope='col'>{escape(column)}</th>" for column in columns)
    body = ""
    for first, *cells in rows:
        body += f"<tr><th scope='row'>{escape(first)}</th>"
        for name, cell in zip(columns[1:], cells, strict=True):
            body += f"<td data-name='{escape(name)}'>{escape(cell)}</td>"
        body += "</tr>"
    kind = "class='stacked'" if stacked else "class='scroll' tabindex='0'"
    return f"<div {kind}><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def vector(values: Sequence[float] | np.ndarray, digits: int, signed: bool = True) -> str:
    """Components side by side in columns of equal width."""
    return ", ".join(f"{value:{'+' if signed else ''}.{digits}f}" for value in values)


def findings_list(findings: Sequence[Finding]) -> str:
    """Findings in the given order, each with its level."""
    rows = "".join(
        f"<li><b class='{finding.level}'>{finding.level}</b><b>{escape(finding.what)}</b>"
        f"<span>{escape(finding.text)}</span></li>"
        for finding in findings
    )
    return f"<ul class='findings'>{rows}</ul>"


def figure(svg: str, caption: str, wide: bool = False) -> str:
    """Picture with a caption; a `wide` one takes a whole row."""
    kind = " class='wide'" if wide else ""
    return f"<figure{kind}>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def side_by_side(*parts: str) -> str:
    """Pictures side by side, or below each other on a narrow page."""
    return f"<div class='beside'>{''.join(parts)}</div>"


def matrix(T: np.ndarray) -> str:
    """Matrix as preformatted text, to be copied."""
    lines = "\n".join("  ".join(f"{value: .6f}" for value in row) for row in T)
    return f"<pre>{lines}</pre>"


def _footer(command: str, options: Mapping[str, object]) -> str:
    made = f"<p>Made by <code>{escape(command)}</code></p>" if command else ""
    rows = "".join(
        f"<div><dt>{escape(name)}</dt> <dd>{escape(_option(value))}</dd></div>"
        for name, value in options.items()
    )
    chosen = f"<details open><summary>Options</summary><dl>{rows}</dl></details>" if rows else ""
    libraries = [f"{name} {version(name)}" for name in ("numpy", "scipy", "numba")]
    versions = [f"maci2 {__version__}", *libraries, f"Python {platform.python_version()}"]
    return f"<footer>{chosen}{made}<p>{escape(', '.join(versions))}</p></footer>"


def _option(value: object) -> str:
    if value is None or value in ("", [], (), {}):
        return "–"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_option(part)}" for name, part in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(_option(part) for part in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
