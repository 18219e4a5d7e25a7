"""Methods that experiments compare: maci2's own rows, baselines on poses, baselines on tracks."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from maci2.pipeline.options import RunOptions
from maci2_lab.baselines import Segment
from maci2_lab.evaluation.imu_report import TRUTHS as TRUTHS
from maci2_lab.experiments import paper_numbers as paper

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
    """True if the method uses prior knowledge of this particular IMU."""

    paper_row: str = ""
    """Row of the paper's table to compare with."""

    def options(self, stride_s: float, seed: int) -> RunOptions:
        """Options of `maci2 evaluate` with these choices."""
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
        """True if one of the names is this row's or its initializer's, ignoring case."""
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
    """True if a recording has the file of a vision source."""
    file = vision_file(vision)
    return not file or (path / file).is_file()


def short_vision(vision: str) -> str:
    """Name of a vision source in tables and claims; a trajectory by its file name."""
    return vision.rpartition("/")[2]


def on_both(methods: tuple[Method, ...]) -> tuple[Method, ...]:
    """Methods on noisy ground truth and on DROID-SLAM's trajectories."""
    return tuple(replace(method, vision=vision) for vision in (TRUTH, DROID) for method in methods)


LEARNED = Method("maci2, learned IMU", imu="euroc", knows_sensor=True, paper_row=paper.WITH)
RAW = Method("maci2, raw IMU", paper_row=paper.WITHOUT)
TWO_FRAME = Method("maci2, raw IMU, two frames at a time", "maci2-two-frame")
PRINTED = Method("as printed in the paper, raw IMU", "maci2-paper")
CONSTANT = Method("constant bias", "const-bias", knows_sensor=True)

BASELINES = (
    CONSTANT,
    Method("linear alignment", "linear"),
    Method("ORB-SLAM3 inertial-only", "orbslam3", paper_row="ORB-SLAM3"),
    Method("analytic (Zuniga-Noel)", "analytic"),
    Method("VINS alignment", "vins", paper_row="VINS-Fusion"),
    Method("VINS alignment, fixed", "vins-fixed"),
    Method("Kimera alignment", "kimera"),
    Method("naive static", "static"),
)

TRACK_BASELINES = (
    Method("VINS-Mono (mono)", "vins-mono", paper_row="VINS-Mono"),
    Method("VINS-Mono, fixed (mono)", "vins-mono-fixed"),
    Method("VINS-Fusion (stereo)", "vins-fusion", paper_row="VINS-Fusion"),
    Method("ORB-SLAM3 (stereo)", "orbslam3-full", paper_row="ORB-SLAM3"),
    Method("Stereo-NEC (stereo)", "stereo-nec", paper_row="Stereo-NEC"),
    Method("DRT-t (mono)", "drt-t", paper_row="DRT-t"),
    Method("DRT-l (mono)", "drt-l", paper_row="DRT-l"),
    Method("DRT-PNEC (mono)", "drt-pnec"),
    Method("sqrt-VINS mono", "sqrtvins-mono"),
    Method(
        "sqrt-VINS mono, bias guess",
        "sqrtvins-mono-guess",
        knows_sensor=True,
        paper_row="sqrt-VINS mono",
    ),
    Method("sqrt-VINS stereo", "sqrtvins-stereo"),
    Method(
        "sqrt-VINS stereo, bias guess",
        "sqrtvins-stereo-guess",
        knows_sensor=True,
        paper_row="sqrt-VINS stereo",
    ),
    Method("FF back end, stereo depth", "ff-back-end"),
    Method(
        "FF back end, stereo depth, bias guess",
        "ff-back-end-guess",
        knows_sensor=True,
        paper_row="FF-VIO-Init",
    ),
    Method("OpenVINS dynamic (stereo)", "openvins"),
    Method("OpenVINS dynamic (stereo), bias guess", "openvins-guess", knows_sensor=True),
    Method("OpenVINS static", "openvins-static"),
)
"""Methods that use feature tracks; those with a bias guess know EuRoC's IMU."""


def on_tracks(methods: tuple[Method, ...]) -> tuple[Method, ...]:
    """Methods on simulated tracks of 0.5 and of 1 px."""
    return tuple(
        replace(method, vision=vision) for vision in (HALF_PIXEL, ONE_PIXEL) for method in methods
    )


def from_images(methods: tuple[Method, ...]) -> tuple[Method, ...]:
    """Methods on images: maci2's odometry, or tracks for those that take them."""
    return tuple(replace(method, vision="images") for method in methods)
