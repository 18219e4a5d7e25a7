"""A method under test: initializer, measurements and weights."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from maci2.baselines import Segment
from maci2.evaluation.imu_report import TRUTHS as TRUTHS
from maci2.pipeline.options import RunOptions

TRUTH = "truth:0.05,0.003"
DROID = "trajectory:visual/droid_stereo_Twc_tum.txt"
HALF_PIXEL, ONE_PIXEL = "tracks:0.5", "tracks:1"
"""Simulated tracks along the ground truth, with the recording's own IMU."""


@dataclass(frozen=True)
class Method:
    """One row of a table."""

    name: str
    """Unique within its experiment and vision source."""

    initializer: str = "maci2"
    """Name in `INITIALIZERS`."""

    imu: str = "raw"
    """IMU model, as --imu names it."""

    vision: str = TRUTH
    """Source of camera motion (--vision); a trajectory is in the rectified camera frame."""

    identity_vision: float = 0.0
    """Standard deviation [m, rad] instead of the stated visual covariances; 0 keeps them."""

    keyframes: int = 10
    """Keyframes in a window."""

    knows_sensor: bool = False
    """Whether the method uses prior knowledge of this particular IMU."""

    paper_row: str = ""
    """Row of the paper's table to compare with."""

    def options(self, stride_s: float, seed: int) -> RunOptions:
        """The same choices as options of `maci2 evaluate`."""
        frame = "camera" if self.vision.startswith("truth") else "rectified"
        return RunOptions(
            vision=self.vision,
            vision_frame=frame,
            imu=self.imu,
            keyframes=self.keyframes,
            stride_s=stride_s,
            truth=TRUTHS,
            seed=seed,
        )

    def is_called(self, names: Sequence[str]) -> bool:
        """Whether one of the names is this row's or its initializer's, ignoring case."""
        own = {self.name, self.name.partition(" (")[0], self.initializer}
        return bool({name.lower() for name in own} & {name.lower() for name in names})

    def weigh(self, segment: Segment) -> Segment:
        """Segment with the visual covariances for this method."""
        if self.identity_vision == 0.0:
            return segment
        vision = segment.vision
        covs = np.tile(self.identity_vision**2 * np.eye(6), (len(vision) - 1, 1, 1))
        return replace(segment, vision=replace(vision, covs_T_ck_ck1=covs, std_scale=0.0))


def slug(text: str) -> str:
    """Name in a form suitable for file names."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def vision_file(vision: str) -> str:
    """File that a vision source needs inside the recording; empty if it needs none."""
    kind, _, file = vision.partition(":")
    return file if kind == "trajectory" else ""


def has_vision(path: Path, vision: str) -> bool:
    """Whether a recording has the file of a vision source."""
    file = vision_file(vision)
    return not file or (path / file).is_file()


def short_vision(vision: str) -> str:
    """Name of a vision source in tables and claims; a trajectory by its file name."""
    return vision.rpartition("/")[2]
