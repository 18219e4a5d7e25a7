"""Recordings that experiments render where they are not found: along flights, or along a drive."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from maci2.datasets import open_recording
from maci2.experiments.recordings import Recordings
from maci2.pipeline.render_along import rendered_on_imu_clock
from maci2.simulation import SimulationConfig, simulate
from maci2.simulation.rendering.image_difficulty import difficulty_of
from maci2.simulation.rendering.recording import RenderConfig, SceneKind, render_recording
from maci2.simulation.trajectory_kinds import MotionKind

Progress = Callable[[str, int, int], None]
"""What is done, how much of it, out of how much."""

FLIGHT_S = 15.0
RATE_HZ = 20.0


@dataclass(frozen=True)
class Rendering:
    """One rendered recording."""

    name: str
    """Folder that it is looked for in, and written to."""

    along: str = ""
    """Recording whose ground truth and IMU it has; empty for a simulated motion."""

    start_s: float = 0.0
    """Where in that recording it begins."""

    difficulty: str = "easy"
    motion: MotionKind = "handheld"
    """Kind of simulated motion."""

    scene: SceneKind = "room"
    duration_s: float = FLIGHT_S
    seed: int = 0


def with_renderings(
    renderings: tuple[Rendering, ...],
    recordings: Recordings,
    folder: Path,
    on_progress: Progress = lambda *_: None,
) -> Recordings:
    """The recordings with those that had to be rendered, or were before, into `folder`.

    One along a recording that is not there stays missing.
    """
    by_name = dict(recordings.by_name)
    for one in renderings:
        if one.name in by_name or (one.along and one.along not in by_name):
            continue
        path = folder / one.name
        if not path.is_dir():
            _render(one, by_name, path, partial(on_progress, f"rendering {one.name}"))
        by_name[one.name] = path
    return replace(recordings, by_name=by_name)


def _render(
    one: Rendering, by_name: dict[str, Path], path: Path, on_pair: Callable[[int, int], None]
) -> None:
    config = RenderConfig(
        difficulty_of(one.difficulty), one.seed, RATE_HZ, one.start_s, one.duration_s, one.scene
    )
    if one.along:
        recording, _ = rendered_on_imu_clock(open_recording(by_name[one.along]), config)
    else:
        recording = simulate(
            SimulationConfig(kind=one.motion, duration_s=one.duration_s, seed=one.seed)
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    render_recording(recording, path, config, on_pair=on_pair)
