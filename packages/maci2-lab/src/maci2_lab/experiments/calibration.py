"""Calibrations without a target: trials spread over each recording, and their tables."""

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from maci2.calibration import calibrate
from maci2.errors import Maci2Error
from maci2.estimator import SolverConfig
from maci2.geometry.se3 import rotation_angle_deg
from maci2.imu import datasheet_model, preintegrate
from maci2.pipeline.offline import calibration_errors, calibration_keyframes
from maci2.pipeline.options import RunOptions
from maci2.pipeline.prepare import Inputs, one_window, open_inputs
from maci2.types import NS
from maci2.vision import RelativePoses
from maci2_lab.baselines.vins import vins_rotation
from maci2_lab.evaluation.imu_report import TRUTHS
from maci2_lab.experiments.experiment import Task, TaskResult
from maci2_lab.experiments.methods import slug
from maci2_lab.experiments.recordings import Recordings
from maci2_lab.experiments.store import rounded
from maci2_lab.experiments.table import Claim, Entry, Findings, Record, table_of

WINDOW_S = 30.0
TRIALS = 10


@dataclass(frozen=True)
class CalibrationMethod:
    """maci2's joint calibration, or the rotation calibration of VINS-Mono."""

    name: str
    solver: str
    """maci2 or vins."""

    imu: str = "raw"
    vision: str = "truth:0.05,0.003"


def calibration_tasks(recordings: Recordings, seed: int) -> list[Task]:
    """Trials of maci2 with raw and learned IMU, and of VINS-Mono, on every recording."""
    return [
        calibration_task(name, path, method, seed)
        for name, path in recordings.by_name.items()
        for learned in ["tumvi" if name.startswith(("room", "calib")) else "euroc"]
        for method in (
            CalibrationMethod("maci2, raw IMU", "maci2"),
            CalibrationMethod("maci2, learned IMU", "maci2", learned),
            CalibrationMethod("VINS-Mono rotation", "vins"),
        )
    ]


def calibration_task(recording: str, path: Path, method: CalibrationMethod, seed: int) -> Task:
    """All trials of one method on one recording."""
    options = {
        "recording": recording,
        "seed": seed,
        "window_s": WINDOW_S,
        "trials": TRIALS,
        "method": asdict(method),
    }
    run = partial(run_calibration, recording, path, method, seed)
    return Task(f"{recording}_{slug(method.name)}", options, {recording: path}, run)


def run_calibration(recording: str, path: Path, method: CalibrationMethod, seed: int) -> TaskResult:
    """Run the trials: ten windows evenly spread over the recording, one row each."""
    options = RunOptions(
        vision=method.vision,
        imu=method.imu,
        keyframes=calibration_keyframes(WINDOW_S),
        window_s=WINDOW_S,
        truth=TRUTHS,
        seed=seed,
    )
    inputs = open_inputs(path, options)
    candidates_ns = inputs.candidates_ns()
    length_s = (int(candidates_ns[-1]) - int(candidates_ns[0])) / NS
    last_s = max(length_s - WINDOW_S - 0.1, 0.0)
    rows = []
    for index, start_s in enumerate(np.linspace(0.0, last_s, TRIALS if last_s > 0.0 else 1)):
        row = {"index": index, "start_s": round(float(start_s), 3)}
        nothing = {"rotation_deg": None, "translation_m": None, "std": None}
        try:
            window = one_window(candidates_ns, WINDOW_S, options.keyframes, float(start_s))
            found = _trial(inputs, inputs.vision.motion(window.stamps_ns, index), method.solver)
        except Maci2Error as error:
            found = {"accepted": False, "reason": str(error).replace(str(path), recording)}
        rows.append(rounded(row | nothing | found))
    return TaskResult(rows)


