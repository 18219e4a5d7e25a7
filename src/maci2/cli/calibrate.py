"""`maci2 calibrate`."""

from pathlib import Path
from typing import Annotated

import typer

from maci2.cli import options as opt
from maci2.cli.json_output import write_json
from maci2.cli.printing import command_line, print_summary, write_report
from maci2.cli.viewing import require_viewer, viewer
from maci2.pipeline.option_list import CalibrateOptions


def calibrate(
    sequence: opt.Sequence,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Kalibr camchain-imucam YAML to write")
    ] = None,
    options: CalibrateOptions = CalibrateOptions(),
    report: opt.Report = None,
    rerun: opt.Rerun = "",
    json: opt.Json = None,
) -> None:
    """Estimate camera-IMU extrinsics and time offset from motion.

    Needs no target and no initial guess. Exit code 1 if the verdict is `failed`; the YAML is then
    not written. Example: maci2 calibrate SEQ -o camchain-imucam.yaml
    """
    require_viewer(rerun)
    from maci2.recording_calls.calibrate_call import calibrate_recording

    result = calibrate_recording(sequence, **vars(options))
    write_json(json, result.to_dict())
    print_summary(result.summary(), result.verdict)
    if options.all_cameras:
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

        write_report(report, calibration_page(result, command_line()))
    if failed:
        raise typer.Exit(1)
