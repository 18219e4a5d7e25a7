"""What `maci2 init` and `maci2 calibrate` do: from a recording and options to a result."""

from dataclasses import dataclass, replace
from pathlib import Path

from maci2.estimation import CalibrationResult, InitResult, calibrate, initialize
from maci2.imu import ImuMeasurements
from maci2.pipeline.options import RunOptions
from maci2.pipeline.prepare import Inputs, open_inputs
from maci2.pipeline.warm_up import warm_up
from maci2.pipeline.windows import Window, one_window
from maci2.types import NS, Stamps, Vec3
from maci2.vision import RelativePoses

OFFSET_MARGIN_S = 0.12
"""Samples beyond the keyframes, where a time offset is looked for."""

CALIBRATION_SPACING_S = 0.3
"""Between keyframes of a calibration: far enough apart to turn by a good angle, since the error of
a step does not grow with it."""

SHORTEST_CALIBRATION_S = 5.0
"""A recording shorter than this is not taken for one of its whole length unasked."""


@dataclass(frozen=True)
class Initialized:
    """Result of one window, with the raw sensor's biases."""

    result: InitResult
    window: Window
    """The keyframes used; on the IMU's clock where a time offset was found."""

    gyro_bias: Vec3
    """Bias of the raw gyroscope [rad/s]: what the IMU model took off and what was estimated."""

    acc_bias: Vec3
    """Bias of the raw accelerometer [m/s^2], likewise."""


def initialize_recording(path: Path, options: RunOptions) -> tuple[Inputs, Initialized]:
    """What `maci2 init` does: the one window at `options.start_s`."""
    inputs = open_inputs(path, options)
    warm_up()
    window = one_window(
        inputs.candidates_ns(), options.window_s, options.keyframes, options.start_s
    )
    return inputs, initialize_window(inputs, window, options)


def initialize_window(inputs: Inputs, window: Window, options: RunOptions) -> Initialized:
    """Initialize on one window of a recording."""
    vision = inputs.camera_motion(window.stamps_ns, window.index)
    imu = _samples_around(inputs, vision, options)
    result = initialize(imu, vision, inputs.T_b_c, options.solver(), premises=inputs.premises)
    gyro_bias, acc_bias = inputs.removed_bias(int(vision.stamps_ns[0]), int(vision.stamps_ns[-1]))
    if result.state is None:
        return Initialized(result, Window(window.index, vision.stamps_ns), gyro_bias, acc_bias)
    # With an offset found, keyframes may be fewer and their timestamps are the IMU's.
    return Initialized(
        result,
        Window(window.index, result.state.stamps_ns),
        gyro_bias + result.state.gyro_bias,
        acc_bias + result.state.acc_bias,
    )


def calibrate_recording(
    path: Path, options: RunOptions, may_be_shorter: bool = False
) -> tuple[Inputs, CalibrationResult]:
    """`maci2 calibrate`: extrinsics from one window, with no guess of them; from all there is where
    that is less and may be."""
    inputs = open_inputs(path, options, calibrating=True)
    warm_up()
    candidates_ns = inputs.candidates_ns()
    if may_be_shorter:
        options = _as_long_as_there_is(options, candidates_ns)
    window = one_window(candidates_ns, options.window_s, options.keyframes, options.start_s)
    return inputs, calibrate_window(inputs, window, options)


def _as_long_as_there_is(options: RunOptions, candidates_ns: Stamps) -> RunOptions:
    has_s = (int(candidates_ns[-1]) - int(candidates_ns[0])) / NS - options.start_s
    if not SHORTEST_CALIBRATION_S <= has_s < options.window_s:
        return options
    return replace(options, window_s=has_s, keyframes=calibration_keyframes(has_s))


def calibrate_window(inputs: Inputs, window: Window, options: RunOptions) -> CalibrationResult:
    """Extrinsics from one window."""
    vision = inputs.camera_motion(window.stamps_ns, window.index)
    return calibrate(_samples_around(inputs, vision, options), vision, options.solver())


def _samples_around(inputs: Inputs, vision: RelativePoses, options: RunOptions) -> ImuMeasurements:
    """What covers the keyframes, and as much more as a time offset may need and there is."""
    stamps_ns = inputs.imu.stamps_ns
    margin_ns = round(OFFSET_MARGIN_S * NS) if options.time_offset else 0
    return inputs.imu.between(
        max(int(vision.stamps_ns[0]) - margin_ns, int(stamps_ns[0])),
        min(int(vision.stamps_ns[-1]) + margin_ns, int(stamps_ns[-1])),
    )


def calibration_keyframes(window_s: float) -> int:
    """How many keyframes a calibration takes by default."""
    return max(round(window_s / CALIBRATION_SPACING_S) + 1, 4)
