"""Pages as a browser shows them: errors on its console, and elements wider than the page."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")

# What scrolls in itself may be wider than the page; what is drawn inside a picture is cut by it.
MEASURE = """
<script>
addEventListener("load", () => setTimeout(() => {
  const limit = document.documentElement.clientWidth + 1;
  const wide = [...document.querySelectorAll("body *")].filter((element) =>
    element.getBoundingClientRect().right > limit
    && !element.closest(".scroll, pre, svg") );
  document.body.dataset.wide = wide.map((element) => element.tagName + "." + element.className);
}, 3000));
</script>
"""


class Shown(NamedTuple):
    """What a browser made of a page."""

    dom: str
    errors: list[str]
    """Lines of the browser's console."""

    wide: str
    """Elements that reach beyond the right edge."""


def show(page: str, folder: Path, width: int, anchor: str = "") -> Shown:
    """Open a page in headless Chromium at a width [px]."""
    path = folder / f"page_{width}.html"
    path.write_text(page.replace("</body>", f"{MEASURE}</body>"), encoding="utf-8")
    run = subprocess.run(
        [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
            "--disable-background-networking", "--disable-component-update", "--no-first-run",
            f"--user-data-dir={folder / f'profile_{width}'}", f"--window-size={width},900",
            "--virtual-time-budget=20000", "--dump-dom", f"{path.as_uri()}{anchor}",
        ],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    errors = [line for line in run.stderr.splitlines() if "CONSOLE" in line]
    wide = re.search(r'data-wide="([^"]*)"', run.stdout)
    assert wide is not None, "the page did not finish loading"
    return Shown(run.stdout, errors, wide[1])
