"""The paper's experiments, by name."""

from dataclasses import replace
from functools import partial

from maci2.errors import OptionError
from maci2_lab.evaluation.summary import VBR_LIMITS
from maci2_lab.experiments import paper_numbers as paper
from maci2_lab.experiments.calibration import calibration_findings, calibration_tasks
from maci2_lab.experiments.covariances import (
    covariance_findings,
    covariance_tasks,
    visual_findings,
    visual_tasks,
)
from maci2_lab.experiments.experiment import Experiment, RecordingsExperiment
from maci2_lab.experiments.hard_images import hard_images_findings, hard_images_tasks
from maci2_lab.experiments.init_tables import (
    FOUR,
    ablation_claims,
    baseline_claims,
    fusion_claims,
    paper_claims,
)
from maci2_lab.experiments.initialization import CombinedExperiment, InitExperiment
from maci2_lab.experiments.methods import (
    BASELINES,
    CONSTANT,
    DROID,
    LEARNED,
    PRINTED,
    RAW,
    TRACK_BASELINES,
    TWO_FRAME,
    Method,
    from_images,
    on_both,
    on_tracks,
    vision_file,
)
from maci2_lab.experiments.recordings import Rendering
from maci2_lab.experiments.robustness import robustness_findings, robustness_tasks
from maci2_lab.experiments.track import track_findings, track_tasks
from maci2_lab.experiments.truth import truth_findings, truth_tasks

IMU_TRAINING = ("MH_01_easy", "MH_05_difficult", "V2_01_easy", "V2_03_difficult")
IMU_TUNING = ("MH_03_medium", "V1_02_medium")

TUNED_RATIO = 0.3
"""Ratio of visual to inertial standard deviation with identity covariances: the best of `cov-ratio`
on the recordings that the IMU model was trained and tuned on."""

RATIOS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)


ALL_EUROC = (
    *("MH_01_easy", "MH_02_easy", "MH_03_medium", "MH_04_difficult", "MH_05_difficult"),
    *("V1_01_easy", "V1_02_medium", "V1_03_difficult"),
    *("V2_01_easy", "V2_02_medium", "V2_03_difficult"),
)

EUROC_POSES = InitExperiment(
    "euroc-poses",
    "Camera motion given",
    paper.EUROC_TEST,
    on_both((LEARNED, RAW, PRINTED, *BASELINES)),
    paper=paper.EUROC,
    strides_s=(2.5, 0.5),
    claims=baseline_claims,
    scored=True,
    detail=True,
)

EUROC_TRACKS = InitExperiment(
    "euroc-tracks",
    "Tracks, test recordings",
    paper.EUROC_TEST,
    on_tracks((LEARNED, RAW, TWO_FRAME, *TRACK_BASELINES)),
    paper=paper.EUROC,
    strides_s=(2.5, 0.5),
    windows=(30, 15),
    claims=baseline_claims,
    scored=True,
)

EUROC_TRACKS_OTHER = InitExperiment(
    "euroc-tracks-other",
    "Tracks, other recordings",
    IMU_TRAINING + IMU_TUNING,
    on_tracks((RAW, TWO_FRAME, *(one for one in TRACK_BASELINES if not one.knows_sensor))),
    windows=(20,),
    claims=baseline_claims,
    scored=True,
)

FLIGHTS = (
    ("V1_02", "V1_02_medium", 25.0),
    ("V2_03", "V2_03_difficult", 15.0),
    ("MH_03", "MH_03_medium", 25.0),
)
"""Short name, recording, and time in the air [s]."""

RENDERED_EASY, RENDERED_HARD = (
    InitExperiment(
        f"rendered-{level}",
        f"Rendered images, {level}",
        tuple(f"{name}_{level}" for name, _, _ in FLIGHTS),
        from_images((LEARNED, RAW, *TRACK_BASELINES)),
        strides_s=(1.25,),
        windows=(11,),
        claims=baseline_claims,
        scored=True,
        renderings=tuple(
            Rendering(f"{name}_{level}", recording, start_s, level)
            for name, recording, start_s in FLIGHTS
        ),
    )
    for level in ("easy", "hard")
)

IMAGES_INIT = InitExperiment(
    "images-init",
    "Real images",
    ("MH_01_clip",),
    from_images((LEARNED, RAW, *BASELINES, *TRACK_BASELINES)),
    strides_s=(0.5,),
    windows=(15,),
    metrics=FOUR,
    claims=baseline_claims,
    scored=True,
    detail=True,
)

