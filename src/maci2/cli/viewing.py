"""The option `--rerun` of all commands."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

import typer

from maci2.errors import OptionError

if TYPE_CHECKING:
    from maci2.reports.rerun_viewer import Viewer

LIVE = "live"
"""Value of `--rerun` that opens a window."""


def require_viewer(target: str) -> None:
    """Raise, before any work is done, if the result could not be shown."""
    if not target:
        return
    if target != LIVE and not target.endswith(".rrd"):
        raise OptionError(f"--rerun is '{target}'; give a file that ends in .rrd, or live.")
    if find_spec("rerun") is None:
        raise OptionError("--rerun needs Rerun: pip install 'maci2[viewer]'.")


@contextmanager
def viewer(target: str, title: str, say: Callable[[str], None] = typer.echo) -> "Iterator[Viewer]":
    """Open a viewer; at the end, say which file was written."""
    from maci2.reports.rerun_viewer import Viewer

    yield Viewer(target, title)
    if target != LIVE:
        say(f"wrote {target}")
