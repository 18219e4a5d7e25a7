"""Experiments on hard images: a few minutes, and all of them."""

from dataclasses import dataclass

from maci2.experiments.experiment import Records, Settings, Task
from maci2.experiments.hard_images_task import hard_images_findings, hard_images_tasks
from maci2.experiments.recordings import Recordings
from maci2.experiments.table import Findings


@dataclass(frozen=True)
class HardImagesExperiment:
    """Degraded images along flights, learned against fixed match covariances."""

    name: str
    title: str
    recordings: tuple[str, ...]
    duration_s: float
    renderings: int
    """Seeds of each cell."""

    both_strengths: bool
    files: tuple[str, ...] = ()

    def tasks(self, recordings: Recordings, settings: Settings) -> list[Task]:
        there = recordings.present(self.recordings)
        seeds = range(settings.seed + 10, settings.seed + 10 + self.renderings)
        return list(hard_images_tasks(there, self.duration_s, seeds, self.both_strengths))

    def findings(self, records: Records) -> Findings:
        return hard_images_findings(list(records.values()))


HARD_IMAGES = HardImagesExperiment(
    "hard-images",
    "Degraded images, one kind at a time: learned against fixed match covariances",
    ("V1_02_medium", "V2_03_difficult"),
    duration_s=5.0,
    renderings=1,
    both_strengths=False,
)

HARD_IMAGES_FULL = HardImagesExperiment(
    "hard-images-full",
    "Degraded images, mild and strong, two rooms along each of three flights",
    ("V1_02_medium", "V2_03_difficult", "MH_05_difficult"),
    duration_s=12.0,
    renderings=2,
    both_strengths=True,
)
