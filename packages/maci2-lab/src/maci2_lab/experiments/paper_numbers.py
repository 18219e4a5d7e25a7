"""Numbers printed in the paper, for comparison."""

from dataclasses import dataclass

EUROC_TEST = ("MH_02_easy", "MH_04_difficult", "V1_01_easy", "V1_03_difficult", "V2_02_medium")
"""Test sequences of the paper, in its order."""

VBR = ("campus0", "campus1", "ciampino0", "ciampino1", "colosseo0", "diag0", "pincio0", "spagna0")

Numbers = tuple[float, ...]


@dataclass(frozen=True)
class PaperTable:
    """Table of the paper: by row and metric, one number per recording."""

    name: str
    recordings: tuple[str, ...]
    rows: dict[str, dict[str, Numbers]]
    success: dict[str, float]
    """Printed success rates over all recordings, by row."""

    def value(self, row: str, metric: str, recording: str) -> float | None:
        """One number; None if the paper has none."""
        numbers = self.rows.get(row, {}).get(metric)
        if numbers is None or recording not in self.recordings:
            return None
        return numbers[self.recordings.index(recording)]

    def mean(self, row: str, metric: str, recordings: tuple[str, ...]) -> float | None:
        """Mean over exactly these recordings, comparable with our mean over them."""
        values = [self.value(row, metric, recording) for recording in recordings]
        known = [value for value in values if value is not None]
        return sum(known) / len(known) if known and len(known) == len(values) else None


def _table(
    name: str,
    recordings: tuple[str, ...],
    numbers: dict[tuple[str, ...], str],
    success: dict[str, float] | None = None,
) -> PaperTable:
    """Table from text by metrics: a line has the row's name and, between bars, the numbers of each
    metric over the recordings."""
    rows: dict[str, dict[str, Numbers]] = {}
    for metrics, text in numbers.items():
        for line in text.strip().splitlines():
            row, *parts = line.split("|")
            values = [tuple(map(float, part.split())) for part in parts]
            rows.setdefault(row.strip(), {}).update(zip(metrics, values, strict=True))
    return PaperTable(name, recordings, rows, success or {})


VELOCITY_GRAVITY, POSE_METRICS = ("velocity_rmse", "gravity_deg"), ("rotation_deg", "translation_m")

WITH = "MAC-I2 w/ learned IMU"
WITHOUT = "MAC-I2 w/o learned IMU"

EUROC = _table(
    'Table "EuRoC": initialization errors, 10 keyframes',
    EUROC_TEST,
    {
        VELOCITY_GRAVITY: f"""
    VINS-Mono        | 0.085 0.367 0.107 0.187 0.100 | 1.093 1.447 1.582 2.748 1.182
    DRT-t            | 0.104 0.261 0.080 0.145 0.081 | 0.962 1.159 0.966 1.679 0.918
    DRT-l            | 0.065 0.189 0.057 0.269 0.109 | 0.967 1.091 1.018 2.235 1.206
    sqrt-VINS mono   | 0.059 0.121 0.048 0.075 0.062 | 1.792 0.857 0.841 1.119 0.753
    FF-VIO-Init      | 0.054 0.139 0.025 0.032 0.028 | 0.934 0.966 0.884 1.045 0.740
    VINS-Fusion      | 0.023 0.050 0.019 0.041 0.024 | 2.191 1.905 1.943 2.467 2.080
    ORB-SLAM3        | 0.011 0.055 0.011 0.136 0.038 | 0.928 1.231 0.876 2.703 1.218
    Stereo-NEC       | 0.011 0.038 0.008 0.101 0.026 | 0.946 1.363 0.926 2.946 1.404
    sqrt-VINS stereo | 0.046 0.102 0.031 0.070 0.062 | 1.041 0.839 1.500 1.063 0.800
    {WITHOUT}        | 0.011 0.022 0.010 0.025 0.020 | 0.820 0.800 0.872 1.149 0.804
    {WITH}           | 0.010 0.023 0.010 0.025 0.024 | 0.166 0.208 0.332 0.581 0.804
    """,
    },
    {
        "VINS-Mono": 0.318, "DRT-t": 0.633, "DRT-l": 0.640, "sqrt-VINS mono": 0.704,
        "FF-VIO-Init": 0.866, "VINS-Fusion": 0.582, "ORB-SLAM3": 0.820, "Stereo-NEC": 0.823,
        "sqrt-VINS stereo": 0.736, WITHOUT: 0.999, WITH: 0.999,
    },
)  # fmt: skip

