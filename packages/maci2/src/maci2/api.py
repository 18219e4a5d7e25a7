"""The commands as functions: one call from a recording to a result.

Keyword arguments are the options of the command, from the same list (`maci2.pipeline.options`).
"""

import inspect
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, get_type_hints

from maci2.errors import OptionError, require_in_range
from maci2.estimator.smoother import LAG_RANGE_S
from maci2.jit import warm_up
from maci2.metrics.track_errors import track_errors
from maci2.metrics.window_errors import state_errors
from maci2.odometry import SmootherConfig
from maci2.pipeline.offline import (
    CalibratedRecording,
    InitializedRecording,
    calibrate_window,
    calibration_keyframes,
    initialize_window,
)
from maci2.pipeline.options import (
    CalibrateOptions,
    CheckOptions,
    InitOptions,
    Opening,
    RunOptions,
    TrackOptions,
    WatchOptions,
    parse_pose_std,
)
from maci2.pipeline.prepare import long_window, one_window, open_inputs
from maci2.pipeline.track_recording import RecordedTrack, raw_biases, track_inputs
from maci2.tools.diagnostics.diagnose import examine_path
from maci2.tools.diagnostics.diagnosis import Diagnosis
from maci2.tools.watchdog import WatchdogConfig, WatchedRecording
from maci2.tools.watchdog import watch_recording as watch_along
from maci2.types import NS
from maci2.validation import as_path

CALIBRATION_WINDOW_S = 30.0
"""Default length of the window of a calibration, if the recording is as long [s]."""

SHORTEST_CALIBRATION_S = 5.0
"""Shortest recording that is used as a whole if no window length was given."""

P = ParamSpec("P")
Result = TypeVar("Result")


def takes_options(
    group: Callable[P, Opening],
) -> Callable[[Callable[..., Result]], Callable[Concatenate[str | Path, P], Result]]:
    """Decorate a function of a path and the options of a group: these are in its signature, and
    with their help in its docstring."""

    def decorate(function: Callable[..., Result]) -> Callable[Concatenate[str | Path, P], Result]:
        hints = get_type_hints(group)
        kinds, returned = inspect.Parameter, get_type_hints(function)["return"]
        parameters = [kinds("path", kinds.POSITIONAL_OR_KEYWORD, annotation=str | Path)]
        lines = ["path: folder or bag of a recording."]
        for name, one in inspect.signature(group).parameters.items():
            parameters.append(one.replace(annotation=hints[name]))
        for option in fields(group):  # type: ignore[arg-type]
            lines.append(f"{option.name}: {option.metadata['option'].help}.")
        arguments = "\n    ".join(["Args:", *lines])
        text = inspect.getdoc(function) or ""
        function.__doc__ = text.replace("Returns:\n", f"{arguments}\n\nReturns:\n", 1)
        signature = inspect.Signature(parameters, return_annotation=returned)
        function.__signature__ = signature  # type: ignore[attr-defined]
        types = {one.name: one.annotation for one in parameters}
        function.__annotations__ = {**types, "return": returned}
        return function

    return decorate


@takes_options(CheckOptions)
def check_recording(path: str | Path, **choices: Any) -> Diagnosis:
    """Check what a recording contains and what is wrong with it, as `maci2 check` does.

    Returns:
        Findings, most important first, each with a remedy. If the recording cannot be read, that is
        the only finding.

    Raises:
        DatasetError: there is no such file or folder.
        OptionError: the source of camera motion is invalid.
    """
    options = CheckOptions(**choices)
    return examine_path(
        as_path(path, "path"),
        options.rig,
        options.topics,
        options.vision,
        options.vision_frame,
        options.given,
        options.columns,
    )


@takes_options(InitOptions)
def initialize_recording(path: str | Path, **choices: Any) -> InitializedRecording:
    """Estimate gravity, velocities, biases and poses of one window, as `maci2 init` does.

    Returns:
        The result, with its errors if the recording has ground truth.

    Raises:
        OptionError: an argument is invalid.
        DatasetError: the recording cannot be read or has no such window.
        CalibrationError: the rig cannot be used.
    """
    run = RunOptions.of(InitOptions(**choices))
    inputs = open_inputs(as_path(path, "path"), run)
    inputs.ground_truth.require_names()
    warm_up("initialize")
    window = one_window(inputs.candidates_ns(), run.window_s, run.keyframes, run.start_s)
    result = initialize_window(inputs, window, run)
    errors = state_errors(inputs, inputs.truth, result.state, result.posterior)
    return replace(result, errors=errors)