def _trial(inputs: Inputs, vision: RelativePoses, solver: str) -> Record:
    start_ns, end_ns = int(vision.stamps_ns[0]), int(vision.stamps_ns[-1])
    if solver == "vins":
        raw = inputs.recording.imu.between(start_ns, end_ns)
        pre = preintegrate(datasheet_model(raw, inputs.recording.rig.imu), vision.stamps_ns)
        R_b_c, reason = vins_rotation(pre, vision)
        angle_deg = rotation_angle_deg(R_b_c, inputs.T_b_c[:3, :3])
        return {"accepted": not reason, "reason": reason, "rotation_deg": angle_deg}
    result = calibrate(inputs.imu.between(start_ns, end_ns), vision, SolverConfig())
    rotation_deg, translation_m = calibration_errors(result, inputs.T_b_c)
    posterior = result.posterior
    return {
        "accepted": result.verdict.status == "ok",
        "reason": "; ".join(result.verdict.reasons),
        "rotation_deg": rotation_deg,
        "translation_m": translation_m,
        "std": None if posterior is None else np.sqrt(np.diag(posterior.T_b_c)),
    }


def calibration_findings(records: list[Record]) -> Findings:
    """Errors of ten trials per recording and method."""
    records = sorted(
        records, key=lambda one: (one["task"]["recording"], one["task"]["method"]["name"])
    )
    note = (
        "Against the calibration that came with the recording, which is itself known to some 0.1 "
        "deg and a few mm only. Spread: standard deviation over trials. The paper shows its errors "
        "as a figure without numbers."
    )
    lines = [_line(record) for record in records]
    return Findings(
        [table_of("Extrinsics without a target, means over the trials", lines, note)],
        _claims(records),
        [
            _figure(records, "rotation_deg", "deg", 1.0),
            _figure(records, "translation_m", "mm", 1e3),
        ],
    )


def _line(record: Record) -> tuple[str, str, list[Entry]]:
    method, rows = record["task"]["method"], record["rows"]
    rotation, translation = _values(rows, "rotation_deg"), 1e3 * _values(rows, "translation_m")
    return (
        _label(record),
        f"vision {method['vision']}, IMU {method['imu']}",
        [
            ("trials", len(rows), 0),
            ("accepted", sum(row["accepted"] for row in rows), 0),
            ("rotation [deg]", _mean(rotation), 3),
            ("spread", _std(rotation), 3),
            ("translation [mm]", _mean(translation), 1),
            ("spread", _std(translation), 1),
            ("NEES rotation", _nees(rows, "rotation_deg", slice(3, 6), 180.0 / np.pi), 2),
            ("NEES translation", _nees(rows, "translation_m", slice(0, 3), 1.0), 2),
        ],
    )


def _claims(records: list[Record]) -> list[Claim]:
    """Table of the rotations of maci2 and VINS-Mono from the same relative poses."""
    claims = []
    by_key = {(r["task"]["recording"], r["task"]["method"]["name"]): r["rows"] for r in records}
    for (recording, method), rows in by_key.items():
        baseline = by_key.get((recording, "VINS-Mono rotation"))
        if baseline is None or not method.startswith("maci2"):
            continue
        ours, theirs = (_mean(_values(one, "rotation_deg")) for one in (rows, baseline))
        if ours is not None and theirs is not None:
            text = f"rotation of {method} {ours:.3f} deg, of VINS-Mono {theirs:.3f} deg"
            claims.append(Claim(f"{recording}: {text}", ours <= theirs))
    return claims


def _figure(records: list[Record], metric: str, unit: str, scale: float) -> Record:
    return {
        "kind": "distributions",
        "title": f"extrinsics, {metric.partition('_')[0]} error of all trials",
        "unit": unit,
        "groups": [
            {"name": _label(one), "values": [scale * value for value in values.tolist()]}
            for one in records
            if len(values := _values(one["rows"], metric))
        ],
    }


def _label(record: Record) -> str:
    return f"{record['task']['recording']}, {record['task']['method']['name']}"


def _values(rows: list[Record], metric: str) -> np.ndarray:
    return np.array([row[metric] for row in rows if row[metric] is not None])


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None


def _std(values: np.ndarray) -> float | None:
    return float(values.std()) if len(values) > 1 else None


def _nees(rows: list[Record], metric: str, axes: slice, scale: float) -> float | None:
    """Normalized squared error of the same three axes."""
    ratios = [
        row[metric] ** 2 / np.sum((scale * np.array(row["std"][axes])) ** 2)
        for row in rows
        if row["std"] is not None and row[metric] is not None
    ]
    return float(np.mean(ratios)) if ratios else None
