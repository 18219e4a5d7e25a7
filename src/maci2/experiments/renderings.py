"""Recordings that experiments render if they are not found, along flights or along a drive."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from maci2.datasets import open_recording
from maci2.errors import DatasetError
from maci2.evaluation.parallel import Pool, WorkerDied, run_all
from maci2.experiments.recordings import Recordings
from maci2.pipeline.render_along import rendered_on_imu_clock
from maci2.simulation import SimulationConfig, simulate
from maci2.simulation.rendering.difficulty import difficulty_of
from maci2.simulation.rendering.images import RenderConfig, SceneKind, render_recording
from maci2.simulation.trajectory import MotionKind

Progress = Callable[[str, int, int], None]
"""Progress callback: activity, count done, total count."""

ONE_AT_A_TIME = Pool()
FLIGHT_S = 15.0
RATE_HZ = 20.0


@dataclass(frozen=True)
class Rendering:
    """One rendered recording."""

    name: str
    """Folder to search and to write to."""

    along: str = ""
    """Recording whose ground truth and IMU it has; empty for a simulated motion."""

    start_s: float = 0.0
    """Start within that recording [s]."""

    difficulty: str = "easy"
    motion: MotionKind = "handheld"
    """Kind of simulated motion."""

    scene: SceneKind = "room"
    duration_s: float = FLIGHT_S
    seed: int = 0


@dataclass(frozen=True)
class _Order:
    """A rendering to make."""

    one: Rendering
    along: Path | None
    """Path of the recording to render along."""

    path: Path
    """Folder to write to."""


def with_renderings(
    renderings: tuple[Rendering, ...],
    recordings: Recordings,
    folder: Path,
    pool: Pool = ONE_AT_A_TIME,
    on_progress: Progress = lambda *_: None,
) -> Recordings:
    """Add recordings that were rendered, now or before, into `folder`.

    One along a recording that is not there stays missing.
    """
    by_name = recordings.by_name
    wanted = [
        _Order(one, by_name.get(one.along), folder / one.name)
        for one in renderings
        if one.name not in by_name and (not one.along or one.along in by_name)
    ]
    missing = [order for order in wanted if not order.path.is_dir()]
    for done, (order, result) in enumerate(run_all(_render, missing, pool), start=1):
        if isinstance(result, WorkerDied):
            raise DatasetError(f"{order.path}: {result.reason}; nothing was rendered.")
        on_progress(f"rendering {order.one.name}", done, len(missing))
    return replace(recordings, by_name=by_name | {order.one.name: order.path for order in wanted})


def _render(order: _Order) -> None:
    one = order.one
    config = RenderConfig(
        difficulty_of(one.difficulty), one.seed, RATE_HZ, one.start_s, one.duration_s, one.scene
    )
    if order.along is not None:
        recording, _ = rendered_on_imu_clock(open_recording(order.along), config)
    else:
        recording = simulate(
            SimulationConfig(kind=one.motion, duration_s=one.duration_s, seed=one.seed)
        )
    order.path.parent.mkdir(parents=True, exist_ok=True)
    render_recording(recording, order.path, config)
