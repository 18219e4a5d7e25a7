"""`maci2 track`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from maci2.cli import options as opt
from maci2.cli.json_output import write_json
from maci2.cli.option_groups import Measuring, Opening, run_options
from maci2.cli.printing import command_line, print_summary, write_report
from maci2.cli.viewing import require_viewer, viewer


def track(
    sequence: opt.Sequence,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="folder for trajectory_Twb_tum.txt, track.npz and summary.json"
        ),
    ] = None,
    measuring: Measuring = Measuring(),
    interval: Annotated[float, typer.Option(help="time between keyframes [s]")] = 0.2,
    lag: Annotated[float, typer.Option(help="length of the smoothed window [s]")] = 3.0,
    start: opt.Start = 0.0,
    batch: Annotated[
        bool,
        typer.Option(
            "--batch", help="smooth the whole recording at once instead of tracking causally"
        ),
    ] = False,
    adapt_noise: Annotated[
        bool,
        typer.Option(
            "--adapt-noise/--no-adapt-noise",
            help="adapt the noise of vision to its innovations",
        ),
    ] = True,
    at_imu_rate: Annotated[
        bool,
        typer.Option("--at-imu-rate", help="also write states at every IMU sample"),
    ] = False,
    opening: Opening = Opening(),
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
    options = run_options(
        measuring,
        opening,
        start_s=start,
    )
    from maci2.errors import require_in_range
    from maci2.pipeline.track_recording import track_recording
    from maci2.recording_calls.track_call import scored
    from maci2.tracking import SmootherConfig
    from maci2.tracking.smoother import LAG_RANGE_S

    require_in_range("--lag", lag, *LAG_RANGE_S)
    config = SmootherConfig(lag_s=lag, adapt_visual_noise=adapt_noise)
    result = scored(
        track_recording(sequence, options, interval, config, batch, at_imu_rate=at_imu_rate)
    )
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

        choices = options.as_dict() | {"interval_s": interval, "batch": batch} | asdict(config)
        write_report(report, track_page(result, choices, command_line()))
