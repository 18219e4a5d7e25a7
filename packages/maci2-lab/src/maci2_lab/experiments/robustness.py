"""Faulty inputs, one at a time, and whether the verdict detects them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from maci2.errors import Maci2Error
from maci2.jit import warm_up
from maci2.metrics.init_errors import initialization_errors
from maci2.pipeline.offline import (
    calibrate_window,
    calibration_errors,
    calibration_keyframes,
    initialize_window,
)
from maci2.pipeline.options import RunOptions
from maci2.pipeline.prepare import Inputs, Window, one_window, open_inputs
from maci2.sensors import truth_at
from maci2.tools.ground_truth.choose import AUDITED
from maci2.types import NS
from maci2.vision.pose_sources import MAX_TRUTH_GAP_S
from maci2_lab.evaluation.protocol import windows_with_truth
from maci2_lab.evaluation.summary import is_success
from maci2_lab.experiments.experiment import Task, TaskResult
from maci2_lab.experiments.input_faults import (
    CALIBRATION_FAULTS,
    INIT_FAULTS,
    NO_FAULT,
    TRAJECTORY_FAULTS,
    InputFault,
    with_fault,
)
from maci2_lab.experiments.methods import DROID, TRUTH, Method, has_vision, slug
from maci2_lab.experiments.recordings import Recordings
from maci2_lab.experiments.store import rounded
from maci2_lab.experiments.table import Cell, Claim, Findings, Line, Record, Table

STRIDE_S = 2.5
CALIBRATION_S, CALIBRATION_STRIDE_S = 30.0, 20.0

LIMIT_MM = 30.0
"""Error of the lever arm beyond which a calibration is wrong [mm]."""

Job = Literal["init", "calibrate"]

WRONG = {
    "init": "Wrong: gravity off by 2 deg or velocity by 0.1 m/s and more.",
    "calibrate": f"Wrong: the lever arm is off by more than {LIMIT_MM:.0f} mm.",
}


@dataclass(frozen=True)
class FaultyRuns:
    """All faults of one kind on one recording."""

    recording: str
    path: Path
    job: Job
    vision: str
    seed: int
    audited: bool = False
    """True if camera motion is made from audited instead of published ground truth."""

    @property
    def faults(self) -> tuple[InputFault, ...]:
        if self.job == "calibrate":
            # Published positions are late, and of a point beside the IMU: a fault by themselves.
            return CALIBRATION_FAULTS if self.audited else (NO_FAULT,)
        return TRAJECTORY_FAULTS if self.vision == DROID else INIT_FAULTS

    def task(self) -> Task:
        kind = self.vision.partition(":")[0]
        source = f"audited {kind}" if self.audited else kind
        options = {
            "recording": self.recording,
            "job": self.job,
            "vision": self.vision,
            "source": source,
            "seed": self.seed,
            "faults": [fault.name for fault in self.faults],
        }
        key = f"{self.recording}_{self.job}_{slug(source)}"
        return Task(key, options, {self.recording: self.path}, self.run)

    def run(self) -> TaskResult:
        """One row for each window and fault."""
        warm_up("initialize", "calibrate")
        if self.job == "calibrate":
            return TaskResult(rounded(_calibrations(self)))
        options = Method("robustness", vision=self.vision).options(STRIDE_S, self.seed)
        inputs = open_inputs(self.path, options)
        windows, left_out = windows_with_truth(inputs, options)
        rows = []
        for fault in self.faults:
            faulty = with_fault(inputs, fault, options)
            rows += [_init_row(inputs, faulty, fault, window, options) for window in windows]
        return TaskResult(rounded(rows), left_out=left_out)


def robustness_tasks(recordings: Recordings, seed: int) -> list[Task]:
    """Tasks: initialization on both sources of vision, calibration on both ground truths."""
    kinds: tuple[tuple[Job, str, bool], ...] = (
        ("init", TRUTH, False),
        ("init", DROID, False),
        ("calibrate", TRUTH, True),
        ("calibrate", TRUTH, False),
    )
    return [
        FaultyRuns(name, path, job, vision, seed, audited).task()
        for job, vision, audited in kinds
        for name, path in recordings.by_name.items()
        if has_vision(path, vision)
    ]


def _init_row(
    inputs: Inputs, faulty: Inputs, fault: InputFault, window: Window, options: RunOptions
) -> Record:
    """Verdict of one window, compared with the ground truth of the sound recording."""
    row = {"fault": fault.name, "start_ns": window.start_ns}
    try:
        result = initialize_window(faulty, window, options)
    except Maci2Error as error:
        return row | _failed(error, inputs)
    row |= {"status": result.verdict.status, "reasons": list(result.verdict.reasons)}
    if result.state is None or inputs.truth is None:
        return row | {"wrong": False}
    errors = initialization_errors(
        result.state,
        truth_at(inputs.truth, result.state.stamps_ns, MAX_TRUTH_GAP_S),
        inputs.T_b_c,
        result.state.gyro_bias,
        inputs.truth.bias_gyro.mean(axis=0),
        result.posterior,
    )
    return row | {
        "wrong": not is_success(errors),
        "errors": [errors.gravity_deg, errors.velocity_rmse],
        "nees": errors.nees,
    }


def _calibrations(task: FaultyRuns) -> list[Record]:
    options = RunOptions(
        vision=task.vision,
        keyframes=calibration_keyframes(CALIBRATION_S),
        window_s=CALIBRATION_S,
        truth=(AUDITED,) if task.audited else (),
        seed=task.seed,
    )
    inputs = open_inputs(task.path, options)
    candidates_ns = inputs.candidates_ns()
    length_s = (int(candidates_ns[-1]) - int(candidates_ns[0])) / NS
    starts_s = np.arange(0.0, length_s - CALIBRATION_S - 0.1, CALIBRATION_STRIDE_S)
    rows = []
    for fault in task.faults:
        faulty = with_fault(inputs, fault, options)
        for start_s in starts_s:
            row = {"fault": fault.name, "start_s": float(start_s)}
            rows.append(row | _calibration_row(inputs, faulty, float(start_s), options))
    return rows


def _calibration_row(inputs: Inputs, faulty: Inputs, start_s: float, options: RunOptions) -> Record:
    try:
        window = one_window(inputs.candidates_ns(), options.window_s, options.keyframes, start_s)
        result = calibrate_window(faulty, window, options)
    except Maci2Error as error:
        return _failed(error, inputs)
    rotation_deg, translation = calibration_errors(result, inputs.T_b_c)
    return {
        "status": result.verdict.status,
        "reasons": list(result.verdict.reasons),
        "wrong": bool(1e3 * translation > LIMIT_MM),
        "errors": [rotation_deg, translation],
    }


def _failed(error: Maci2Error, inputs: Inputs) -> Record:
    reason = str(error).replace(str(inputs.recording.path), inputs.recording.name)
    return {"status": "failed", "reasons": [reason], "wrong": False}


def robustness_findings(records: list[Record]) -> Findings:
    """Tables for each job and source of vision, and claims about wrong results called ok."""
    tables, claims = [], []
    kinds = dict.fromkeys((one["task"]["job"], one["task"]["source"]) for one in records)
    for job, source in kinds:
        by_fault: dict[str, list[Record]] = {}
        for one in records:
            if (one["task"]["job"], one["task"]["source"]) == (job, source):
                for row in one["rows"]:
                    by_fault.setdefault(row["fault"], []).append(row)
        lines = [_line(fault, source, rows) for fault, rows in by_fault.items()]
        title = f"{job}, vision {source}: one wrong input at a time"
        columns = ("windows", "ok", "weak", "failed", "ok and wrong", "without a reason")
        tables.append(Table(title, columns, tuple(lines), WRONG[job]))
        claims += [_claim(job, source, fault, rows) for fault, rows in by_fault.items()]
    return Findings(tables, [claim for claim in claims if claim is not None])


def _line(fault: str, source: str, rows: list[Record]) -> Line:
    statuses = [row["status"] for row in rows]
    wrong = _wrong(rows)
    silent = [row for row in wrong if not row["reasons"]]
    by_status = [statuses.count(status) for status in ("ok", "weak", "failed")]
    counts = (len(rows), *by_status, len(wrong), len(silent))
    return Line(fault, f"vision {source}", tuple(Cell(count, 0) for count in counts))


def _wrong(rows: list[Record]) -> list[Record]:
    return [row for row in rows if row["status"] == "ok" and row["wrong"]]


def _claim(job: str, source: str, fault: str, rows: list[Record]) -> Claim | None:
    """Claim about the verdict for this fault."""
    name = f"{job}, {source}, {fault}"
    accepted = sum(row["status"] == "ok" for row in rows)
    wrong = _wrong(rows)
    if job == "calibrate" and fault != "none":
        if fault == "camera scale +2 %":
            return None
        return Claim(f"{name}: never ok ({accepted} of {len(rows)})", accepted == 0)
    if fault == "none":
        return Claim(f"{name}: {accepted} of {len(rows)} ok, {len(wrong)} wrong", not wrong)
    if fault == "camera scale +5 %":
        return None
    allowed = 0.03 if "2 deg" in fault else 0.0 if "sample" in fault else 0.01
    # Errors that a careful user may make: the few windows that they push over a limit look sound.
    small = "2 deg" in fault or "biased" in fault
    silent = any(not row["reasons"] for row in wrong)
    text = f"{name}: ok and wrong in {len(wrong)} of {len(rows)}, allowed {100.0 * allowed:.0f} %"
    return Claim(text, len(wrong) <= allowed * len(rows) and (not silent or small))
