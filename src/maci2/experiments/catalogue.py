"""The paper's experiments, by name."""

from dataclasses import replace

from maci2.errors import OptionError
from maci2.evaluation.metrics import VBR_LIMITS
from maci2.experiments import paper_numbers as paper
from maci2.experiments.calibration_task import CalibrationMethod
from maci2.experiments.claims import (
    ablation_claims,
    baseline_claims,
    fusion_claims,
    paper_claims,
)
from maci2.experiments.experiment import (
    CalibrationExperiment,
    CovarianceExperiment,
    Experiment,
    InitExperiment,
    RobustnessExperiment,
    TrackExperiment,
    TruthExperiment,
    VisualExperiment,
)
from maci2.experiments.hard_images import HARD_IMAGES, HARD_IMAGES_FULL
from maci2.experiments.method import DROID, HALF_PIXEL, ONE_PIXEL, TRUTH, Method

IMU_TRAINING = ("MH_01_easy", "MH_05_difficult", "V2_01_easy", "V2_03_difficult")
IMU_TUNING = ("MH_03_medium", "V1_02_medium")

TUNED_RATIO = 0.3
"""Visual over inertial standard deviation, if all covariances were identities: the best of
`cov-ratio` on the recordings that the IMU model was trained and tuned on."""

RATIOS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
FOUR = ("gravity_deg", "velocity_rmse", "rotation_deg", "translation_m")


def _on_both(methods: tuple[Method, ...]) -> tuple[Method, ...]:
    """The same methods on noisy ground truth and on DROID-SLAM's trajectories."""
    return tuple(replace(method, vision=vision) for vision in (TRUTH, DROID) for method in methods)


LEARNED = Method("maci2, learned IMU", imu="euroc", knows_sensor=True, paper_row=paper.WITH)
RAW = Method("maci2, raw IMU", paper_row=paper.WITHOUT)
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

RIVALS = (
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
    Method("OpenVINS dynamic (stereo)", "openvins"),
    Method("OpenVINS dynamic (stereo), bias guess", "openvins-guess", knows_sensor=True),
    Method("OpenVINS static", "openvins-static"),
)
"""Methods that take feature tracks; those with a bias guess were told about EuRoC's IMU."""


def _on_tracks(methods: tuple[Method, ...], visions: tuple[str, ...]) -> tuple[Method, ...]:
    return tuple(
        replace(method, vision=vision, first_stride_only=True)
        for vision in visions
        for method in methods
    )


ALL_EUROC = (
    *("MH_01_easy", "MH_02_easy", "MH_03_medium", "MH_04_difficult", "MH_05_difficult"),
    *("V1_01_easy", "V1_02_medium", "V1_03_difficult"),
    *("V2_01_easy", "V2_02_medium", "V2_03_difficult"),
)

EUROC_INIT = InitExperiment(
    "euroc-init",
    "Initialization on EuRoC, baselines on the same input",
    paper.EUROC_TEST,
    (
        *_on_both((LEARNED, RAW, PRINTED, *BASELINES)),
        *_on_tracks((LEARNED, RAW, *RIVALS), (HALF_PIXEL, ONE_PIXEL)),
    ),
    paper=paper.EUROC,
    strides_s=(2.5, 0.5),
    claims=baseline_claims,
    scored=True,
    detail=True,
)

EUROC_TRACKS = InitExperiment(
    "euroc-tracks",
    "The methods on tracks of 1 px on every EuRoC recording, those of the IMU model's training too",
    ALL_EUROC,
    _on_tracks((RAW, *RIVALS), (ONE_PIXEL,)),
    scored=True,
)