VBR_TABLE = _table(
    'Table "VBR": initialization, 10 keyframes',
    VBR,
    {
        ("velocity_rmse",): f"""
    VINS-Fusion | 1.333 2.126 2.340 1.958 0.571 0.245 0.182 0.235
    ORB-SLAM3   | 0.303 0.409 0.541 0.420 0.240 0.134 0.072 0.110
    {WITHOUT}   | 0.135 0.215 0.165 0.126 0.272 0.186 0.128 0.296
    """,
        ("gravity_deg",): f"""
    VINS-Fusion | 2.725 2.931 4.106 3.069 1.617 1.376 1.289 1.184
    ORB-SLAM3   | 1.561 1.152 1.406 0.985 1.803 1.232 1.010 0.862
    {WITHOUT}   | 1.521 1.105 0.959 0.653 1.348 1.184 1.111 1.194
    """,
    },
    {
        "VINS-Fusion": 0.369, "ORB-SLAM3": 0.561, WITHOUT: 0.803,
    },
)  # fmt: skip

ID_ID, ID_LEARNED = "Id vision + Id IMU", "Id vision + learned IMU"
LEARNED_ID, LEARNED_LEARNED = "learned vision + Id IMU", "learned vision + learned IMU"

COVARIANCES = _table(
    "Table: initialization errors under different covariance settings",
    EUROC_TEST,
    {
        VELOCITY_GRAVITY: f"""
    {ID_ID}           | 0.013 0.031 0.010 0.026 0.022 | 0.239 0.284 0.353 0.671 0.766
    {ID_LEARNED}      | 0.040 0.073 0.037 0.061 0.056 | 0.284 0.459 0.385 0.655 0.865
    {LEARNED_ID}      | 0.011 0.021 0.011 0.027 0.029 | 0.231 0.248 0.346 0.768 0.810
    {LEARNED_LEARNED} | 0.010 0.023 0.010 0.025 0.024 | 0.166 0.208 0.332 0.581 0.804
    """,
        POSE_METRICS: f"""
    {ID_ID}           | 0.193 0.264 0.224 0.597 0.534 | 0.009 0.034 0.008 0.043 0.024
    {ID_LEARNED}      | 0.107 0.106 0.192 0.365 0.428 | 0.024 0.048 0.026 0.055 0.042
    {LEARNED_ID}      | 0.215 0.193 0.193 0.544 0.457 | 0.010 0.033 0.008 0.043 0.024
    {LEARNED_LEARNED} | 0.084 0.099 0.161 0.362 0.368 | 0.009 0.031 0.008 0.037 0.022
    """,
    },
)

AIRIMU = "AirIMU"

IMU_MODELS = _table(
    "Table: with and without the learned IMU model, and against AirIMU",
    EUROC_TEST,
    {
        VELOCITY_GRAVITY: f"""
    {WITHOUT} | 0.011 0.022 0.010 0.025 0.020 | 0.820 0.800 0.872 1.149 0.804
    {AIRIMU}  | 0.013 0.031 0.008 0.028 0.020 | 0.442 0.438 0.589 0.794 0.791
    {WITH}    | 0.010 0.023 0.010 0.025 0.024 | 0.166 0.208 0.332 0.581 0.804
    """,
        POSE_METRICS: f"""
    {WITHOUT} | 0.140 0.149 0.185 0.420 0.398 | 0.009 0.031 0.008 0.038 0.021
    {AIRIMU}  | 0.115 0.144 0.174 0.428 0.409 | 0.009 0.033 0.008 0.038 0.021
    {WITH}    | 0.084 0.099 0.161 0.362 0.368 | 0.009 0.031 0.008 0.037 0.022
    """,
    },
)

VISION_ONLY = "MAC-VO"

POSES = _table(
    "Table: pose estimation, vision only and fused",
    EUROC_TEST,
    {
        POSE_METRICS: f"""
    {VISION_ONLY} | 0.211 0.189 0.195 0.541 0.459 | 0.010 0.033 0.008 0.043 0.024
    {WITHOUT}     | 0.132 0.145 0.185 0.410 0.383 | 0.009 0.031 0.008 0.038 0.021
    {WITH}        | 0.082 0.095 0.159 0.317 0.313 | 0.009 0.031 0.008 0.035 0.019
    """,
    },
)

KEYFRAMES = _table(
    "Table: sensitivity to keyframe count",
    EUROC_TEST,
    {
        VELOCITY_GRAVITY: f"""
    5 {WITH}     | 0.012 0.029 0.011 0.031 0.025 | 0.267 0.432 0.395 0.785 0.999
    5 {WITHOUT}  | 0.012 0.025 0.010 0.029 0.022 | 0.842 0.854 0.914 1.197 0.871
    10 {WITH}    | 0.010 0.023 0.010 0.025 0.024 | 0.166 0.208 0.332 0.581 0.804
    10 {WITHOUT} | 0.011 0.022 0.010 0.025 0.020 | 0.820 0.800 0.872 1.149 0.804
    20 {WITH}    | 0.010 0.023 0.011 0.024 0.024 | 0.138 0.183 0.348 0.556 0.775
    20 {WITHOUT} | 0.011 0.022 0.010 0.023 0.020 | 0.827 0.802 0.816 1.083 0.821
    """,
    },
)