EUROC_INIT = CombinedExperiment(
    "euroc-init",
    "Initialization on EuRoC, baselines on the same input",
    (EUROC_POSES, EUROC_TRACKS, EUROC_TRACKS_OTHER, RENDERED_EASY, RENDERED_HARD, IMAGES_INIT),
    paper.EUROC,
)

COV_ABLATION = InitExperiment(
    "cov-ablation",
    "Ablation of the covariances: stated, or identity",
    paper.EUROC_TEST,
    on_both(
        (
            Method(
                paper.LEARNED_LEARNED,
                imu="euroc",
                knows_sensor=True,
                paper_row=paper.LEARNED_LEARNED,
            ),
            Method(paper.LEARNED_ID, "maci2-identity-imu", "euroc", paper_row=paper.LEARNED_ID),
            Method(
                paper.ID_LEARNED, "maci2", "euroc", identity_vision=1.0, paper_row=paper.ID_LEARNED
            ),
            Method(
                paper.ID_ID,
                "maci2-identity-imu",
                "euroc",
                identity_vision=1.0,
                paper_row=paper.ID_ID,
            ),
            Method("one tuned scalar", "maci2-identity-imu", "euroc", identity_vision=TUNED_RATIO),
            Method("temperature only", "maci2", "euroc-temperature"),
        )
    ),
    metrics=FOUR,
    paper=paper.COVARIANCES,
    claims=ablation_claims,
)

COV_RATIO = InitExperiment(
    "cov-ratio",
    "One scalar between vision and IMU, tuned on the IMU model's own recordings",
    IMU_TRAINING + IMU_TUNING,
    tuple(
        Method(f"ratio {ratio:g}", "maci2-identity-imu", "euroc", identity_vision=ratio)
        for ratio in RATIOS
    ),
    metrics=FOUR,
)

IMU_ABLATION = InitExperiment(
    "imu-ablation",
    "What the learned IMU model is worth",
    paper.EUROC_TEST,
    on_both(
        (
            RAW,
            CONSTANT,
            Method("AirIMU's form", imu="euroc-airimu", paper_row=paper.AIRIMU),
            Method("constant correction and variance (ParamNet)", imu="euroc-paramnet"),
            Method("the paper's form", imu="euroc-paper"),
            LEARNED,
        )
    ),
    metrics=FOUR,
    paper=paper.IMU_MODELS,
    claims=paper_claims,
)

KEYFRAMES = InitExperiment(
    "keyframes",
    "Sensitivity to the number of keyframes",
    paper.EUROC_TEST,
    tuple(
        replace(
            method,
            name=f"{count} keyframes, {method.name}",
            keyframes=count,
            paper_row=f"{count} {method.paper_row}",
        )
        for count in (5, 10, 20)
        for method in (LEARNED, RAW)
    ),
    paper=paper.KEYFRAMES,
    claims=paper_claims,
)

POSE = InitExperiment(
    "pose",
    "Poses, vision only and fused",
    paper.EUROC_TEST,
    on_both((Method("vision only", "linear", paper_row=paper.VISION_ONLY), RAW, LEARNED)),
    metrics=("rotation_deg", "translation_m"),
    paper=paper.POSES,
    claims=fusion_claims,
    detail=True,
)

GYRO_BIAS = InitExperiment(
    "gyro-bias",
    "Gyroscope bias on all EuRoC recordings",
    ALL_EUROC,
    (RAW, *(one for one in BASELINES if one.initializer in ("vins", "orbslam3", "analytic"))),
    metrics=("gyro_bias_norm_pct", "gyro_bias_pct"),
)


VBR_REAL = InitExperiment(
    "vbr-real",
    "VBR",
    paper.VBR,
    from_images((RAW, *(one for one in (*BASELINES, *TRACK_BASELINES) if not one.knows_sensor))),
    paper=paper.VBR_TABLE,
    limits=VBR_LIMITS,
    claims=paper_claims,
    scored=True,
)

DRIVES = ("drive_1", "drive_2", "drive_3")

DRIVING = InitExperiment(
    "driving-init",
    "Driving, rendered: a stand-in for VBR",
    DRIVES,
    from_images((RAW, *(one for one in TRACK_BASELINES if not one.knows_sensor))),
    strides_s=(1.25,),
    windows=(15,),
    limits=VBR_LIMITS,
    claims=baseline_claims,
    scored=True,
    renderings=tuple(
        Rendering(name, motion="driving", scene="street", duration_s=20.0, seed=seed)
        for seed, name in enumerate(DRIVES, start=1)
    ),
)

VBR_INIT = CombinedExperiment(
    "vbr-init",
    "Initialization on VBR, and on a stand-in for it",
    (VBR_REAL, DRIVING),
    paper.VBR_TABLE,
)


