"""`maci2 check`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from maci2.cli import options as opt
from maci2.cli.printing import print_table, write_json

if TYPE_CHECKING:
    from maci2.diagnostics.diagnosis import Diagnosis, ImageDiagnosis


def check(
    sequence: opt.Sequence,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="page to write (HTML)")
    ] = None,
    vision: Annotated[
        str,
        typer.Option(
            help="camera motion to compare with the IMU: images (stereo visual odometry over the "
            "whole recording), trajectory:FILE (TUM format) or measurements:FILE (.npz); without "
            "it, ground truth only"
        ),
    ] = "",
    vision_frame: opt.VisionFrame = "camera",
    rig: opt.RigFile = None,
    topics: opt.Topics = "",
    json: opt.Json = None,
) -> None:
    """What is wrong with a recording and how to mend it, the most important first.

    Exit code 1 if unusable.
    """
    from maci2.diagnostics.diagnose import examine_path

    health = examine_path(sequence, rig, topics, vision, vision_frame)
    typer.echo(health.first_line)
    _print_sensors(health)
    if health.images is not None:
        _print_images(health.images)
    marks = {"ok": "ok   ", "warn": "warn ", "error": "ERROR"}
    for finding in health.findings:
        typer.echo(f"{marks[finding.level]}  {finding.what}: {finding.text}")
    write_json(json, health.as_dict())
    if output is not None:
        from maci2.files import write_atomically
        from maci2.reports.diagnostics_page import diagnostics_page

        write_atomically(output, diagnostics_page(health))
        typer.echo(f"page: {output}")
    if not health.usable:
        raise typer.Exit(1)


def _print_sensors(health: "Diagnosis") -> None:
    from maci2.diagnostics.diagnosis import SENSOR_COLUMNS

    rows = [(name, *timing.cells()) for name, timing in health.sensors]
    print_table(health.name, ("sensor", *SENSOR_COLUMNS), rows)


def _print_images(images: "ImageDiagnosis") -> None:
    from maci2.diagnostics.diagnosis import IMAGE_COLUMNS

    rows = [(f"cam{i}", *camera.cells()) for i, camera in enumerate(images.cameras)]
    print_table(f"images at {images.places} places", ("camera", *IMAGE_COLUMNS), rows)
