"""The solver's kernels compiled by another process, while this one has something else to do."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from maci2.estimation.levenberg_marquardt import levenberg_marquardt

COMMAND = "from maci2.evaluation.consistency import study_consistency; study_consistency(1, 0)"
"""One initialization calls every kernel of the IMU and the solver."""


def solver_is_compiled() -> bool:
    """A former run has left it in numba's cache."""
    folder = Path(levenberg_marquardt.stats.cache_path or "")
    return any(folder.glob("*.levenberg_marquardt-*.nbi"))


@contextmanager
def solver_compiled_aside() -> Iterator[Callable[[], None]]:
    """Compile as long as the block lasts; call what it yields to wait until that is done.

    What the other process compiles, this one finds in numba's cache. Should it fail, this one
    compiles for itself.
    """
    if solver_is_compiled() or not sys.executable:
        yield lambda: None
        return
    quiet = subprocess.DEVNULL
    with subprocess.Popen([sys.executable, "-c", COMMAND], stdout=quiet, stderr=quiet) as helper:
        try:
            yield lambda: _finished(helper)
        finally:
            helper.kill()


def _finished(helper: subprocess.Popen[bytes]) -> None:
    helper.wait()
