"""Task of calibrations without a target: trials spread over each recording."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from maci2.baselines.vins import vins_rotation
from maci2.calibration import calibrate
from maci2.errors import Maci2Error
from maci2.estimation import SolverConfig
from maci2.experiments.init_task import TaskResult
from maci2.experiments.method import TRUTHS, slug
from maci2.experiments.row_records import rounded
from maci2.imu import datasheet_model, preintegrate
from maci2.lie.stacks import rotation_angle_deg
from maci2.pipeline.offline import calibration_errors, calibration_keyframes
from maci2.pipeline.options import RunOptions
from maci2.pipeline.prepare import Inputs, open_inputs
from maci2.pipeline.windows import one_window
from maci2.types import NS

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


@dataclass(frozen=True)
class CalibrationTask:
    """All trials of one method on one recording."""

    recording: str
    path: Path
    method: CalibrationMethod
    seed: int

    @property
    def key(self) -> str:
        return f"{self.recording}_{slug(self.method.name)}"

    def as_dict(self) -> dict[str, Any]:
        return {
            "recording": self.recording,
            "seed": self.seed,
            "window_s": WINDOW_S,
            "trials": TRIALS,
            "method": asdict(self.method),
        }


def run_calibration(task: CalibrationTask) -> TaskResult:
    """Run the trials: ten windows evenly spread over the recording, one row each."""
    options = RunOptions(
        vision=task.method.vision,
        imu=task.method.imu,
        keyframes=calibration_keyframes(WINDOW_S),
        window_s=WINDOW_S,
        truth=TRUTHS,
        seed=task.seed,
    )
    inputs = open_inputs(task.path, options)
    candidates_ns = inputs.candidates_ns()
    length_s = (int(candidates_ns[-1]) - int(candidates_ns[0])) / NS
    last_s = max(length_s - WINDOW_S - 0.1, 0.0)
    starts_s = np.linspace(0.0, last_s, TRIALS if last_s > 0.0 else 1)
    return TaskResult([_trial(task, inputs, options, i, s) for i, s in enumerate(starts_s)])


def _trial(
    task: CalibrationTask, inputs: Inputs, options: RunOptions, index: int, start_s: float
) -> dict[str, Any]:
    row: dict[str, Any] = {"index": index, "start_s": round(float(start_s), 3)}
    try:
        window = one_window(
            inputs.candidates_ns(), options.window_s, options.keyframes, float(start_s)
        )
        vision = inputs.vision.motion(window.stamps_ns, index)
        start_ns, end_ns = int(vision.stamps_ns[0]), int(vision.stamps_ns[-1])
        if task.method.solver == "vins":
            raw = inputs.recording.imu.between(start_ns, end_ns)
            pre = preintegrate(datasheet_model(raw, inputs.recording.rig.imu), vision.stamps_ns)
            R_b_c, reason = vins_rotation(pre, vision)
            angle = rotation_angle_deg(R_b_c, inputs.T_b_c[:3, :3])
            return row | _trial_record(not reason, reason, angle, float("nan"), None)
        result = calibrate(inputs.imu.between(start_ns, end_ns), vision, SolverConfig())
    except Maci2Error as error:
        reason = str(error).replace(str(task.path), task.recording)
        return row | _trial_record(False, reason, float("nan"), float("nan"), None)
    std = None
    if result.posterior is not None:
        std = [rounded(v) for v in np.sqrt(np.diag(result.posterior.T_b_c))]
    reasons = "; ".join(result.verdict.reasons)
    errors = calibration_errors(result, inputs.T_b_c)
    return row | _trial_record(result.verdict.status == "ok", reasons, *errors, std)


def _trial_record(
    accepted: bool, reason: str, rotation_deg: float, translation_m: float, std: Any
) -> dict[str, Any]:
    return {
        "accepted": accepted,
        "reason": reason,
        "rotation_deg": rounded(rotation_deg),
        "translation_m": rounded(translation_m),
        "std": std,
    }
