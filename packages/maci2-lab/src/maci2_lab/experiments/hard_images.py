"""Hard images, one kind of degradation at a time, rendered along real flights with their IMU."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from maci2.datasets import open_recording
from maci2.pipeline.options import RunOptions, VisionChoice
from maci2.pipeline.render_along import rendered_on_imu_clock
from maci2.pipeline.vision_sources import open_odometry, rotation_predictor
from maci2.simulation.rendering.difficulty import EASY, HARD, Difficulty, degraded
from maci2.simulation.rendering.images import RenderConfig, render_recording
from maci2.vision.odometry import even_keyframes, measure_all
from maci2_lab.evaluation.protocol import evaluate_recording
from maci2_lab.evaluation.summary import summarize
from maci2_lab.evaluation.vo_report import score
from maci2_lab.experiments.experiment import Task, TaskResult
from maci2_lab.experiments.methods import slug
from maci2_lab.experiments.recordings import Recordings
from maci2_lab.experiments.store import rounded
from maci2_lab.experiments.table import Claim, Entry, Findings, Record, table_of

INTERVAL_S = 0.2
STRIDE_S = 1.2
FIRST_SEED = 10
ROOM_EVERY_S = 8.0
"""Time of the flight from the start of one room to the start of the next."""

RATE_HZ = 10.0
FLIGHTS_FROM_S = {"V1_02_medium": 25.0, "V2_03_difficult": 15.0, "MH_05_difficult": 30.0}
"""Flights to render along, and when each is in the air [s]."""

MODELS = ("learned", "fixed")
"""Match covariances that are compared."""


DEGRADATIONS = {
    "exposure jumps": ("exposure_jumps=0.3", "exposure_jumps=1"),
    "low light": ("light=0.1,read_noise=1.5", "light=0.03,read_noise=2.5"),
    "darkness": ("darkness=0.6", "darkness=0.8,read_noise=1.5"),
    "blur of the lens": ("lens_blur_px=1.5", "lens_blur_px=2.5"),
    "motion blur": ("exposure_s=0.015", "exposure_s=0.03"),
    "rain": ("rain=200", "rain=600"),
    "things that move": ("moving_boxes=6", "moving_boxes=16"),
    "plain walls": ("plain_walls=0.4", "plain_walls=0.7"),
    "repeating walls": ("repetition=0.25", "repetition=0.5"),
    "all of `hard`": ("",),
}
"""Kinds of image degradation, mild and strong, as arguments of `maci2 simulate --degrade` on top of
easy images; the last is what `maci2 simulate --difficulty hard` renders."""


@dataclass(frozen=True)
class HardImages:
    """One rendering, measured with learned and with fixed match covariances."""

    recording: str
    path: Path
    kind: str
    degrade: str
    """Choices on top of easy images; of hard ones where there are none."""

    start_s: float
    """Time of the flight at which the rendering starts."""

    duration_s: float
    seed: int

    @property
    def difficulty(self) -> Difficulty:
        return degraded(EASY, self.degrade) if self.degrade else HARD

    def task(self) -> Task:
        key = f"{self.recording}_{slug(self.kind)}_{slug(self.degrade) or 'hard'}_{self.seed}"
        options = {name: value for name, value in vars(self).items() if name != "path"}
        return Task(key, options, {self.recording: self.path}, self.run)

    def run(self) -> TaskResult:
        """Render into a folder that is thrown away; one row for each match covariance."""
        config = RenderConfig(self.difficulty, self.seed, RATE_HZ, self.start_s, self.duration_s)
        flight, _ = rendered_on_imu_clock(open_recording(self.path), config)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / self.recording
            render_recording(flight, path, config)
            return TaskResult([rounded(_row(model, path)) for model in MODELS])


def hard_images_tasks(
    recordings: Recordings, seed: int, duration_s: float, rooms: int, both_strengths: bool
) -> list[Task]:
    """Every kind of degradation along every flight, strong or also mild, in several rooms around
    different parts of it."""
    return [
        HardImages(
            *(name, path, kind, degrade),
            start_s=FLIGHTS_FROM_S[name] + ROOM_EVERY_S * room,
            duration_s=duration_s,
            seed=seed + FIRST_SEED + room,
        ).task()
        for room in range(rooms)
        for kind, strengths in DEGRADATIONS.items()
        for degrade in (strengths if both_strengths else strengths[-1:])
        for name, path in recordings.by_name.items()
    ]


def _row(model: str, path: Path) -> Record:
    """Relative poses of one match covariance, and the windows that are initialized from them."""
    recording = open_recording(path)
    source = VisionChoice("images", frame="rectified", covariance=model)
    odometry = open_odometry(recording, source, rotation_predictor(recording))
    truth = recording.truth(())
    assert truth is not None
    measured = path.with_name(f"{model}.npz")
    poses = measure_all(odometry, even_keyframes(odometry.stamps_ns, INTERVAL_S), measured)
    T_b_cr, std_scale = odometry.rectification.T_b_cr, odometry.calibration.scale
    visual = score(poses, truth, T_b_cr, std_scale, frames_per_second=float("nan")).as_dict()
    options = RunOptions(vision=f"measurements:{measured}", stride_s=STRIDE_S)
    _, evaluated = evaluate_recording(path, options)
    fused = summarize(evaluated.rows)
    return {
        "model": model,
        "poses": visual["steps"] + visual["unmeasured"],
        "measured": visual["steps"],
        "beyond_5_sigma": visual["beyond_5_sigma"],
        "nees": visual["nees"]["pose"],
        "translation_m": visual["translation_m"],
        "windows": fused.windows,
        "success": fused.success,
        "accepted_wrong": fused.accepted_wrong,
        "fused_translation_m": fused.mean["translation_m"],
        "fused_rotation_deg": fused.mean["rotation_deg"],
    }


def hard_images_findings(records: list[Record]) -> Findings:
    """One line for each kind and match covariance, the mean over all kinds last, and the claims."""
    kinds = dict.fromkeys(record["task"]["kind"] for record in records)
    by_kind = {
        kind: [one["rows"] for one in records if one["task"]["kind"] == kind and one["rows"]]
        for kind in kinds
    }
    by_kind = {kind: rows for kind, rows in by_kind.items() if rows}
    by_kind["all kinds"] = [rows for renderings in by_kind.values() for rows in renderings]
    if not by_kind["all kinds"]:
        return Findings([])
    lines, claims = [], []
    for kind, renderings in by_kind.items():
        both = {model: _pooled(renderings, model) for model in MODELS}
        lines += [
            (f"{kind}, {model}", "vision images, raw IMU", _entries(pooled))
            for model, pooled in both.items()
        ]
        claims += _claims(kind, both["learned"], both["fixed"], _rooms_lower(renderings))
    note = (
        f"Relative poses over {INTERVAL_S:g} s; windows of 2.5 s every {STRIDE_S:g} s, fused with "
        "the flight's own IMU; errors are means of the renderings' means, their spread is the "
        "standard deviation over renderings."
    )
    return Findings([table_of("Hard images", lines, note)], claims)


def _rooms_lower(renderings: list[list[Record]]) -> tuple[int, int]:
    """Number of renderings in which learned covariances have the lower fused error, and number of
    all renderings."""
    errors = [{row["model"]: row["fused_translation_m"] for row in rows} for rows in renderings]
    known = [one for one in errors if all(one.get(model) is not None for model in MODELS)]
    return sum(one["learned"] < one["fixed"] for one in known), len(known)


@dataclass(frozen=True)
class Pooled:
    """One match covariance over some renderings."""

    renderings: int
    poses: int
    measured: float
    beyond_5_sigma: float
    nees: float
    translation_m: float
    success: float
    accepted_wrong: float
    fused_translation_m: float
    fused_spread_m: float | None
    """Standard deviation over the renderings; None of one alone."""

    fused_rotation_deg: float


def _pooled(renderings: list[list[Record]], model: str) -> Pooled:
    rows = [row for rows in renderings for row in rows if row["model"] == model]

    def mean(name: str, weight: str = "") -> float:
        known = [row for row in rows if row[name] is not None]
        weights = [row[weight] if weight else 1.0 for row in known]
        return float(np.average([row[name] for row in known], weights=weights)) if known else np.nan

    fused = [one for row in rows if (one := row["fused_translation_m"]) is not None]
    poses = sum(row["poses"] for row in rows)
    return Pooled(
        renderings=len(rows),
        poses=poses,
        measured=sum(row["measured"] for row in rows) / max(poses, 1),
        beyond_5_sigma=mean("beyond_5_sigma", "measured"),
        nees=mean("nees", "measured"),
        translation_m=mean("translation_m"),
        success=mean("success", "windows"),
        accepted_wrong=mean("accepted_wrong", "windows"),
        fused_translation_m=mean("fused_translation_m"),
        fused_spread_m=float(np.std(fused, ddof=1)) if len(fused) > 1 else None,
        fused_rotation_deg=mean("fused_rotation_deg"),
    )


def _entries(pooled: Pooled) -> list[Entry]:
    spread = pooled.fused_spread_m
    return [
        ("renderings", pooled.renderings, 0),
        ("poses", pooled.poses, 0),
        ("measured [%]", 100.0 * pooled.measured, 1),
        ("beyond 5 sigmas [%]", 100.0 * pooled.beyond_5_sigma, 1),
        ("NEES", pooled.nees, 2),
        ("error [mm]", 1e3 * pooled.translation_m, 2),
        ("init success [%]", 100.0 * pooled.success, 1),
        ("ok and wrong [%]", 100.0 * pooled.accepted_wrong, 1),
        ("fused [mm]", 1e3 * pooled.fused_translation_m, 2),
        ("its spread [mm]", None if spread is None else 1e3 * spread, 2),
        ("fused [deg]", pooled.fused_rotation_deg, 3),
    ]


def _claims(kind: str, learned: Pooled, fixed: Pooled, rooms: tuple[int, int]) -> list[Claim]:
    """Claims about learned covariances: better on each kind, and by a fifth on the mean of all."""
    ratio = learned.fused_translation_m / fixed.fused_translation_m
    needed = 0.8 if kind == "all kinds" else 1.0
    better = Claim(
        f"{kind}: fused error {ratio:.2f} of fixed noise's, at most {needed}; lower in {rooms[0]} "
        f"of {rooms[1]} rooms",
        ratio <= needed,
    )
    if kind != "all kinds":
        return [better]
    measured, beyond, success, wrong = (
        100.0 * share
        for share in (
            learned.measured, learned.beyond_5_sigma, learned.success, learned.accepted_wrong
        )
    )  # fmt: skip
    return [
        better,
        Claim(f"{measured:.1f} % measured, at least 98", measured >= 98.0),
        Claim(f"{beyond:.2f} % beyond 5 sigmas, at most 0.5", beyond <= 0.5),
        Claim(f"NEES {learned.nees:.2f}, 0.6 to 1.6", 0.6 <= learned.nees <= 1.6),
        Claim(f"init: {success:.1f} % right, at least 95", success >= 95.0),
        Claim(f"init: {wrong:.1f} % ok and wrong, at most 1", wrong <= 1.0),
    ]
