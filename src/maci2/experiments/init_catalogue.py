"""Experiments of initialization, by name."""

from dataclasses import replace

from maci2.evaluation.metrics import VBR_LIMITS
from maci2.experiments import paper_numbers as paper
from maci2.experiments.claims import (
    ablation_claims,
    baseline_claims,
    fusion_claims,
    paper_claims,
)
from maci2.experiments.init_experiment import CombinedExperiment, InitExperiment
from maci2.experiments.known_methods import (
    BASELINES,
    CONSTANT,
    LEARNED,
    PRINTED,
    RAW,
    TRACK_BASELINES,
    TWO_FRAME,
    from_images,
    on_both,
    on_tracks,
)
from maci2.experiments.method import Method
from maci2.experiments.renderings import Rendering

IMU_TRAINING = ("MH_01_easy", "MH_05_difficult", "V2_01_easy", "V2_03_difficult")
IMU_TUNING = ("MH_03_medium", "V1_02_medium")

TUNED_RATIO = 0.3
"""Ratio of visual to inertial standard deviation with identity covariances: the best of `cov-ratio`
on the recordings that the IMU model was trained and tuned on."""

RATIOS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
FOUR = ("gravity_deg", "velocity_rmse", "rotation_deg", "translation_m")


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
    (
        EUROC_POSES,
        EUROC_TRACKS,
        EUROC_TRACKS_OTHER,
        RENDERED_EASY,
        RENDERED_HARD,
        IMAGES_INIT,
    ),
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
