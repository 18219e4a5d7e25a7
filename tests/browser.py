"""Pages as a browser shows them: errors on its console, elements wider than the page, text that is
cut off at the edge of its picture."""

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from html import escape, unescape
from pathlib import Path
from typing import NamedTuple

import pytest

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")

WIDTHS = (390, 1280, 1440)
"""A phone, a laptop and a wide screen [px]."""

# Windows have a least width of their own, frames have not. What scrolls in itself may be wider than
# the page.
OUTER = """<!doctype html><title>pages</title><body>{frames}<script>
const seen = (frame) => {{
  const page = frame.contentDocument, limit = page.documentElement.clientWidth + 1;
  const named = (element) => element.tagName + "." + element.getAttribute("class") + ": "
    + element.textContent.slice(0, 40);
  const wide = [...page.querySelectorAll("body *")].filter((element) =>
    element.getBoundingClientRect().right > limit && !element.closest(".scroll, pre, svg"));
  const cut = [...page.querySelectorAll("svg text")].filter((text) => {{
    const inner = text.getBoundingClientRect();
    const outer = text.ownerSVGElement.getBoundingClientRect();
    return inner.left < outer.left - 2 || inner.right > outer.right + 2
      || inner.top < outer.top - 2 || inner.bottom > outer.bottom + 2;
  }});
  return {{ wide: wide.map(named), cut: cut.map(named), scrolls: page.documentElement.scrollWidth
    > page.documentElement.clientWidth, svgs: page.querySelectorAll("svg").length }};
}};
addEventListener("load", () => {{
  const frames = [...document.querySelectorAll("iframe")];
  document.body.dataset.seen = JSON.stringify(Object.fromEntries(
    frames.map((frame) => [frame.name, seen(frame)])));
}});
</script></body>
"""


class Shown(NamedTuple):
    """What a browser made of a page at one width."""

    wide: list[str]
    """Elements that reach beyond the right edge."""

    cut: list[str]
    """Text that reaches beyond its picture."""

    scrolls: bool
    """Whether the page as a whole scrolls sideways."""

    svgs: int
    """Number of pictures."""


def show(pages: Mapping[str, str], folder: Path) -> tuple[dict[tuple[str, int], Shown], list[str]]:
    """Open all pages at all widths in one headless Chromium; what was seen, and the console."""
    frames = []
    for name, page in pages.items():
        (folder / f"{name}.html").write_text(page, encoding="utf-8")
        frames += [
            f"<iframe name='{escape(name)} {width}' src='{escape(name)}.html' "
            f"style='width: {width}px; height: 900px'></iframe>"
            for width in WIDTHS
        ]
    outer = folder / "all_pages_of_a_test.html"
    outer.write_text(OUTER.format(frames="".join(frames)), encoding="utf-8")
    run = subprocess.run(
        [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
            "--disable-background-networking", "--disable-component-update", "--no-first-run",
            "--allow-file-access-from-files", f"--user-data-dir={folder / 'profile'}",
            "--window-size=1600,900", "--virtual-time-budget=20000", "--dump-dom", outer.as_uri(),
        ],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    console = [line for line in run.stderr.splitlines() if "CONSOLE" in line]
    seen = re.search(r'data-seen="([^"]*)"', run.stdout)
    assert seen is not None, "the pages did not finish loading"
    shown = {}
    for key, values in json.loads(unescape(seen[1])).items():
        name, width = key.rsplit(" ", 1)
        shown[name, int(width)] = Shown(**values)
    return shown, console


def faults(pages: Mapping[str, str], folder: Path) -> list[str]:
    """Everything that a reader would fault, each with its page and width; and the console."""
    shown, console = show(pages, folder)
    assert set(shown) == {(name, width) for name in pages for width in WIDTHS}
    found = list(console)
    for (name, width), page in shown.items():
        where = f"{name} at {width} px"
        found += [f"{where}: wider than the page: {element}" for element in page.wide]
        found += [f"{where}: cut off: {text}" for text in page.cut]
        found += [f"{where}: scrolls sideways"] * page.scrolls
    return found
