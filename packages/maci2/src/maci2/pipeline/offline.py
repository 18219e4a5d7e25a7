"""Initialization and calibration on one window of a recording, and their results."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from maci2.calibration import calibrate
from maci2.consistency import initialize
from maci2.errors import require_in_range
from maci2.estimator import CalibrationResult, InitResult
from maci2.estimator.calibrate import MountingPrior
from maci2.field_docs import document_fields
from maci2.geometry import se3_inv
from maci2.geometry.se3 import rotation_angle_deg
from maci2.imu import ImuMeasurements
from maci2.pipeline.options import WINDOW_S, RunOptions
from maci2.pipeline.prepare import Inputs, Window, recalibrated_rig
from maci2.result_output import (
    Record,
    calibration_record,
    calibration_text,
    initialization_record,
    initialization_text,
)
from maci2.sensors import Rig
from maci2.types import Array
from maci2.vision import RelativePoses

if TYPE_CHECKING:
    from maci2.metrics.init_errors import InitErrors

CALIBRATION_SPACING_S = 0.3
"""Time between keyframes of a calibration: enough for a large rotation, since the error of a
relative pose does not grow with it."""


ERROR_TEXTS = (
    ("gravity", "gravity_deg", ".3f", "deg"),
    ("velocity", "velocity_rmse", ".4f", "m/s"),
    ("gyro_bias", "gyro_bias_pct", ".2f", "%"),
)
"""Errors beside the estimates: quantity, field of `InitErrors`, format and unit."""


@dataclass(frozen=True, repr=False, kw_only=True)
class InitializedRecording(InitResult):
    """Result of `initialize_recording`: that of `initialize`, with its window and errors."""

    inputs: Inputs
    """The opened recording: IMU measurements, vision, extrinsics, ground truth."""

    window: Window
    """Keyframes used, on the IMU's clock if a time offset was estimated."""

    imu: ImuMeasurements
    """IMU measurements of the window."""

    vision: RelativePoses
    """Camera motion between the keyframes."""

    errors: "InitErrors | None" = None
    """Errors against ground truth; None without ground truth or without a state."""

    @property
    def result(self) -> "InitializedRecording":
        """The result itself, as 0.11 nested it; deprecated."""
        return self

    def summary(self) -> str:
        """The text that `maci2 init` prints: estimates, 1-sigma and, if known, true errors."""
        values = {} if self.errors is None else vars(self.errors)
        texts = {
            name: f"{values[field]:{form}} {unit}"
            for name, field, form, unit in ERROR_TEXTS
            # Ground truth may lack biases.
            if values.get(field) is not None
        }
        return initialization_text(self, texts)

    def to_dict(self) -> Record:
        """The record that `maci2 init --json` writes."""
        # The rig's own time offset is included in the estimated one.
        record = initialization_record(self, self.inputs.recording.rig.time_offset_s)
        record |= {"start_ns": self.window.start_ns, "stamps_ns": self.window.stamps_ns.tolist()}
        record |= self.inputs.source.pose_noise_record()
        return record if self.errors is None else record | {"errors": {**self.errors.as_dict()}}