COV_ABLATION = InitExperiment(
    "cov-ablation",
    "What the covariances are worth: stated, or all alike",
    paper.EUROC_TEST,
    _on_both(
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
    _on_both(
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
    _on_both((Method("vision only", "linear", paper_row=paper.VISION_ONLY), RAW, LEARNED)),
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


def _calibration_methods(recording: str) -> tuple[CalibrationMethod, ...]:
    learned = "tumvi" if recording.startswith(("room", "calib")) else "euroc"
    return (
        CalibrationMethod("maci2, raw IMU", "maci2"),
        CalibrationMethod("maci2, learned IMU", "maci2", learned),
        CalibrationMethod("VINS-Mono rotation", "vins"),
    )


CALIB = CalibrationExperiment(
    "calib",
    "Extrinsics without a target, ten trials each",
    (
        *("calib-imu1", "calib-imu2", "calib-imu3", "calib-imu4"),
        *("room1", "room2", "room3", "room4", "room5", "room6"),
        *("V1_02_medium", "V2_03_difficult"),
    ),
    _calibration_methods,
)

IMU_COV = CovarianceExperiment(
    "imu-cov",
    "Predicted IMU sigma against actual error",
    {"euroc": paper.EUROC_TEST, "tumvi": ("room2", "room4", "room6")},
)

VBR_INIT = InitExperiment(
    "vbr-init",
    "Initialization on VBR, from images",
    paper.VBR,
    tuple(
        replace(method, vision="images")
        for method in (RAW, *(one for one in (*BASELINES, *RIVALS) if not one.knows_sensor))
    ),
    paper=paper.VBR_TABLE,
    limits=VBR_LIMITS,
    claims=paper_claims,
    scored=True,
)

IMAGES_INIT = InitExperiment(
    "images-init",
    "Initialization from real images (MH_01 is among the IMU model's training recordings)",
    ("MH_01_clip",),
    tuple(
        replace(method, vision="images", paper_row="")
        for method in (LEARNED, RAW, *BASELINES, *RIVALS)
    ),
    strides_s=(0.5,),
    metrics=FOUR,
    detail=True,
)

RENDERED_INIT = InitExperiment(
    "rendered-init",
    "Initialization from images rendered along real trajectories, easy and hard",
    ("V1_02_easy", "V1_02_hard", "V2_03_easy", "V2_03_hard"),
    tuple(replace(method, vision="images", paper_row="") for method in (LEARNED, RAW, *RIVALS)),
    scored=True,
)

VIS_COV = VisualExperiment(
    "vis-cov",
    "Predicted visual sigma against actual error",
    ("MH_01_clip", "MH_01_static_clip", *paper.EUROC_TEST),
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
    "How the integration error grows",
    {"euroc": ("MH_04_difficult",)},
    horizons_s=(1.0,),
    growth_s=(0.05, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5),
)

ROBUSTNESS = RobustnessExperiment(
    "robustness",
    "Wrong inputs, one at a time: is anything wrong called ok?",
    ("V1_02_medium", "MH_03_medium", "V2_01_easy", "MH_05_difficult"),
    files=(DROID.partition(":")[2],),
)

GROUND_TRUTH = TruthExperiment(
    "truth",
    "What is wrong with published ground truths",
    (
        *((name, "") for name in (*IMU_TRAINING, *IMU_TUNING, "MH_02_easy", "MH_04_difficult")),
        ("V1_01_easy", "state_groundtruth_estimate0"),
        ("V1_01_easy", "state_groundtruth_openvins"),
        ("V1_01_easy", "vicon0"),
        *((name, "") for name in ("room1", "room2", "room3", "room4", "room5")),
    ),
)

EXPERIMENTS: dict[str, Experiment] = {
    one.name: one
    for one in (
        EUROC_INIT,
        EUROC_TRACKS,
        COV_ABLATION,
        COV_RATIO,
        IMU_ABLATION,
        KEYFRAMES,
        POSE,
        GYRO_BIAS,
        VBR_INIT,
        IMAGES_INIT,
        RENDERED_INIT,
        VIS_COV,
        CALIB,
        IMU_COV,
        INTE_ERROR,
        ROBUSTNESS,
        TRACK,
        HARD_IMAGES,
        HARD_IMAGES_FULL,
        GROUND_TRUTH,
    )
}

BY_NAME_ONLY = (HARD_IMAGES_FULL.name,)
"""Experiments of an hour, which are run only where they are asked for."""


def find_experiments(names: list[str]) -> list[Experiment]:
    """Experiments of these names, all but the longest where none is named; an error lists what
    exists."""
    unknown = [name for name in names if name not in EXPERIMENTS]
    if unknown:
        raise OptionError(
            f"no experiment is called {', '.join(unknown)}; choose from {', '.join(EXPERIMENTS)}."
        )
    default = [name for name in EXPERIMENTS if name not in BY_NAME_ONLY]
    return [EXPERIMENTS[name] for name in names or default]
