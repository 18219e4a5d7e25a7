"""`maci2 track`."""

from pathlib import Path
from typing import Annotated

import typer

from maci2.cli import options as opt
from maci2.cli.json_output import write_json
from maci2.cli.printing import command_line, print_summary, write_report
from maci2.cli.viewing import require_viewer, viewer
from maci2.pipeline.option_list import TrackOptions


def track(
    sequence: opt.Sequence,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="folder for trajectory_Twb_tum.txt, track.npz and summary.json"
        ),
    ] = None,
    options: TrackOptions = TrackOptions(),
    report: opt.Report = None,
    rerun: opt.Rerun = "",
    json: opt.Json = None,
) -> None:
    """Run visual-inertial odometry, with covariances.

    Gives a state at every image, from initialization on. Poses are those of the IMU in a world
    whose z axis points up and whose origin is the position of the IMU at the first keyframe. Each
    state uses earlier measurements only, unless --batch.
    """
    require_viewer(rerun)
    from maci2.recording_calls.track_call import track_recording

    result = track_recording(sequence, **vars(options))
    print_summary(result.summary(), result.verdict)
    write_json(json, result.to_dict())
    if output is not None:
        for path in result.save(output):
            typer.echo(f"wrote {path}")
    if rerun:
        with viewer(rerun, f"track {result.inputs.recording.name}") as shown:
            shown.show_path(result.at_images)
    if report is not None:
        from maci2.reports.track_page import track_page

        own = ("interval_s", "lag_s", "batch", "adapt_noise")
        choices = {name: getattr(options, name) for name in own}
        choices = result.inputs.options.as_dict() | choices
        write_report(report, track_page(result, choices, command_line()))
