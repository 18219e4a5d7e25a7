"""What `maci2 init` and `maci2 calibrate` do: from a recording and options to a result."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from maci2.calibration import calibrate
from maci2.calibration.calibration_problem import MountingPrior
from maci2.errors import require_in_range
from maci2.estimation import CalibrationResult, InitResult, initialize
from maci2.ground_truth.choose import require_known_truths
from maci2.imu import ImuMeasurements
from maci2.lie import se3_inv
from maci2.pipeline.options import RANGES, RunOptions
from maci2.pipeline.prepare import Inputs, open_inputs
from maci2.pipeline.rehearsals import warm_up
from maci2.pipeline.windows import Window, long_window, one_window
from maci2.types import NS, Stamps, Vec3
from maci2.vision import RelativePoses
from maci2.vision.odometry import StereoOdometry

OFFSET_MARGIN_S = 0.12
"""Length of IMU data beyond the keyframes, for an unknown time offset."""

CALIBRATION_SPACING_S = 0.3
"""Time between keyframes of a calibration: enough for a large rotation, since the error of a
relative pose does not grow with it."""

SHORTEST_CALIBRATION_S = 5.0
"""Shortest recording that is used as a whole where no window length was asked for."""


@dataclass(frozen=True)
class Initialized:
    """Result of one window of a recording."""

    result: InitResult
    """The estimate, its posterior and the verdict."""

    window: Window
    """The keyframes used; on the IMU's clock where a time offset was found."""

    imu: ImuMeasurements
    """Samples that it was found from."""

    vision: RelativePoses
    """Camera motion that it was found from."""

    @property
    def gyro_bias(self) -> Vec3 | None:
        """(3,) bias of the raw gyroscope [rad/s]; None without a state."""
        return None if self.result.state is None else self.result.state.gyro_bias

    @property
    def acc_bias(self) -> Vec3 | None:
        """(3,) bias of the raw accelerometer [m/s^2]; None without a state."""
        return None if self.result.state is None else self.result.state.acc_bias


def initialize_recording(path: Path, options: RunOptions) -> tuple[Inputs, Initialized]:
    """What `maci2 init` does: the one window at `options.start_s`."""
    inputs = open_inputs(path, options)
    require_known_truths([inputs.recording], options.truth)
    warm_up("initialize")
    window = one_window(
        inputs.candidates_ns(), options.window_s, options.keyframes, options.start_s
    )
    return inputs, initialize_window(inputs, window, options)


def initialize_window(inputs: Inputs, window: Window, options: RunOptions) -> Initialized:
    """Initialize on one window of a recording."""
    vision = inputs.camera_motion(window.stamps_ns, window.index)
    imu = _samples_around(inputs, vision, options)
    solver, limits = options.solver(), options.limits()
    # Motion from images is costly: a window that confirms its own constants needs no others.
    premises = None if isinstance(inputs.visual, StereoOdometry) else inputs.premises
    result = initialize(imu, vision, inputs.T_b_c, solver, limits, premises)
    if result.verdict.status == "weak" and premises is None:
        result = initialize(imu, vision, inputs.T_b_c, solver, limits, inputs.premises)
    # With an offset found, keyframes may be fewer and their timestamps are the IMU's.
    stamps_ns = vision.stamps_ns if result.state is None else result.state.stamps_ns
    return Initialized(result, Window(window.index, stamps_ns), imu, vision)


def calibrate_recording(
    path: Path, options: RunOptions, may_be_shorter: bool = False
) -> tuple[Inputs, CalibrationResult]:
    """What `maci2 calibrate` does: extrinsics from one window, with no guess of them.

    With `may_be_shorter` a recording shorter than the window is used as a whole.
    """
    inputs = open_inputs(path, options, calibrating=True)
    require_known_truths([inputs.recording], options.truth)
    warm_up("calibrate")
    candidates_ns = inputs.measurable_ns()
    if may_be_shorter:
        options = _shortened(options, candidates_ns)
    window = long_window(candidates_ns, options.window_s, options.keyframes, options.start_s)
    return inputs, calibrate_window(inputs, window, options)


def _shortened(options: RunOptions, candidates_ns: Stamps) -> RunOptions:
    length_s = (int(candidates_ns[-1]) - int(candidates_ns[0])) / NS - options.start_s
    if not SHORTEST_CALIBRATION_S <= length_s < options.window_s:
        return options
    return replace(options, window_s=length_s, keyframes=calibration_keyframes(length_s))


def calibrate_window(inputs: Inputs, window: Window, options: RunOptions) -> CalibrationResult:
    """Extrinsics from one window."""
    vision = inputs.camera_motion(window.stamps_ns, window.index)
    imu = _samples_around(inputs, vision, options)
    return calibrate(imu, vision, options.solver(), mounting=_mounting(inputs, options))


def _mounting(inputs: Inputs, options: RunOptions) -> MountingPrior | None:
    """The stated prior, for the frame that vision speaks of."""
    stated = options.mounting
    if stated is None:
        return None
    T_c0_c = se3_inv(inputs.recording.rig.cameras[0].T_b_c) @ inputs.T_b_c
    std = np.repeat([stated.std_translation, stated.std_rotation], 3)
    return MountingPrior(np.array(stated.T_b_c0) @ T_c0_c, std)


def _samples_around(inputs: Inputs, vision: RelativePoses, options: RunOptions) -> ImuMeasurements:
    """The samples that cover the keyframes, and a margin where a time offset is unknown."""
    stamps_ns = inputs.imu.stamps_ns
    margin_ns = round(OFFSET_MARGIN_S * NS) if options.time_offset else 0
    return inputs.imu.between(
        max(int(vision.stamps_ns[0]) - margin_ns, int(stamps_ns[0])),
        min(int(vision.stamps_ns[-1]) + margin_ns, int(stamps_ns[-1])),
    )


def calibration_keyframes(window_s: float) -> int:
    """Default number of keyframes of a calibration."""
    require_in_range("--window", window_s, *RANGES["window_s"])
    return max(round(window_s / CALIBRATION_SPACING_S) + 1, 4)
