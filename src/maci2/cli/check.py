"""`maci2 check`."""

import typer

from maci2.cli import options as opt
from maci2.cli.printing import print_table, write_json


def check(
    sequence: opt.Sequence,
    rig: opt.RigFile = None,
    topics: opt.Topics = "",
    json: opt.Json = None,
) -> None:
    """What a recording holds, what is wrong with it and how to mend it; exit code 1 if unusable."""
    from maci2.evaluation.doctor import examine
    from maci2.sensors import open_recording

    health = examine(open_recording(sequence, rig, topics))
    sensors = [("imu", health.imu)]
    sensors += [(f"cam{i}", timing) for i, timing in enumerate(health.cameras)]
    print_table(
        health.name,
        ("sensor", "samples", "seconds", "rate [Hz]", "jitter [%]", "gaps", "longest step [ms]"),
        [
            (
                name,
                str(timing.samples),
                f"{timing.duration_s:.1f}",
                f"{timing.rate_hz:.1f}",
                f"{timing.jitter_pct:.2f}",
                str(timing.gaps),
                f"{1e3 * timing.longest_step_s:.1f}",
            )
            for name, timing in sensors
        ],
    )
    marks = {"ok": "ok   ", "warn": "warn ", "error": "ERROR"}
    for finding in health.findings:
        typer.echo(f"{marks[finding.level]}  {finding.what}: {finding.text}")
    write_json(json, health.as_dict())
    if not health.usable:
        raise typer.Exit(1)