@dataclass(frozen=True, repr=False, kw_only=True)
class CalibratedRecording(CalibrationResult):
    """Result of `calibrate_recording`: that of `calibrate`, compared with the recording's own
    extrinsics if known."""

    inputs: Inputs
    """The opened recording: IMU measurements, vision, extrinsics, ground truth."""

    @property
    def result(self) -> "CalibratedRecording":
        """The result itself, as 0.11 nested it; deprecated."""
        return self

    @property
    def rig(self) -> Rig | None:
        """Rig with the estimated extrinsics and time offset; None without an estimate."""
        if self.state is None:
            return None
        return recalibrated_rig(self.inputs, self.state.T_b_c, self.report.time_offset_s or 0.0)

    def summary(self) -> str:
        """The text that `maci2 calibrate` prints: extrinsics of the left camera with 1-sigma."""
        if self.rig is None:
            return calibration_text(self)
        given = {}
        if self.inputs.recording.rig.extrinsics_known:
            rotation_deg, translation = calibration_errors(self, self.inputs.T_b_c)
            given["rotation"] = f"{rotation_deg:.3f} deg"
            given["translation"] = f"{1e3 * translation:.1f} mm"
        nominal_offset_s = self.inputs.recording.rig.time_offset_s
        return calibration_text(self, self.rig.cameras[0].T_b_c, given, nominal_offset_s)

    def to_dict(self) -> Record:
        """The record that `maci2 calibrate --json` writes; `T_b_c` belongs to the left camera
        itself, even if images were rectified."""
        own = self.inputs.recording.rig
        record = calibration_record(self, own.time_offset_s)
        record |= self.inputs.source.pose_noise_record()
        if self.rig is None:
            return record
        record["T_b_c"] = self.rig.cameras[0].T_b_c.tolist()
        if own.extrinsics_known:
            rotation_deg, translation = calibration_errors(self, self.inputs.T_b_c)
            record["errors"] = {"rotation_deg": rotation_deg, "translation_m": translation}
        return record


def initialize_window(inputs: Inputs, window: Window, options: RunOptions) -> InitializedRecording:
    """Initialize on one window of a recording."""
    vision = inputs.vision.motion(window.stamps_ns, window.index)
    imu = inputs.samples_around(vision)
    solver, limits = options.solver(), options.limits()
    # Motion from images is costly: a window that confirms its own constants needs no others.
    constants = None if inputs.vision.from_images else inputs.constants
    result = initialize(imu, vision, inputs.T_b_c, solver, limits, constants)
    if result.verdict.status == "weak" and constants is None:
        result = initialize(imu, vision, inputs.T_b_c, solver, limits, inputs.constants)
    # With an offset found, keyframes may be fewer and their timestamps are the IMU's.
    stamps_ns = vision.stamps_ns if result.state is None else result.state.stamps_ns
    return InitializedRecording(
        **vars(result),
        inputs=inputs,
        window=Window(window.index, stamps_ns),
        imu=imu,
        vision=vision,
    )


def calibrate_window(inputs: Inputs, window: Window, options: RunOptions) -> CalibratedRecording:
    """Extrinsics from one window."""
    vision = inputs.vision.motion(window.stamps_ns, window.index)
    imu = inputs.samples_around(vision)
    result = calibrate(imu, vision, options.solver(), mounting=_mounting(inputs, options))
    return CalibratedRecording(**vars(result), inputs=inputs)


def _mounting(inputs: Inputs, options: RunOptions) -> MountingPrior | None:
    """Prior of `--prior`, for the frame of the camera motion."""
    stated = options.mounting
    if stated is None:
        return None
    T_c0_c = se3_inv(inputs.recording.rig.cameras[0].T_b_c) @ inputs.T_b_c
    std = np.repeat([stated.std_translation, stated.std_rotation], 3)
    return MountingPrior(np.array(stated.T_b_c0) @ T_c0_c, std)


def calibration_keyframes(window_s: float) -> int:
    """Default number of keyframes of a calibration."""
    require_in_range("--window", window_s, *WINDOW_S)
    return max(round(window_s / CALIBRATION_SPACING_S) + 1, 4)


def calibration_errors(result: CalibrationResult, T_b_c: Array) -> tuple[float, float]:
    """Rotation [deg] and translation [m] error against extrinsics that were given."""
    if result.state is None:
        return float("nan"), float("nan")
    rotation_deg = rotation_angle_deg(result.state.T_b_c[:3, :3], T_b_c[:3, :3])
    return rotation_deg, float(np.linalg.norm(result.state.T_b_c[:3, 3] - T_b_c[:3, 3]))


document_fields(__name__)
