"""A recording in, a result out: what `maci2 init` and `maci2 calibrate` do, as one call each."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from maci2.boundary import as_array, as_number, as_path
from maci2.errors import OptionError
from maci2.estimation import CalibrationResult, InitResult, Posterior, Verdict, VIState
from maci2.estimation.result_output import (
    Record,
    calibration_text,
    initialization_text,
)
from maci2.evaluation.metrics import InitErrors
from maci2.evaluation.protocol import window_errors
from maci2.field_docs import document_fields
from maci2.files import write_json
from maci2.pipeline import offline
from maci2.pipeline.offline import Initialized, calibration_keyframes
from maci2.pipeline.options import RunOptions, parse_vision
from maci2.pipeline.prepare import Inputs, recalibrated_rig
from maci2.pipeline.results_json import calibration_errors, calibration_json, initialization_json
from maci2.sensors import Rig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CALIBRATION_WINDOW_S = 30.0
"""Length of a calibration's window where none is asked for and the recording has as much [s]."""


@dataclass(frozen=True, repr=False)
class InitializedRecording:
    """Answer of `initialize_recording`: the result of one window, scored where ground truth is."""

    result: InitResult
    """State, posterior covariance, report and verdict."""

    initialized: Initialized
    """The result with its window."""

    inputs: Inputs
    """The recording as it was opened: IMU measurements, vision, extrinsics, ground truth."""

    errors: InitErrors | None
    """Errors against the recording's ground truth; None where there is none or no state."""

    @property
    def verdict(self) -> Verdict:
        """Whether to use the result, and why not."""
        return self.result.verdict

    @property
    def state(self) -> VIState | None:
        """Gravity, velocities, biases and poses; None where there is no answer."""
        return self.result.state

    @property
    def posterior(self) -> Posterior | None:
        """Covariance of the state; None with it."""
        return self.result.posterior

    def summary(self) -> str:
        """The text that `maci2 init` prints: estimate, 1-sigma and, where known, true error."""
        return initialization_text(self.result, self._error_texts())

    def to_dict(self) -> Record:
        """The record that `maci2 init --json` writes."""
        record = initialization_json(self.initialized, self.inputs.recording.rig.time_offset_s)
        if self.errors is not None:
            record["errors"] = dict(self.errors.as_dict())
        return record

    def save(self, path: str | Path) -> None:
        """Write `to_dict()` as JSON, whole or not at all."""
        write_json(as_path(path, "path"), self.to_dict())

    def plot(self) -> "Figure":
        """Velocity, gravity and biases with 2-sigma bands (matplotlib, extra `report`)."""
        return self.result.plot()

    def __repr__(self) -> str:
        return f"InitializedRecording({self.inputs.recording.name}: {self.result!r})"

    def _error_texts(self) -> dict[str, str]:
        if self.errors is None:
            return {}
        errors = {
            "gravity": (self.errors.gravity_deg, ".3f", "deg"),
            "velocity": (self.errors.velocity_rmse, ".4f", "m/s"),
            "gyro_bias": (self.errors.gyro_bias_pct, ".2f", "%"),
        }
        # Ground truth without biases says nothing of theirs.
        known = {name: error for name, error in errors.items() if error[0] is not None}
        return {name: f"{value:{form}} {unit}" for name, (value, form, unit) in known.items()}


