"""`maci2 watch`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from maci2.cli import options as opt
from maci2.cli.json_output import write_json
from maci2.cli.printing import print_table
from maci2.errors import OptionError
from maci2.pipeline.option_list import Opening
from maci2.text_tables import number

if TYPE_CHECKING:
    from maci2.watchdog import WatchedRecording


def watch(
    sequence: opt.Sequence,
    odometry: Annotated[
        str, typer.Option(help="trajectory of the odometry (TUM format), in any world frame")
    ],
    frame: Annotated[
        str, typer.Option(help="frame of the poses: body (the IMU), camera or rectified")
    ] = "body",
    imu: opt.Imu = "raw",
    std: Annotated[
        str | None,
        typer.Option(
            "--odometry-std",
            help="ROT_DEG,TRANS_M[,SHARE]: noise (1 sigma) of its relative poses; SHARE of their "
            "length is added  [default: 0.05,0.003,0.015]",
        ),
    ] = None,
    scale_std: opt.VisionScaleStd = None,
    interval: Annotated[float, typer.Option(help="time between keyframes [s]")] = 0.2,
    sigmas: Annotated[float, typer.Option(help="alarm beyond this many standard deviations")] = 6.5,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="folder for watch.json and states to restart from"),
    ] = None,
    opening: Opening = Opening(),
    json: opt.Json = None,
) -> None:
    """Detect with the IMU when another odometry fails.

    Raises alarms for scale changes, jumps, tilts and stalls. Each has a time, a size, a
    significance in standard deviations of the odometry's noise, and a state to restart from: that
    before the fault, propagated by the IMU.
    """
    if frame not in ("body", "camera", "rectified"):
        raise OptionError(f"--frame is '{frame}'; choose body, camera or rectified.")
    from maci2.pipeline.options import RunOptions, parse_pose_std

    parse_pose_std(std, "--odometry-std")
    options = RunOptions.of(
        opening,
        vision=f"trajectory:{odometry}",
        imu=imu,
        vision_frame="camera" if frame == "body" else frame,
        vision_std=std,
        vision_scale_std=scale_std,
    )
    from maci2.watchdog import WatchdogConfig, watch_recording
    from maci2.watchdog.watched_recording import watch_summary, write_watch

    watched = watch_recording(
        sequence, options, interval, frame == "body", WatchdogConfig(sigmas=sigmas)
    )
    _print(watched)
    write_json(json, watch_summary(watched))
    if output is not None:
        for path in write_watch(watched, output):
            typer.echo(f"wrote {path}")
    if watched.watched_s == 0.0 and not watched.alarms:
        raise typer.Exit(1)


def _print(watched: "WatchedRecording") -> None:
    from maci2.watchdog.watched_recording import alarm_size

    length_s = (watched.end_ns - watched.start_ns) / 1e9
    typer.echo(
        f"{watched.inputs.recording.name}: {len(watched.alarms)} alarms in {watched.watched_s:.1f} "
        f"s watched of {length_s:.1f} s"
    )
    rows = []
    for alarm in watched.alarms:
        size, unit = alarm_size(alarm)
        rows.append(
            (
                alarm.fault,
                number((alarm.onset_ns - watched.start_ns) / 1e9, 2),
                number((alarm.stamp_ns - watched.start_ns) / 1e9, 2),
                f"{number(size, 3)} {unit}",
                number(alarm.sigmas, 1),
            )
        )
    if rows:
        print_table("alarms", ("fault", "onset [s]", "detected [s]", "size", "sigmas"), rows)
    for note in watched.notes:
        typer.echo(f"not compared: {note}")
