"""`maci2 track`."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maci2.cli import options as opt
from maci2.cli.json_output import write_json
from maci2.cli.option_groups import Measuring, Opening, run_options
from maci2.cli.printing import command_line, number, print_table
from maci2.cli.viewing import require_viewer, viewer

if TYPE_CHECKING:
    from maci2.evaluation.track_errors import TrackErrors


def track(
    sequence: opt.Sequence,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="folder for trajectory_Twb_tum.txt, track.npz and summary.json"
        ),
    ] = None,
    measuring: Measuring = Measuring(),
    interval: Annotated[float, typer.Option(help="from keyframe to keyframe [s]")] = 0.2,
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
            help="scale the visual noise by what its innovations show",
        ),
    ] = True,
    at_imu_rate: Annotated[
        bool,
        typer.Option("--at-imu-rate", help="write states at every IMU sample, too"),
    ] = False,
    opening: Opening = Opening(),
    report: opt.Report = None,
    rerun: opt.Rerun = "",
    json: opt.Json = None,
) -> None:
    """Visual-inertial odometry, with covariances.

    States at every image, from initialization on. Poses are those of the IMU in a world whose z
    axis points up and whose origin is the IMU's place at the first keyframe. Each state knows only
    what came before it, unless --batch.
    """
    require_viewer(rerun)
    options = run_options(
        measuring,
        opening,
        start_s=start,
    )
    from maci2.errors import require_in_range
    from maci2.estimation.result_output import verdict_text
    from maci2.evaluation.track_errors import track_errors
    from maci2.pipeline.track_files import raw_biases, track_summary, write_track
    from maci2.pipeline.track_recording import track_recording
    from maci2.tracking import SmootherConfig
    from maci2.tracking.smoother import LAG_RANGE_S

    require_in_range("--lag", lag, *LAG_RANGE_S)
    config = SmootherConfig(lag_s=lag, adapt_visual_noise=adapt_noise)
    tracked = track_recording(sequence, options, interval, config, batch, at_imu_rate=at_imu_rate)
    known = tracked.inputs.truth
    errors = None
    if known is not None:
        errors = track_errors(
            tracked.track.states, raw_biases(tracked)[0], known, tracked.track.origins
        )
    summary = track_summary(tracked)
    if errors is not None:
        summary["errors"] = errors.as_dict()
    _print(summary, errors)
    typer.echo(verdict_text(tracked.track.verdict))
    write_json(json, summary)
    if output is not None:
        for path in write_track(tracked, output, summary):
            typer.echo(f"wrote {path}")
    if rerun:
        with viewer(rerun, f"track {tracked.inputs.recording.name}") as shown:
            shown.show_path(tracked.track.states)
    if report is not None:
        from maci2.files import write_atomically
        from maci2.reports.track_page import track_page

        choices = options.as_dict() | {"interval_s": interval, "batch": batch} | asdict(config)
        write_atomically(report, track_page(tracked, errors, choices, command_line()))
        typer.echo(f"wrote {report}")


def _print(summary: dict[str, Any], errors: "TrackErrors | None") -> None:
    duration_s = (summary["end_ns"] - summary["start_ns"]) / 1e9
    health = ", ".join(f"{name} {count}" for name, count in summary["health"].items())
    typer.echo(
        f"{summary['recording']}: {summary['states']} states over {duration_s:.1f} s and "
        f"{summary['length_m']:.1f} m; {health}; of {summary['keyframes']} relative poses "
        f"{summary['unmeasured']} unmeasured, {summary['rejected']} rejected, "
        f"{summary['second_motions']} the motion of fewer matches"
    )
    spent = summary["processor_ms"]
    typer.echo(
        f"processor time: {spent['vision_per_image']:.1f} ms an image for vision, "
        f"{spent['smoothing_per_keyframe']:.1f} ms a keyframe for start and smoothing"
    )
    std = summary["last_std"]
    rows = [
        ("rotation [deg]", *(number(value, 3) for value in std["rotation_deg"])),
        ("velocity [m/s]", *(number(value, 4) for value in std["velocity"])),
        ("position [m]", *(number(value, 3) for value in std["position_m"])),
        ("gyro bias [rad/s]", *(number(value, 5) for value in std["gyro_bias"])),
        ("acc bias [m/s^2]", *(number(value, 4) for value in std["acc_bias"])),
    ]
    print_table("1-sigma of the last state", ("", "x", "y", "z"), rows)
    if errors is None:
        return
    relative = errors.relative_m
    print_table(
        "against ground truth",
        (
            "ATE [m]",
            *(f"{h:g} s [m]" for h in relative),
            "gravity [deg]",
            "velocity [m/s]",
            "scale",
        ),
        [
            (
                number(errors.ate_m, 4),
                *(number(rms, 4) for rms, _ in relative.values()),
                number(errors.gravity_deg, 3),
                number(errors.velocity_rmse, 4),
                number(errors.scale, 4),
            )
        ],
    )