CALIB = RecordingsExperiment(
    "calib",
    "Extrinsics without a target, ten trials each",
    (
        *("calib-imu1", "calib-imu2", "calib-imu3", "calib-imu4"),
        *("room1", "room2", "room3", "room4", "room5", "room6"),
        *("V1_02_medium", "V2_03_difficult"),
    ),
    calibration_tasks,
    calibration_findings,
)


def _covariance_experiment(
    name: str,
    title: str,
    groups: dict[str, tuple[str, ...]],
    horizons_s: tuple[float, ...],
    growth_s: tuple[float, ...],
) -> RecordingsExperiment:
    """Predicted sigma against integration error on the test recordings of each IMU model."""
    return RecordingsExperiment(
        name,
        title,
        tuple(name for names in groups.values() for name in names),
        partial(covariance_tasks, groups, horizons_s, growth_s),
        partial(covariance_findings, growth=len(growth_s) > 2),
    )


IMU_COV = _covariance_experiment(
    "imu-cov",
    "Predicted IMU sigma against actual error",
    {"euroc": paper.EUROC_TEST, "tumvi": ("room2", "room4", "room6")},
    (0.25, 1.0),
    (0.25, 1.0),
)

INTE_ERROR = _covariance_experiment(
    "inte-error",
    "Growth of the integration error",
    {"euroc": ("MH_04_difficult",)},
    (1.0,),
    (0.05, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5),
)

VIS_COV = RecordingsExperiment(
    "vis-cov",
    "Predicted visual sigma against actual error",
    ("MH_01_clip", "MH_01_static_clip", *paper.EUROC_TEST),
    visual_tasks,
    visual_findings,
)

WITH_IMAGES = ("MH_01_clip", "V1_02_easy", "V1_02_hard", "V2_03_easy", "V2_03_hard")

TRACK = RecordingsExperiment(
    "track",
    "Visual-inertial odometry of whole recordings",
    (*WITH_IMAGES, *paper.EUROC_TEST, *IMU_TRAINING, *IMU_TUNING),
    partial(track_tasks, WITH_IMAGES, DROID, ("raw", "euroc")),
    track_findings,
    files=(vision_file(DROID),),
)

ROBUSTNESS = RecordingsExperiment(
    "robustness",
    "Faulty inputs, one at a time, and the verdicts on them",
    ("V1_02_medium", "MH_03_medium", "V2_01_easy", "MH_05_difficult"),
    robustness_tasks,
    robustness_findings,
    files=(vision_file(DROID),),
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

TRUTH_SOURCES = (
    *((name, "") for name in (*IMU_TRAINING, *IMU_TUNING, "MH_02_easy", "MH_04_difficult")),
    ("V1_01_easy", "state_groundtruth_estimate0"),
    ("V1_01_easy", "state_groundtruth_openvins"),
    ("V1_01_easy", "vicon0"),
    *((name, "") for name in ("room1", "room2", "room3", "room4", "room5")),
)
"""Recording and source, as `maci2 truth --from` names it."""

GROUND_TRUTH = RecordingsExperiment(
    "truth",
    "Errors of published ground truths",
    tuple(dict.fromkeys(name for name, _ in TRUTH_SOURCES)),
    partial(truth_tasks, TRUTH_SOURCES),
    truth_findings,
)

INIT_EXPERIMENTS: list[Experiment] = [
    *(EUROC_INIT, COV_ABLATION, COV_RATIO, IMU_ABLATION, KEYFRAMES, POSE, GYRO_BIAS, VBR_INIT)
]
OTHERS: list[Experiment] = [
    *(VIS_COV, CALIB, IMU_COV, INTE_ERROR, ROBUSTNESS, TRACK, HARD_IMAGES, HARD_IMAGES_FULL),
    GROUND_TRUTH,
]
PARTS: list[Experiment] = [*EUROC_INIT.parts, *VBR_INIT.parts]

EXPERIMENTS = {one.name: one for one in (*INIT_EXPERIMENTS, *OTHERS, *PARTS)}

BY_NAME_ONLY = (HARD_IMAGES_FULL.name, *(part.name for part in PARTS))
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
        methods = [
            method
            for one in experiments
            for part in (one.parts if isinstance(one, CombinedExperiment) else (one,))
            if isinstance(part, InitExperiment)
            for method in part.methods
        ]
        known = sorted({method.initializer for method in methods})
        raise OptionError(
            f"--method {', '.join(names)}: no row of {', '.join(one.name for one in experiments)}; "
            f"choose from {', '.join(known) or 'none: they compare no methods'}."
        )
    return list(kept)
