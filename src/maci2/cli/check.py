"""`maci2 check`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from maci2.cli import options as opt
from maci2.cli.json_output import write_json
from maci2.cli.printing import command_line, print_table, write_report
from maci2.pipeline.option_list import CheckOptions, Opening

if TYPE_CHECKING:
    from maci2.diagnostics.diagnosis import Diagnosis, ImageDiagnosis
    from maci2.sensors import Recording


def check(
    sequence: opt.Sequence,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="HTML report to write")
    ] = None,
    options: CheckOptions = CheckOptions(),
    json: opt.Json = None,
) -> None:
    """Check a recording; say what is wrong and how to fix it.

    The most important finding comes first. Exit code 1 if the recording is unusable. Example: maci2
    check SEQ -o check.html
    """
    from maci2.recording_calls.check_call import check_recording

    diagnosis = check_recording(sequence, **vars(options))
    typer.echo(diagnosis.first_line)
    _print_sensors(diagnosis)
    if diagnosis.images is not None:
        _print_images(diagnosis.images)
    marks = {"ok": "ok   ", "warn": "warn ", "error": "ERROR"}
    for finding in diagnosis.findings:
        typer.echo(f"{marks[finding.level]}  {finding.what}: {finding.text}")
    write_json(json, diagnosis.as_dict())
    if output is not None:
        from maci2.reports.diagnostics_page import diagnostics_page

        recording = _opened(sequence, options)
        write_report(output, diagnostics_page(diagnosis, recording, command_line()))
    if not diagnosis.usable:
        raise typer.Exit(1)


def _opened(sequence: Path, opening: Opening) -> "Recording | None":
    """Recording opened again for the plots; None if that fails."""
    from maci2.errors import Maci2Error

    try:
        return opening.open(sequence)
    except Maci2Error:
        return None


def _print_sensors(diagnosis: "Diagnosis") -> None:
    from maci2.diagnostics.diagnosis import SENSOR_COLUMNS

    rows = [(name, *timing.cells()) for name, timing in diagnosis.sensors]
    print_table(diagnosis.name, ("sensor", *SENSOR_COLUMNS), rows)


def _print_images(images: "ImageDiagnosis") -> None:
    from maci2.diagnostics.diagnosis import IMAGE_COLUMNS

    rows = [(f"cam{i}", *camera.cells()) for i, camera in enumerate(images.cameras)]
    print_table(f"images, sampled at {images.places} places", ("camera", *IMAGE_COLUMNS), rows)
