"""`maci2 calibrate`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from maci2.cli import options as opt
from maci2.cli.json_output import write_json
from maci2.cli.option_groups import Measuring, Opening, run_options
from maci2.cli.printing import command_line, print_summary
from maci2.cli.viewing import require_viewer, viewer

if TYPE_CHECKING:
    from maci2.estimation import CalibrationResult
    from maci2.pipeline.options import RunOptions
    from maci2.pipeline.prepare import Inputs
    from maci2.sensors import Rig

DEFAULT_WINDOW_S = 30.0


def calibrate(
    sequence: opt.Sequence,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Kalibr camchain-imucam YAML to write")
    ] = None,
    measuring: Measuring = Measuring(),
    keyframes: Annotated[int, typer.Option(help="keyframes in the window; 0: one every 0.3 s")] = 0,
    window: Annotated[
        float | None,
        typer.Option(
            help="length of the window [s]  [default: 30, or the whole recording if shorter]"
        ),
    ] = None,
    start: opt.Start = 0.0,
    time_offset: opt.TimeOffset = True,
    prior: Annotated[
        str,
        typer.Option(
            help="prior of the pose of the left camera in the IMU frame, for motion that does not "
            "determine all of it (cars): YAML with T_b_c or T_cam_imu, or 16 numbers"
        ),
    ] = "",
    prior_std: Annotated[
        str, typer.Option(help="standard deviation of --prior on each axis, as in 2deg,3cm")
    ] = "",
    all_cameras: Annotated[
        bool,
        typer.Option(
            "--all-cameras",
            help="also refine the right camera's pose relative to the left from stereo matches",
        ),
    ] = False,
    opening: Opening = Opening(),
    report: opt.Report = None,
    rerun: opt.Rerun = "",
    json: opt.Json = None,
) -> None:
    """Estimate camera-IMU extrinsics and time offset from motion.

    Needs no target and no initial guess. Exit code 1 when the verdict is `failed`; the YAML is then
    not written.
    """
    require_viewer(rerun)
    from maci2.pipeline.offline import calibrate_recording, calibration_keyframes
    from maci2.pipeline.stated_mounting import parse_mounting

    window_s = DEFAULT_WINDOW_S if window is None else window
    options = run_options(
        measuring,
        opening,
        keyframes=keyframes or calibration_keyframes(window_s),
        window_s=window_s,
        start_s=start,
        time_offset=time_offset,
        all_cameras=all_cameras,
        mounting=parse_mounting(prior, prior_std),
    )
    from maci2.pipeline.results_json import calibration_json

    may_be_shorter = window is None and keyframes == 0
    inputs, result = calibrate_recording(sequence, options, may_be_shorter)
    write_json(json, calibration_json(inputs, result))
    print_calibration(inputs, result)
    if all_cameras:
        typer.echo(inputs.recording.notes[-1])
    if rerun:
        with viewer(rerun, "calibrate") as shown:
            shown.show_calibration(result)
    if result.verdict.status != "failed":
        _write(inputs, result, output)
    if report is not None:
        _report(inputs, result, options, report)
    if result.verdict.status == "failed":
        raise typer.Exit(1)


def _write(inputs: "Inputs", result: "CalibrationResult", output: Path | None) -> None:
    """Write the calibration if an output file was given."""
    if output is None:
        return
    from maci2.rigs import write_camchain

    write_camchain(output, _calibrated(inputs, result))
    typer.echo(f"wrote {output}")


def _report(
    inputs: "Inputs", result: "CalibrationResult", options: "RunOptions", report: Path
) -> None:
    """Write the report, also of a failed calibration, since it shows why."""
    from maci2.files import write_atomically
    from maci2.reports.calibration_page import calibration_page

    rig = _calibrated(inputs, result)
    write_atomically(report, calibration_page(inputs, result, rig, options, command_line()))
    typer.echo(f"wrote {report}")


def _calibrated(inputs: "Inputs", result: "CalibrationResult") -> "Rig":
    """Rig with the estimated extrinsics and time offset; unchanged without an estimate."""
    from maci2.pipeline.prepare import recalibrated_rig

    if result.state is None:
        return inputs.recording.rig
    return recalibrated_rig(inputs, result.state.T_b_c, result.report.time_offset_s or 0.0)


def print_calibration(inputs: "Inputs", result: "CalibrationResult") -> None:
    """Print the extrinsics of the left camera with 1-sigma, beside the given ones if any."""
    from maci2.recording_calls.calibrate_call import CalibratedRecording

    print_summary(CalibratedRecording(result, inputs).summary(), result.verdict)