@dataclass(frozen=True, repr=False)
class CalibratedRecording:
    """Answer of `calibrate_recording`: extrinsics, beside the recording's own where it has any."""

    result: CalibrationResult
    """State, posterior covariance, report and verdict."""

    inputs: Inputs
    """The recording as it was opened: IMU measurements, vision, extrinsics, ground truth."""

    @property
    def verdict(self) -> Verdict:
        """Whether to use the result, and why not."""
        return self.result.verdict

    @property
    def state(self) -> VIState | None:
        """Extrinsics and all the rest; None where there is no answer."""
        return self.result.state

    @property
    def posterior(self) -> Posterior | None:
        """Covariance of the state; None with it."""
        return self.result.posterior

    @property
    def rig(self) -> Rig | None:
        """The recording's rig with its cameras and time offset as found; None without an answer."""
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
        """The record that `maci2 calibrate --json` writes; `T_b_c` is the left camera's own, also
        where images were rectified."""
        return calibration_json(self.inputs, self.result)

    def save(self, path: str | Path) -> None:
        """Write `to_dict()` as JSON, whole or not at all."""
        write_json(as_path(path, "path"), self.to_dict())

    def plot(self) -> "Figure":
        """Extrinsics with their uncertainty (matplotlib, extra `report`)."""
        return self.result.plot()

    def __repr__(self) -> str:
        return f"CalibratedRecording({self.inputs.recording.name}: {self.result!r})"


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
    """Do what `maci2 init` does: gravity, velocities, biases and poses of one window.

    Args:
        path: folder or bag of a recording.
        vision: source of camera motion: "images", "truth:ROT_DEG,TRANS_M", "trajectory:FILE" or
            "measurements:FILE".
        imu: IMU model: "raw", "datasheet", a bundled model's name or a weight file.
        window_s: length of the window [s].
        keyframes: number of keyframes in it.
        start_s: start of the window, from the first usable timestamp [s].
        vision_frame: camera frame that a trajectory speaks of: "camera" or "rectified".
        vision_std: noise of a trajectory's relative poses, "ROT_DEG,TRANS_M[,SHARE]".
        vision_scale_std: standard deviation of a trajectory's common scale, as a share.
        paper: take the paper's choices exactly.
        time_offset: estimate the camera's time offset to the IMU too.
        truth: names of ground truths to prefer, in this order.
        acc_bias_prior: (3,) known accelerometer bias of the raw sensor [m/s^2].
        acc_bias_std: standard deviation of that bias [m/s^2].
        rig: calibration file or folder that replaces the recording's own.
        topics: roles of a bag's topics, "imu=/imu0,left=/cam0/image_raw".
        seed: seed of the noise that "truth:..." adds.

    Returns:
        The result, with its errors where the recording has ground truth.

    Raises:
        OptionError: an argument has no meaning.
        DatasetError: the recording cannot be read or has no such window.
        CalibrationError: the rig cannot be used.
    """
    options = _options(
        vision, imu, window_s, keyframes, start_s, vision_frame, vision_std, vision_scale_std,
        truth, acc_bias_prior, acc_bias_std, rig, topics, seed,
    )  # fmt: skip
    options = replace(
        options, paper=_flag(paper, "paper"), time_offset=_flag(time_offset, "time_offset")
    )
    inputs, initialized = offline.initialize_recording(as_path(path, "path"), options)
    errors = window_errors(inputs, initialized)
    return InitializedRecording(initialized.result, initialized, inputs, errors)


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
    """Do what `maci2 calibrate` does: extrinsics and time offset from one window, without a guess.

    Args:
        path: folder or bag of a recording.
        vision: source of camera motion, as for `initialize_recording`.
        imu: IMU model, as for `initialize_recording`.
        window_s: length of the window [s]; None takes 30 or, if less, all there is.
        keyframes: number of keyframes; None takes one every 0.3 s.
        start_s: start of the window, from the first usable timestamp [s].
        vision_frame, vision_std, vision_scale_std: of a trajectory, as for `initialize_recording`.
        time_offset: estimate the camera's time offset to the IMU too.
        truth, acc_bias_prior, acc_bias_std, rig, topics, seed: as for `initialize_recording`.

    Returns:
        The result; its `rig` is the recording's with what was found put in.

    Raises:
        OptionError: an argument has no meaning.
        DatasetError: the recording cannot be read or has no such window.
        CalibrationError: the rig cannot be used.
    """
    length_s = CALIBRATION_WINDOW_S if window_s is None else _number(window_s, "window_s")
    count = calibration_keyframes(length_s) if keyframes is None else keyframes
    options = _options(
        vision, imu, length_s, count, start_s, vision_frame, vision_std, vision_scale_std,
        truth, acc_bias_prior, acc_bias_std, rig, topics, seed,
    )  # fmt: skip
    options = replace(options, time_offset=_flag(time_offset, "time_offset"))
    may_be_shorter = window_s is None and keyframes is None
    inputs, result = offline.calibrate_recording(as_path(path, "path"), options, may_be_shorter)
    return CalibratedRecording(result, inputs)


def _options(
    vision: str,
    imu: str,
    window_s: float,
    keyframes: int,
    start_s: float,
    vision_frame: str,
    vision_std: str | None,
    vision_scale_std: float | None,
    truth: Sequence[str],
    acc_bias_prior: Sequence[float] | None,
    acc_bias_std: float | None,
    rig: str | Path | None,
    topics: str,
    seed: int,
) -> RunOptions:
    """Arguments as a record of options, with their types checked; ranges are checked there."""
    for name, text in (("vision", vision), ("imu", str(imu)), ("vision_frame", vision_frame)):
        _require_text(text, name)
    if not isinstance(truth, str | list | tuple):
        raise OptionError(f"truth is of the type {type(truth).__name__}, needed a list of names.")
    names = (truth,) if isinstance(truth, str) else tuple(truth)
    prior = None
    if acc_bias_prior is not None:
        x, y, z = as_array(acc_bias_prior, (3,), "acc_bias_prior", OptionError)
        prior = (float(x), float(y), float(z))
    for name in names:
        _require_text(name, "truth")
    _require_text(topics, "topics")
    if vision_std is not None:
        _require_text(vision_std, "vision_std")
    scale_std = None if vision_scale_std is None else _number(vision_scale_std, "vision_scale_std")
    return RunOptions(
        vision=parse_vision(vision, vision_frame, vision_std, scale_std),
        imu=str(imu),
        keyframes=_whole(keyframes, "keyframes"),
        window_s=_number(window_s, "window_s"),
        start_s=_number(start_s, "start_s"),
        truth=names,
        acc_bias_prior=prior,
        acc_bias_std=None if acc_bias_std is None else _number(acc_bias_std, "acc_bias_std"),
        rig=None if rig is None else as_path(rig, "rig"),
        topics=topics,
        seed=_whole(seed, "seed"),
    )


def _number(value: float, name: str) -> float:
    return as_number(value, name, error=OptionError)


def _whole(value: int, name: str) -> int:
    if as_number(value, name, 0, error=OptionError) != int(value):
        raise OptionError(f"{name} is {value}, needed a whole number.")
    return int(value)


def _flag(value: bool, name: str) -> bool:
    if not isinstance(value, bool):
        raise OptionError(f"{name} is {value!r}, needed True or False.")
    return value


def _require_text(value: str, name: str) -> None:
    if not isinstance(value, str):
        raise OptionError(f"{name} is of the type {type(value).__name__}, needed a text.")


document_fields(__name__)
