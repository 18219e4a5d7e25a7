"""`maci2 init` as a function."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from maci2.boundary import as_path
from maci2.estimation import InitResult
from maci2.estimation.result_output import Record, initialization_text
from maci2.evaluation.metrics import InitErrors
from maci2.evaluation.protocol import window_errors
from maci2.field_docs import document_fields
from maci2.pipeline import offline
from maci2.pipeline.offline import Initialized
from maci2.pipeline.prepare import Inputs
from maci2.pipeline.results_json import initialization_json
from maci2.recording_calls.arguments import flag, options_of
from maci2.recording_calls.recorded_estimate import RecordedEstimate


@dataclass(frozen=True, repr=False)
class InitializedRecording(RecordedEstimate):
    """Result of `initialize_recording`, with errors if the recording has ground truth."""

    result: InitResult
    """State, posterior covariance, report and verdict."""

    initialized: Initialized
    """The result with its window."""

    inputs: Inputs
    """The opened recording: IMU measurements, vision, extrinsics, ground truth."""

    errors: InitErrors | None
    """Errors against ground truth; None without ground truth or without a state."""

    def summary(self) -> str:
        """The text that `maci2 init` prints: estimates, 1-sigma and, if known, true errors."""
        return initialization_text(self.result, self._error_texts())

    def to_dict(self) -> Record:
        """The record that `maci2 init --json` writes."""
        record = initialization_json(self.inputs, self.initialized)
        if self.errors is not None:
            record["errors"] = dict(self.errors.as_dict())
        return record

    def _error_texts(self) -> dict[str, str]:
        if self.errors is None:
            return {}
        errors = {
            "gravity": (self.errors.gravity_deg, ".3f", "deg"),
            "velocity": (self.errors.velocity_rmse, ".4f", "m/s"),
            "gyro_bias": (self.errors.gyro_bias_pct, ".2f", "%"),
        }
        # Ground truth may lack biases.
        known = {name: error for name, error in errors.items() if error[0] is not None}
        return {name: f"{value:{form}} {unit}" for name, (value, form, unit) in known.items()}


def initialize_recording(
    path: str | Path,
    *,
    vision: str = "images",
    imu: str = "raw",
    window_s: float = 2.5,
    keyframes: int = 10,
    start_s: float = 0.0,
    vision_frame: str = "camera",
    vision_std: str | None = None,
    vision_scale_std: float | None = None,
    paper: bool = False,
    time_offset: bool = False,
    truth: Sequence[str] = (),
    acc_bias_prior: Sequence[float] | None = None,
    acc_bias_std: float | None = None,
    rig: str | Path | None = None,
    topics: str = "",
    seed: int = 0,
) -> InitializedRecording:
    """Estimate gravity, velocities, biases and poses of one window, as `maci2 init` does.

    Args:
        path: folder or bag of a recording.
        vision: source of camera motion: "images", "truth:ROT_DEG,TRANS_M", "trajectory:FILE" or
            "measurements:FILE".
        imu: IMU model: "raw", "datasheet", a bundled model's name or a weight file.
        window_s: length of the window [s].
        keyframes: number of keyframes in the window.
        start_s: start of the window, from the first usable timestamp [s].
        vision_frame: frame whose poses a trajectory holds: "camera" or "rectified".
        vision_std: noise of the relative poses of a trajectory, "ROT_DEG,TRANS_M[,SHARE]".
        vision_scale_std: relative standard deviation of the scale of a trajectory.
        paper: use exactly the choices of the paper.
        time_offset: also estimate the time offset between camera and IMU.
        truth: names of ground truths, in order of preference.
        acc_bias_prior: (3,) known accelerometer bias of the raw sensor [m/s^2].
        acc_bias_std: standard deviation of that bias [m/s^2].
        rig: calibration file or folder that replaces the recording's own.
        topics: roles of a bag's topics, "imu=/imu0,left=/cam0/image_raw".
        seed: seed of the noise that "truth:..." adds.

    Returns:
        The result, with its errors if the recording has ground truth.

    Raises:
        OptionError: an argument is invalid.
        DatasetError: the recording cannot be read or has no such window.
        CalibrationError: the rig cannot be used.
    """
    options = options_of(
        vision=vision,
        imu=imu,
        window_s=window_s,
        keyframes=keyframes,
        start_s=start_s,
        vision_frame=vision_frame,
        vision_std=vision_std,
        vision_scale_std=vision_scale_std,
        truth=truth,
        acc_bias_prior=acc_bias_prior,
        acc_bias_std=acc_bias_std,
        rig=rig,
        topics=topics,
        seed=seed,
    )
    options = replace(
        options, paper=flag(paper, "paper"), time_offset=flag(time_offset, "time_offset")
    )
    inputs, initialized = offline.initialize_recording(as_path(path, "path"), options)
    errors = window_errors(inputs, initialized)
    return InitializedRecording(initialized.result, initialized, inputs, errors)


document_fields(__name__)