@takes_options(CalibrateOptions)
def calibrate_recording(path: str | Path, **choices: Any) -> CalibratedRecording:
    """Estimate extrinsics and time offset from a recording, as `maci2 calibrate` does.

    No initial guess is needed.

    Returns:
        The result; its `rig` has the estimated extrinsics and time offset.

    Raises:
        OptionError: an argument is invalid.
        DatasetError: the recording cannot be read or has no such window.
        CalibrationError: the rig cannot be used.
    """
    options = CalibrateOptions(**choices)
    window_s = CALIBRATION_WINDOW_S if options.window_s is None else options.window_s
    keyframes = options.keyframes or calibration_keyframes(window_s)
    run = RunOptions.of(options, window_s=window_s, keyframes=keyframes)
    inputs = open_inputs(as_path(path, "path"), run, calibrating=True)
    inputs.ground_truth.require_names()
    warm_up("calibrate")
    candidates_ns = inputs.measurable_ns()
    if options.window_s is None and not options.keyframes:
        length_s = (int(candidates_ns[-1]) - int(candidates_ns[0])) / NS - run.start_s
        if SHORTEST_CALIBRATION_S <= length_s < window_s:
            window_s, keyframes = length_s, calibration_keyframes(length_s)
    window = long_window(candidates_ns, window_s, keyframes, run.start_s)
    return calibrate_window(inputs, window, run)


@takes_options(TrackOptions)
def track_recording(path: str | Path, **choices: Any) -> RecordedTrack:
    """Run visual-inertial odometry on a recording, as `maci2 track` does.

    Returns:
        States with covariances and a verdict, with errors if the recording has ground truth.

    Raises:
        OptionError: an argument is invalid.
        DatasetError: the recording cannot be read, or no window can be initialized.
        CalibrationError: the rig cannot be used.
    """
    options = TrackOptions(**choices)
    require_in_range("--lag", options.lag_s, *LAG_RANGE_S)
    inputs = open_inputs(as_path(path, "path"), RunOptions.of(options))
    inputs.ground_truth.require_names()
    result = track_inputs(
        inputs,
        options.interval_s,
        SmootherConfig(lag_s=options.lag_s, adapt_visual_noise=options.adapt_noise),
        batch=options.batch,
        at_imu_rate=options.at_imu_rate,
    )
    if inputs.truth is None:
        return result
    gyro_bias, _ = raw_biases(inputs, result.at_images)
    errors = track_errors(result.at_images, gyro_bias, inputs.truth, result.origins)
    return replace(result, errors=errors)


@takes_options(WatchOptions)
def watch_recording(path: str | Path, *odometry: Any, **choices: Any) -> WatchedRecording:
    """Detect with the IMU when another odometry fails, as `maci2 watch` does.

    Returns:
        Alarms for scale changes, jumps, tilts and stalls, each with its time, its size and a state
        to restart from.

    Raises:
        OptionError: an argument is invalid.
        DatasetError: the recording or the trajectory cannot be read.
        CalibrationError: the rig cannot be used.
    """
    options = WatchOptions(*odometry, **choices)
    of_body = options.frame == "body"
    if options.frame not in ("body", "camera", "rectified"):
        raise OptionError(f"--frame is '{options.frame}'; choose body, camera or rectified.")
    parse_pose_std(options.odometry_std, "--odometry-std")
    run = RunOptions.of(
        options,
        vision=f"trajectory:{as_path(options.odometry, 'odometry')}",
        vision_frame="camera" if of_body else options.frame,
        vision_std=options.odometry_std,
        vision_scale_std=options.odometry_scale_std,
    )
    config = WatchdogConfig(sigmas=options.sigmas)
    return watch_along(as_path(path, "path"), run, options.interval_s, of_body, config)
