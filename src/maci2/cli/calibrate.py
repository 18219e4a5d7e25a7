"""`maci2 calibrate`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from maci2.cli import options as opt
from maci2.cli.json_output import write_json
from maci2.cli.option_groups import Measuring, Opening, run_options
from maci2.cli.printing import command_line, print_summary, write_report
from maci2.cli.viewing import require_viewer, viewer


@dataclass(frozen=True)
class Mounting:
    """Prior of the extrinsics."""

    prior: Annotated[
        str,
        typer.Option(
            help="prior of the pose of the left camera in the IMU frame, for motion that does not "
            "determine all of it (cars): YAML with T_b_c or T_cam_imu, or 16 numbers"
        ),
    ] = ""
    prior_std: Annotated[
        str, typer.Option(help="standard deviation of --prior on each axis, as in 2deg,3cm")
    ] = ""


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
    mounting: Mounting = Mounting(),
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

    Needs no target and no initial guess. Exit code 1 if the verdict is `failed`; the YAML is then
    not written. Example: maci2 calibrate SEQ -o camchain-imucam.yaml
    """
    require_viewer(rerun)
    from maci2.pipeline.offline import calibrate_recording, calibration_keyframes
    from maci2.pipeline.stated_mounting import parse_mounting
    from maci2.recording_calls.calibrate_call import CALIBRATION_WINDOW_S

    window_s = CALIBRATION_WINDOW_S if window is None else window
    options = run_options(
        measuring,
        opening,
        keyframes=keyframes or calibration_keyframes(window_s),
        window_s=window_s,
        start_s=start,
        time_offset=time_offset,
        all_cameras=all_cameras,
        mounting=parse_mounting(mounting.prior, mounting.prior_std),
    )
    may_be_shorter = window is None and keyframes == 0
    result = calibrate_recording(sequence, options, may_be_shorter)
    write_json(json, result.to_dict())
    print_summary(result.summary(), result.verdict)
    if all_cameras:
        typer.echo(result.inputs.recording.notes[-1])
    if rerun:
        with viewer(rerun, "calibrate") as shown:
            shown.show_calibration(result)
    failed = result.verdict.status == "failed"
    if output is not None and result.rig is not None and not failed:
        from maci2.rigs import write_camchain

        write_camchain(output, result.rig)
        typer.echo(f"wrote {output}")
    if report is not None:
        # Also of a failed calibration, since the report shows why.
        from maci2.reports.calibration_page import calibration_page

        write_report(report, calibration_page(result, options, command_line()))
    if failed:
        raise typer.Exit(1)
