"""Commands that estimate: `maci2 vo`, `init`, `calibrate`, `track` and `watch`."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from maci2.cli import options as opt
from maci2.cli.command import (
    Use,
    command,
    command_line,
    print_summary,
    print_table,
    progress_bar,
    require_viewer,
    viewer,
    write_json,
    write_report,
)
from maci2.pipeline.options import (
    CalibrateOptions,
    InitOptions,
    TrackOptions,
    VoOptions,
    WatchOptions,
)
from maci2.text_tables import number

if TYPE_CHECKING:
    from maci2.pipeline.offline import InitializedRecording
    from maci2.tools.watchdog import WatchedRecording

SHOWN_REASONS = 5
"""Number of unmeasured relative poses to list with their reasons."""


@command("odometry")
def vo(
    *,
    sequence: opt.Sequence,
    output: Path = opt.output(".npz of relative poses to write", Path("poses.npz")),
    options: VoOptions,
    rerun: opt.Rerun = "",
    json: opt.Json = None,
) -> None:
    """Measure relative poses with covariances from stereo images.

    An interrupted run resumes when it is called again with the same options.
    """
    require_viewer(rerun)
    from maci2.pipeline.vo import run_vo

    with progress_bar() as on_progress:
        result = run_vo(sequence, output, options, partial(on_progress, "keyframes"))
    unmeasured = result.unmeasured
    measured = "all measured" if not unmeasured else f"{len(unmeasured)} of them not measured"
    typer.echo(f"wrote {output}: {len(result.poses)} relative poses, {measured}")
    reasons = [{"stamp_ns": pose.stamps_ns[0], "reason": pose.reason} for pose in unmeasured]
    write_json(json, {"file": str(output), "poses": len(result.poses), "unmeasured": reasons})
    for pose in unmeasured[:SHOWN_REASONS]:
        typer.echo(f"  {pose.stamps_ns[0]} ns: {pose.reason}")
    if len(unmeasured) > SHOWN_REASONS:
        typer.echo(f"  and {len(unmeasured) - SHOWN_REASONS} more")
    if rerun:
        with viewer(rerun, "vo") as shown:
            shown.show_tracks(result.odometry, result.keyframes_ns)


@command("initialize", "odometry", interpreted=True)
def init(
    *,
    sequence: opt.Sequence,
    options: InitOptions,
    report: opt.Report = None,
    rerun: opt.Rerun = "",
    json: opt.Json = None,
) -> None:
    """Estimate gravity, velocities and biases of one window.

    Also poses, and an uncertainty for each. Exit code 1 if the verdict is `failed`. Example: maci2
    init SEQ --start 12 --report init.html
    """
    require_viewer(rerun)
    from maci2.api import initialize_recording

    result = initialize_recording(sequence, **vars(options))
    if json is not None:
        write_json(json, result.to_dict())
    print_summary(result.summary(), result.verdict)
    if report is not None:
        from maci2.report.estimate_pages import init_page

        write_report(report, init_page(result, command_line()))
    if rerun:
        show(rerun, result)
    if result.verdict.status == "failed":
        raise typer.Exit(1)


def show(target: str, result: "InitializedRecording") -> None:
    """Show the window with Rerun."""
    inputs, window = result.inputs, result.window
    with viewer(target, "init") as shown:
        shown.show_initialization(result)
        if result.state is not None and result.report.time_offset_s is None:
            vision = inputs.vision.motion(window.stamps_ns, window.index)
            shown.show_residuals(result.state, vision)
            if inputs.vision.odometry is not None:
                shown.show_tracks(inputs.vision.odometry, window.stamps_ns)


@command("calibrate", "odometry")
def calibrate(
    *,
    sequence: opt.Sequence,
    output: Path | None = opt.output("Kalibr camchain-imucam YAML to write"),
    options: CalibrateOptions,
    report: opt.Report = None,
    rerun: opt.Rerun = "",
    json: opt.Json = None,
) -> None:
    """Estimate camera-IMU extrinsics and time offset from motion.

    Needs no target and no initial guess. Exit code 1 if the verdict is `failed`; the YAML is then
    not written. Example: maci2 calibrate SEQ -o camchain-imucam.yaml
    """
    require_viewer(rerun)
    from maci2.api import calibrate_recording

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
        from maci2.report.estimate_pages import calibration_page

        write_report(report, calibration_page(result, command_line()))
    if failed:
        raise typer.Exit(1)


@command("initialize", "odometry", "chain")
def track(
    *,
    sequence: opt.Sequence,
    output: Path | None = opt.output(
        "folder for trajectory_Twb_tum.txt, track.npz and summary.json", use=Use.FOLDER
    ),
    options: TrackOptions,
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
    from maci2.api import track_recording

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
        from maci2.report.estimate_pages import track_page

        own = ("interval_s", "lag_s", "batch", "adapt_noise")
        choices = {name: getattr(options, name) for name in own}
        choices = result.inputs.options.as_dict() | choices
        write_report(report, track_page(result, choices, command_line()))


@command("initialize", "chain")
def watch(
    *,
    sequence: opt.Sequence,
    options: WatchOptions,
    output: Path | None = opt.output(
        "folder for watch.json and states to restart from", use=Use.FOLDER
    ),
    json: opt.Json = None,
) -> None:
    """Detect with the IMU when another odometry fails.

    Raises alarms for scale changes, jumps, tilts and stalls. Each has a time, a size, a
    significance in standard deviations of the odometry's noise, and a state to restart from: that
    before the fault, propagated by the IMU.
    """
    from maci2.api import watch_recording
    from maci2.tools.watchdog.watched_recording import watch_summary, write_watch

    watched = watch_recording(sequence, **vars(options))
    _print_alarms(watched)
    write_json(json, watch_summary(watched))
    if output is not None:
        for path in write_watch(watched, output):
            typer.echo(f"wrote {path}")
    if watched.watched_s == 0.0 and not watched.alarms:
        raise typer.Exit(1)


def _print_alarms(watched: "WatchedRecording") -> None:
    from maci2.tools.watchdog.watched_recording import alarm_size

    length_s = (watched.end_ns - watched.start_ns) / 1e9
    typer.echo(
        f"{watched.inputs.recording.name}: {len(watched.alarms)} alarms in {watched.watched_s:.1f} "
        f"s watched of {length_s:.1f} s"
    )
    rows = []
    for alarm in watched.alarms:
        size, unit = alarm_size(alarm)
        stamps_ns = (alarm.onset_ns, alarm.stamp_ns)
        times = (number((stamp_ns - watched.start_ns) / 1e9, 2) for stamp_ns in stamps_ns)
        rows.append((alarm.fault, *times, f"{number(size, 3)} {unit}", number(alarm.sigmas, 1)))
    if rows:
        print_table("alarms", ("fault", "onset [s]", "detected [s]", "size", "sigmas"), rows)
    for note in watched.notes:
        typer.echo(f"not compared: {note}")
