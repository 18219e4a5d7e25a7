"""Time of commands and of odometry on a recording: first results with an empty and with a full
compile cache, and processor time while the sensors run."""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from maci2.datasets import open_recording
from maci2.live import OnlineTracker, OnlineTrackerConfig
from maci2.live.replay import replay
from maci2.odometry import TrackedState
from maci2.types import NS

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


SPEED = 1000.0
"""Playback speed: as fast as pairs are processed."""

ENOUGH_S = 600.0
"""Longest wait for the last pair [s]."""


@dataclass(frozen=True)
class LiveSpeed:
    """Processor time of one recording, all threads together, reading of images included."""

    recording: str
    duration_s: float
    """Time from the first image to the last [s]."""

    processor_s: float
    states: int

    @property
    def per_second(self) -> float:
        """Processor time per second of data: below 1, one core keeps up."""
        return self.processor_s / self.duration_s

    def text(self) -> str:
        return (
            f"OnlineTracker on {self.recording}: {self.per_second:.2f} s of processor time per "
            f"second of data, {self.states} states over {self.duration_s:.1f} s"
        )


def live_speed(path: Path) -> LiveSpeed:
    """Play a recording back to an `OnlineTracker`; compilation is not counted."""
    recording = open_recording(path)
    states: list[TrackedState] = []
    config = OnlineTrackerConfig(waiting_results=10_000)
    with OnlineTracker(recording.rig, config, states.append) as online:
        before_s = _processor_s()
        replayed = replay(recording, online, SPEED)
        online.drain(ENOUGH_S)
        spent_s = _processor_s() - before_s
    stamps_ns = sorted(replayed.pair_at_s)
    return LiveSpeed(recording.name, (stamps_ns[-1] - stamps_ns[0]) / NS, spent_s, len(states))


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
