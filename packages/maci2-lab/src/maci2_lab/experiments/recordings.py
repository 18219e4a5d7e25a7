"""Recordings below a folder, by name, and those that experiments render if they are not found."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from maci2.datasets import open_recording
from maci2.datasets.vbr import is_vbr
from maci2.errors import DatasetError
from maci2.pipeline.render_along import rendered_on_imu_clock
from maci2.simulation import SimulationConfig, simulate
from maci2.simulation.rendering.difficulty import difficulty_of
from maci2.simulation.rendering.images import RenderConfig, SceneKind, render_recording
from maci2.simulation.trajectory import MotionKind
from maci2_lab.parallel import Pool, WorkerDied, run_all

DEEPEST = 4
"""Depth of the search below the root [folders]."""


@dataclass(frozen=True)
class Recordings:
    """Recordings below one folder."""

    root: Path
    """The folder that was searched."""

    by_name: dict[str, Path]
    """Path of each recording by name."""

    duplicates: dict[str, tuple[Path, ...]] = field(default_factory=dict)
    """Further recordings of the same name, which are not used."""

    def present(self, names: tuple[str, ...]) -> dict[str, Path]:
        """Paths of the `names` that are present, in their order."""
        return {name: self.by_name[name] for name in names if name in self.by_name}

    def only(self, names: tuple[str, ...]) -> "Recordings":
        """Recordings restricted to the `names` that are present, in their order."""
        return replace(self, by_name=self.present(names))

    def missing(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The `names` that are not present."""
        return tuple(name for name in names if name not in self.by_name)


def find_recordings(root: Path) -> Recordings:
    """Find all folders below `root` with mav0/imu0 or VBR's bags."""
    if not root.is_dir():
        raise DatasetError(f"--data {root}: no such folder; give the one that holds recordings.")
    by_name: dict[str, Path] = {}
    duplicates: dict[str, tuple[Path, ...]] = {}
    level = [root]
    for _ in range(DEEPEST):
        deeper: list[Path] = []
        for folder in level:
            if (folder / "mav0" / "imu0").is_dir() or is_vbr(folder):
                name = short_name(folder.name)
                if by_name.setdefault(name, folder) != folder:
                    duplicates[name] = (*duplicates.get(name, ()), folder)
            else:
                deeper += sorted(entry for entry in folder.iterdir() if entry.is_dir())
        level = deeper
    if not by_name:
        raise DatasetError(
            f"--data {root}: no recording in it; looked {DEEPEST} folders deep for mav0/imu0 "
            "(EuRoC, TUM-VI)."
        )
    return Recordings(root, by_name, duplicates)


def short_name(folder: str) -> str:
    """Name used by experiments: room2 for `dataset-room2_512_16`, campus0 for `campus_train0`."""
    if folder.startswith("dataset-"):
        return folder.removeprefix("dataset-").partition("_")[0]
    return folder.replace("_train", "")


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
