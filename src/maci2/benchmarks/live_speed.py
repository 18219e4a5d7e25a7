"""Processor time of odometry while the sensors run, on the images of a recording."""

import resource
from dataclasses import dataclass
from pathlib import Path

from maci2.datasets import open_recording
from maci2.pipeline.online import OnlineTracker, OnlineTrackerConfig
from maci2.pipeline.online.replay import replay
from maci2.tracking import TrackedState
from maci2.types import NS

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
