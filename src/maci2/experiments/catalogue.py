"""The paper's experiments, by name."""

from functools import partial
from pathlib import Path

from maci2.errors import OptionError
from maci2.experiments import paper_numbers as paper
from maci2.experiments.calibration_tables import calibration_findings
from maci2.experiments.calibration_task import CalibrationMethod, CalibrationTask
from maci2.experiments.experiment import (
    CovarianceExperiment,
    Experiment,
    RecordingsExperiment,
    TrackExperiment,
    TruthExperiment,
)
from maci2.experiments.hard_images_task import hard_images_findings, hard_images_tasks
from maci2.experiments.init_catalogue import (
    COV_ABLATION,
    COV_RATIO,
    EUROC_INIT,
    GYRO_BIAS,
    IMU_ABLATION,
    IMU_TRAINING,
    IMU_TUNING,
    KEYFRAMES,
    POSE,
    VBR_INIT,
)
from maci2.experiments.init_experiment import CombinedExperiment, InitExperiment
from maci2.experiments.method import DROID
from maci2.experiments.robustness_task import robustness_findings, robustness_tasks
from maci2.experiments.visual_task import VisualTask, visual_findings


def _calibration_methods(recording: str) -> tuple[CalibrationMethod, ...]:
    learned = "tumvi" if recording.startswith(("room", "calib")) else "euroc"
    return (
        CalibrationMethod("maci2, raw IMU", "maci2"),
        CalibrationMethod("maci2, learned IMU", "maci2", learned),
        CalibrationMethod("VINS-Mono rotation", "vins"),
    )


def _calibration_tasks(recordings: dict[str, Path], seed: int) -> list[CalibrationTask]:
    return [
        CalibrationTask(name, path, method, seed)
        for name, path in recordings.items()
        for method in _calibration_methods(name)
    ]


def _visual_tasks(recordings: dict[str, Path], _: int) -> list[VisualTask]:
    return [VisualTask(name, path) for name, path in recordings.items()]


CALIB = RecordingsExperiment(
    "calib",
    "Extrinsics without a target, ten trials each",
    (
        *("calib-imu1", "calib-imu2", "calib-imu3", "calib-imu4"),
        *("room1", "room2", "room3", "room4", "room5", "room6"),
        *("V1_02_medium", "V2_03_difficult"),
    ),
    _calibration_tasks,
    calibration_findings,
)

IMU_COV = CovarianceExperiment(
    "imu-cov",
    "Predicted IMU sigma against actual error",
    {"euroc": paper.EUROC_TEST, "tumvi": ("room2", "room4", "room6")},
)

VIS_COV = RecordingsExperiment(
    "vis-cov",
    "Predicted visual sigma against actual error",
    ("MH_01_clip", "MH_01_static_clip", *paper.EUROC_TEST),
    _visual_tasks,
    visual_findings,
)

TRACK = TrackExperiment(
    "track",
    "Visual-inertial odometry of whole recordings",
    ("MH_01_clip", "V1_02_easy", "V1_02_hard", "V2_03_easy", "V2_03_hard"),
    (*paper.EUROC_TEST, *IMU_TRAINING, *IMU_TUNING),
    DROID,
)

INTE_ERROR = CovarianceExperiment(
    "inte-error",
    "Growth of the integration error",
    {"euroc": ("MH_04_difficult",)},
    horizons_s=(1.0,),
    growth_s=(0.05, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5),
)

ROBUSTNESS = RecordingsExperiment(
    "robustness",
    "Faulty inputs, one at a time, and the verdicts on them",
    ("V1_02_medium", "MH_03_medium", "V2_01_easy", "MH_05_difficult"),
    robustness_tasks,
    robustness_findings,
    files=(DROID.partition(":")[2],),
)

HARD_IMAGES = RecordingsExperiment(
    "hard-images",
    "Degraded images, one kind at a time: learned against fixed match covariances",
    ("V1_02_medium", "V2_03_difficult"),
    partial(hard_images_tasks, duration_s=3.8, rooms=3, both_strengths=False),
    hard_images_findings,
)

HARD_IMAGES_FULL = RecordingsExperiment(
    "hard-images-full",
    "Degraded images, mild and strong, two rooms along each of three flights",
    ("V1_02_medium", "V2_03_difficult", "MH_05_difficult"),
    partial(hard_images_tasks, duration_s=12.0, rooms=2, both_strengths=True),
    hard_images_findings,
)

GROUND_TRUTH = TruthExperiment(
    "truth",
    "Errors of published ground truths",
    (
        *((name, "") for name in (*IMU_TRAINING, *IMU_TUNING, "MH_02_easy", "MH_04_difficult")),
        ("V1_01_easy", "state_groundtruth_estimate0"),
        ("V1_01_easy", "state_groundtruth_openvins"),
        ("V1_01_easy", "vicon0"),
        *((name, "") for name in ("room1", "room2", "room3", "room4", "room5")),
    ),
)

_ALL: tuple[Experiment, ...] = (
    EUROC_INIT,
    COV_ABLATION,
    COV_RATIO,
    IMU_ABLATION,
    KEYFRAMES,
    POSE,
    GYRO_BIAS,
    VBR_INIT,
    VIS_COV,
    CALIB,
    IMU_COV,
    INTE_ERROR,
    ROBUSTNESS,
    TRACK,
    HARD_IMAGES,
    HARD_IMAGES_FULL,
    GROUND_TRUTH,
    *EUROC_INIT.parts,
    *VBR_INIT.parts,
)

EXPERIMENTS = {one.name: one for one in _ALL}

BY_NAME_ONLY = (
    HARD_IMAGES_FULL.name,
    *(part.name for part in (*EUROC_INIT.parts, *VBR_INIT.parts)),
)
"""Experiments that run only by name: one that takes an hour, and parts of others."""


def find_experiments(names: list[str]) -> list[Experiment]:
    """Experiments of these names, by default all except the longest; an error lists what exists."""
    unknown = [name for name in names if name not in EXPERIMENTS]
    if unknown:
        raise OptionError(
            f"no experiment is called {', '.join(unknown)}; choose from {', '.join(EXPERIMENTS)}."
        )
    default = [name for name in EXPERIMENTS if name not in BY_NAME_ONLY]
    return [EXPERIMENTS[name] for name in names or default]


def by_methods(experiments: list[Experiment], names: list[str]) -> list[Experiment]:
    """Experiments restricted to these methods; all methods if none is named.

    A name is that of a row, with or without what stands in brackets, or of an initializer.
    """
    if not names:
        return experiments
    kept = [
        part
        for one in experiments
        if isinstance(one, InitExperiment | CombinedExperiment)
        and (part := one.by_methods(names)) is not None
    ]
    if not kept:
        known = sorted({name for one in experiments for name in _initializers(one)})
        raise OptionError(
            f"--method {', '.join(names)}: no row of {', '.join(one.name for one in experiments)}; "
            f"choose from {', '.join(known) or 'none: they compare no methods'}."
        )
    return list(kept)


def _initializers(experiment: Experiment) -> set[str]:
    parts = experiment.parts if isinstance(experiment, CombinedExperiment) else (experiment,)
    return {
        method.initializer
        for part in parts
        if isinstance(part, InitExperiment)
        for method in part.methods
    }
