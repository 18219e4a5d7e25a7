"""`maci2 calibrate` as a function."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from maci2.boundary import as_path
from maci2.estimation import CalibrationResult
from maci2.estimation.result_output import Record, calibration_text
from maci2.field_docs import document_fields
from maci2.pipeline import offline
from maci2.pipeline.offline import calibration_keyframes
from maci2.pipeline.prepare import Inputs, recalibrated_rig
from maci2.pipeline.results_json import calibration_errors, calibration_json
from maci2.recording_calls.arguments import flag, number, options_of
from maci2.recording_calls.recorded_estimate import RecordedEstimate
from maci2.sensors import Rig

CALIBRATION_WINDOW_S = 30.0
"""Default length of the window of a calibration, if the recording is as long [s]."""


@dataclass(frozen=True, repr=False)
class CalibratedRecording(RecordedEstimate):
    """Result of `calibrate_recording`, compared with the recording's own extrinsics if known."""

    result: CalibrationResult
    """State, posterior covariance, report and verdict."""

    inputs: Inputs
    """The opened recording: IMU measurements, vision, extrinsics, ground truth."""

    @property
    def rig(self) -> Rig | None:
        """Rig with the estimated extrinsics and time offset; None without an estimate."""
        if self.result.state is None:
            return None
        further_offset_s = self.result.report.time_offset_s or 0.0
        return recalibrated_rig(self.inputs, self.result.state.T_b_c, further_offset_s)

    def summary(self) -> str:
        """The text that `maci2 calibrate` prints: extrinsics of the left camera with 1-sigma."""
        if self.rig is None:
            return calibration_text(self.result)
        given = {}
        if self.inputs.recording.rig.extrinsics_known:
            rotation_deg, translation = calibration_errors(self.result, self.inputs.T_b_c)
            given["rotation"] = f"{rotation_deg:.3f} deg"
            given["translation"] = f"{1e3 * translation:.1f} mm"
        stated_offset_s = self.inputs.recording.rig.time_offset_s
        return calibration_text(self.result, self.rig.cameras[0].T_b_c, given, stated_offset_s)

    def to_dict(self) -> Record:
        """The record that `maci2 calibrate --json` writes; `T_b_c` belongs to the left camera
        itself, even if images were rectified."""
        return calibration_json(self.inputs, self.result)


def calibrate_recording(
    path: str | Path,
    *,
    vision: str = "images",
    imu: str = "raw",
    window_s: float | None = None,
    keyframes: int | None = None,
    start_s: float = 0.0,
    vision_frame: str = "camera",
    vision_std: str | None = None,
    vision_scale_std: float | None = None,
    time_offset: bool = True,
    truth: Sequence[str] = (),
    acc_bias_prior: Sequence[float] | None = None,
    acc_bias_std: float | None = None,
    rig: str | Path | None = None,
    topics: str = "",
    seed: int = 0,
) -> CalibratedRecording:
    """Estimate extrinsics and time offset from a recording, as `maci2 calibrate` does.

    No initial guess is needed.

    Args:
        path: folder or bag of a recording.
        vision: source of camera motion, as for `initialize_recording`.
        imu: IMU model, as for `initialize_recording`.
        window_s: length of the window [s]; None means 30, or the whole of a shorter recording.
        keyframes: number of keyframes; None means one every 0.3 s.
        start_s: start of the window, from the first usable timestamp [s].
        vision_frame, vision_std, vision_scale_std: as for `initialize_recording`.
        time_offset: also estimate the time offset between camera and IMU.
        truth, acc_bias_prior, acc_bias_std, rig, topics, seed: as for `initialize_recording`.

    Returns:
        The result; its `rig` has the estimated extrinsics and time offset.

    Raises:
        OptionError: an argument is invalid.
        DatasetError: the recording cannot be read or has no such window.
        CalibrationError: the rig cannot be used.
    """
    length_s = CALIBRATION_WINDOW_S if window_s is None else number(window_s, "window_s")
    count = calibration_keyframes(length_s) if keyframes is None else keyframes
    options = options_of(
        vision=vision,
        imu=imu,
        window_s=length_s,
        keyframes=count,
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
    options = replace(options, time_offset=flag(time_offset, "time_offset"))
    may_be_shorter = window_s is None and keyframes is None
    inputs, result = offline.calibrate_recording(as_path(path, "path"), options, may_be_shorter)
    return CalibratedRecording(result, inputs)


document_fields(__name__)
