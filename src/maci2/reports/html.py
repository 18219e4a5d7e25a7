"""Every page's frame: one style, light and dark, readable on a phone and on paper, nothing fetched.

A page opens with what was found and how sure it is; pictures follow; options, versions and the
command that made it close it.
"""

import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

import numpy as np

from maci2 import __version__


@dataclass(frozen=True)
class Section:
    """A part of a page under a heading of its own."""

    title: str
    body: str
    """HTML."""


def page(
    title: str, lead: str, sections: Iterable[Section], command: str, scripts: str = ""
) -> str:
    """A whole page. `lead` is HTML; `command` is what a reader types to get the page again."""
    body = "".join(
        f"<section><h2>{escape(section.title)}</h2>{section.body}</section>" for section in sections
    )
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<meta name='color-scheme' content='light dark'><title>{escape(title)}</title>"
        f"<style>{asset('page.css')}</style></head><body>"
        f"<header><h1>{escape(title)}</h1>{lead}</header>{body}{_footer(command)}{scripts}"
        "</body></html>\n"
    )


def asset(name: str) -> str:
    """Text of a file that lies beside this module."""
    return files("maci2.reports").joinpath(name).read_text(encoding="utf-8")


def verdict(status: str, reasons: Sequence[str]) -> str:
    """The verdict as a coloured line, with its reasons below."""
    lines = "".join(f"<li>{escape(reason)}</li>" for reason in reasons)
    return f"<p class='first {escape(status)}'>verdict: <b>{escape(status)}</b></p>" + (
        f"<ul>{lines}</ul>" if lines else ""
    )


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table that scrolls in itself where it is wider than the page; the first column is text."""
    head = "".join(f"<th scope='col'>{escape(column)}</th>" for column in columns)
    body = "".join(
        f"<tr><th scope='row'>{escape(first)}</th>"
        f"{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
        for first, *cells in rows
    )
    return (
        "<div class='scroll' tabindex='0'><table><thead><tr>"
        f"{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def figure(svg: str, caption: str) -> str:
    """A picture with what it shows written below."""
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def side_by_side(*parts: str) -> str:
    """Pictures beside each other, below each other where the page is narrow."""
    return f"<div class='beside'>{''.join(parts)}</div>"


def matrix(T: np.ndarray) -> str:
    """A matrix as preformatted text, to be copied."""
    lines = "\n".join("  ".join(f"{value: .6f}" for value in row) for row in T)
    return f"<pre>{lines}</pre>"


def _footer(command: str) -> str:
    versions = f"maci2 {__version__}, numpy {np.__version__}, Python {platform.python_version()}"
    made = f"<p>Made by <code>{escape(command)}</code></p>" if command else ""
    return f"<footer>{made}<p>{escape(versions)}</p></footer>"
