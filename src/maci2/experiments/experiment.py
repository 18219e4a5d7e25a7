"""Experiments: a name, tasks, and tables and claims from their results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from maci2.errors import require_in_range
from maci2.experiments.calibration_task import CalibrationTask
from maci2.experiments.covariance_tables import covariance_findings
from maci2.experiments.hard_images_task import HardImagesTask
from maci2.experiments.imu_task import CovarianceTask
from maci2.experiments.init_task import InitTask
from maci2.experiments.method import has_vision, vision_file
from maci2.experiments.recordings import Recordings
from maci2.experiments.robustness_task import RobustnessTask
from maci2.experiments.table import Findings, Record
from maci2.experiments.track_task import TrackTask, baselines_of, track_findings
from maci2.experiments.truth_task import TruthTask, truth_findings
from maci2.experiments.visual_task import VisualTask
from maci2.pipeline.option_list import LONGEST_S, SEEDS

Task = (
    InitTask
    | CalibrationTask
    | CovarianceTask
    | VisualTask
    | RobustnessTask
    | TrackTask
    | TruthTask
    | HardImagesTask
)
Records = dict[str, Record]
"""Records by task key."""


@dataclass(frozen=True)
class Settings:
    """Options of a whole run."""

    seed: int = 0
    """Seed of all random numbers."""

    limit_s: float = 20.0
    """Processor time allowed for one window of one method."""

    def __post_init__(self) -> None:
        require_in_range("--seed", self.seed, *SEEDS)
        require_in_range("--time-limit", self.limit_s, 0.0, LONGEST_S, above=True)


class Experiment(Protocol):
    """An experiment: usually one table or figure of the paper."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def recordings(self) -> tuple[str, ...]: ...
    @property
    def files(self) -> tuple[str, ...]: ...
    def tasks(self, recordings: Recordings, settings: Settings) -> list[Task]: ...
    def findings(self, records: Records) -> Findings: ...


@dataclass(frozen=True)
class RecordingsExperiment:
    """Tasks on the named recordings, and findings from all of their results."""

    name: str
    title: str
    recordings: tuple[str, ...]
    make_tasks: Callable[[dict[str, Path], int], Sequence[Task]]
    """Tasks by the paths of those recordings that are present, and by the seed."""

    evaluate: Callable[[list[Record]], Findings]
    """Tables, claims and figures from the results of the tasks."""

    files: tuple[str, ...] = ()

    def tasks(self, recordings: Recordings, settings: Settings) -> list[Task]:
        return list(self.make_tasks(recordings.present(self.recordings), settings.seed))

    def findings(self, records: Records) -> Findings:
        return self.evaluate(list(records.values()))


@dataclass(frozen=True)
class CovarianceExperiment:
    """Predicted sigma against integration error."""

    name: str
    title: str
    groups: dict[str, tuple[str, ...]]
    """Test recordings of each IMU model."""

    horizons_s: tuple[float, ...] = (0.25, 1.0)
    growth_s: tuple[float, ...] = (0.25, 1.0)
    files: tuple[str, ...] = ()

    @property
    def recordings(self) -> tuple[str, ...]:
        return tuple(name for names in self.groups.values() for name in names)

    def tasks(self, recordings: Recordings, settings: Settings) -> list[Task]:
        return [
            CovarianceTask(model, tuple(there.items()), self.horizons_s, self.growth_s)
            for model, names in self.groups.items()
            if (there := recordings.present(names))
        ]

    def findings(self, records: Records) -> Findings:
        return covariance_findings(list(records.values()), growth=len(self.growth_s) > 2)


@dataclass(frozen=True)
class TrackExperiment:
    """Odometry of whole recordings, compared with trajectories of other systems."""

    name: str
    title: str
    with_images: tuple[str, ...]
    """Recordings that are tracked from their images."""

    with_trajectory: tuple[str, ...]
    """Recordings whose fused trajectory is `vision`."""

    vision: str
    imus: tuple[str, ...] = ("raw", "euroc")

    @property
    def recordings(self) -> tuple[str, ...]:
        return (*self.with_images, *self.with_trajectory)

    @property
    def files(self) -> tuple[str, ...]:
        return (vision_file(self.vision),)

    def tasks(self, recordings: Recordings, settings: Settings) -> list[Task]:
        images = recordings.present(self.with_images).items()
        fused = recordings.present(self.with_trajectory).items()
        root = recordings.root
        return [
            *(
                TrackTask(name, path, "images", "raw", baselines_of(root, name))
                for name, path in images
            ),
            *(
                TrackTask(name, path, self.vision, imu)
                for name, path in fused
                if has_vision(path, self.vision)
                for imu in self.imus
            ),
        ]

    def findings(self, records: Records) -> Findings:
        return track_findings(list(records.values()))


@dataclass(frozen=True)
class TruthExperiment:
    """Experiment of ground-truth audits."""

    name: str
    title: str
    sources: tuple[tuple[str, str], ...]
    """Recording and source, as `maci2 truth --from` names it."""

    files: tuple[str, ...] = ()

    @property
    def recordings(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for name, _ in self.sources))

    def tasks(self, recordings: Recordings, settings: Settings) -> list[Task]:
        there = recordings.present(self.recordings)
        return [
            TruthTask(name, there[name], source) for name, source in self.sources if name in there
        ]

    def findings(self, records: Records) -> Findings:
        return truth_findings(list(records.values()))
