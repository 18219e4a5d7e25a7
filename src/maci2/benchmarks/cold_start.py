"""Time of the first result of commands, with an empty and with a full compile cache."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TRUTH_VISION = ("--vision", "truth:0.05,0.003")


@dataclass(frozen=True)
class FirstAnswer:
    """Time that one command took, in a process of its own."""

    command: str
    """Command as it would be typed beside the recording."""

    cold_s: float
    """Processor time with an empty cache, of the command and of the workers it waited for [s]."""

    warm_s: float
    """Processor time with a full cache [s]."""

    cold_wall_s: float
    """Time from start to end with an empty cache [s]."""


def first_answers(recording: Path) -> Iterator[FirstAnswer]:
    """Time each command on one recording with both caches; images are used if there are any."""
    commands: list[tuple[str, ...]] = [("init", str(recording), *TRUTH_VISION)]
    if any((recording / "mav0" / "cam0").rglob("*.png")):
        commands.append(("init", str(recording), "--vision", "images"))
    commands += [("check", str(recording)), ("calibrate", str(recording), *TRUTH_VISION)]
    # Workers of low priority may still write into a folder when it is removed.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        full = Path(folder) / "full"
        cold_s, wall_s = _run(("compile",), full)
        yield FirstAnswer("compile", cold_s, _run(("compile",), full)[0], wall_s)
        for i, command in enumerate(commands):
            cold_s, wall_s = _run(command, Path(folder) / str(i))
            typed = " ".join(command).replace(str(recording), recording.resolve().name)
            yield FirstAnswer(typed, cold_s, _run(command, full)[0], wall_s)


def _run(command: tuple[str, ...], cache: Path) -> tuple[float, float]:
    """Processor time and wall time of a command [s]."""
    # A fresh machine has no audited ground truth either.
    caches = {"NUMBA_CACHE_DIR": str(cache), "XDG_CACHE_HOME": str(cache)}
    environment = os.environ | caches | {"MACI2_KERNELS": ""}
    start = time.monotonic()
    quiet = subprocess.DEVNULL
    worker = subprocess.Popen(
        [sys.executable, "-m", "maci2.cli", *command], env=environment, stdout=quiet, stderr=quiet
    )
    _, _, used = os.wait4(worker.pid, 0)
    return used.ru_utime + used.ru_stime, time.monotonic() - start
