"""Commands that examine recordings: `maci2 check`, `truth` and `noise`."""

from contextlib import suppress
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from maci2.cli import options as opt
from maci2.cli.command import Use, command, command_line, print_table, write_json, write_report
from maci2.errors import Maci2Error, OptionError
from maci2.pipeline.options import (
    CheckOptions,
    Measuring,
    Opening,
    RunOptions,
    option,
    option_of,
)

if TYPE_CHECKING:
    from maci2.tools.imu_noise.run import MeasuredImu


@command("initialize", "odometry", "chain", default_vision="none")
def check(
    *,
    sequence: opt.Sequence,
    output: Path | None = opt.output("HTML report to write"),
    options: CheckOptions,
    json: opt.Json = None,
) -> None:
    """Check a recording; say what is wrong and how to fix it.

    The most important finding comes first. Exit code 1 if the recording is unusable. Example: maci2
    check SEQ -o check.html
    """
    from maci2.api import check_recording
    from maci2.tools.diagnostics.diagnosis import IMAGE_COLUMNS, SENSOR_COLUMNS

    diagnosis = check_recording(sequence, **vars(options))
    typer.echo(diagnosis.first_line)
    rows = [(name, *timing.cells()) for name, timing in diagnosis.sensors]
    print_table(diagnosis.name, ("sensor", *SENSOR_COLUMNS), rows)
    if diagnosis.images is not None:
        rows = [(f"cam{i}", *one.cells()) for i, one in enumerate(diagnosis.images.cameras)]
        title = f"images, sampled at {diagnosis.images.places} places"
        print_table(title, ("camera", *IMAGE_COLUMNS), rows)
    marks = {"ok": "ok   ", "warn": "warn ", "error": "ERROR"}
    for finding in diagnosis.findings:
        typer.echo(f"{marks[finding.level]}  {finding.what}: {finding.text}")
    write_json(json, diagnosis.as_dict())
    if output is not None:
        from maci2.report.recording_pages import diagnostics_page

        recording = None
        with suppress(Maci2Error):  # the page of a recording that cannot be opened has no plots
            recording = options.open(sequence)
        write_report(output, diagnostics_page(diagnosis, recording, command_line()))
    if not diagnosis.usable:
        raise typer.Exit(1)


@command("chain")
def truth(
    *,
    sequence: opt.Sequence,
    output: Path = opt.output("folder to write: data.csv, covariance.npz, ...", MISSING),
    source: str = option(
        "",
        "source to audit: vicon0 (raw poses), leica0 (raw positions), the name of a ground truth, "
        "or trajectory:FILE (TUM format, poses of the body)  [default: the first ground truth of "
        "the recording]",
        "--from",
    ),
    inside: bool = option(False, "allow the output folder to be inside the recording"),
    opening: Opening,
    report: opt.Report = None,
    json: opt.Json = None,
) -> None:
    """Audit ground truth with the IMU and give it covariances.

    Estimates clock, axes, tilt and noise of the source together with all states of the IMU, and
    reports the errors of the source.
    """
    from maci2.files import require_new_folder
    from maci2.tools.ground_truth.audit import audit_ground_truth
    from maci2.tools.ground_truth.audit_files import audit_record, require_outside, write_audit
    from maci2.tools.ground_truth.choose import beside_raw_capture
    from maci2.tools.ground_truth.comparison import compare_with_published

    require_outside(output, sequence, inside)
    require_new_folder(output)
    recording = opening.open(sequence)
    audit = beside_raw_capture(recording, audit_ground_truth(recording, source))
    compared = compare_with_published(audit.truth, recording.truths)
    record = audit_record(audit, compared)
    for finding in audit.findings:
        typer.echo(f"{finding.what}: {finding.text}")
    for one in compared:
        typer.echo(one.sentence())
    median = record["median_std"]
    typer.echo(
        f"{record['rows']} states, typically {median['rotation_deg']:.3f} deg, "
        f"{1e3 * median['velocity']:.1f} mm/s, {1e3 * median['position']:.1f} mm (1 sigma)"
    )
    write_audit(audit, output, compared)
    write_json(json, record)
    typer.echo(f"wrote {output}")
    if report is not None:
        from maci2.report.recording_pages import truth_page

        write_report(report, truth_page(audit, recording, command_line()))


@dataclass(frozen=True)
class Reference:
    """Motion that the IMU is compared with."""

    vision: str = option(
        "",
        "compare the IMU with camera motion (images, trajectory:FILE, measurements:FILE) instead "
        "of ground truth",
    )
    source: str = option(
        "",
        "motion capture or ground truth to compare with: vicon0, leica0, the name of a ground "
        "truth, or trajectory:FILE  [default: the first ground truth found]",
        "--from",
    )
    vision_frame: str = option_of(Measuring, "vision_frame")
    vision_std: str | None = option_of(Measuring, "vision_std")
    vision_scale_std: float | None = option_of(Measuring, "vision_scale_std")


@command()
def noise(
    *,
    sequences: opt.Sequences,
    output: Path | None = opt.output("Kalibr imu.yaml to write"),
    reference: Reference,
    tools: Path | None = option(
        None, "folder for calibration files of all other tools, with this noise", use=Use.FOLDER
    ),
    test: list[Path] | None = option(
        None,
        "recording to score integration errors on, with the noise of the data sheet and with the "
        "measured noise; may be given several times  [default, with --report or --json: the "
        "recordings themselves]",
    ),
    window: float = option(60.0, "length of the part of each recording to use [s]"),
    start: float = option_of(Measuring, "start_s"),
    opening: Opening,
    report: opt.Report = None,
    json: opt.Json = None,
) -> None:
    """Measure the noise of an IMU from recordings in motion.

    Estimates noise densities and random walks with standard deviations, by maximum likelihood over
    all states, and compares them with the Allan deviation of a section without motion, the
    roughness of the samples and the data sheet. Use the JSON with `--imu noise:FILE`.
    """
    from maci2.tools.imu_noise.run import measure_noise, noise_record, write_tools

    options = None
    if reference.vision:
        choices = {name: value for name, value in vars(reference).items() if name != "source"}
        options = RunOptions.of(opening, **choices, window_s=window, start_s=start)
    elif start != 0.0:
        raise OptionError(
            f"--start is {start:g}, but without --vision the middle of the recording is compared "
            "with motion capture or ground truth; give --window alone."
        )
    checked = report is not None or json is not None
    measured = measure_noise(
        sequences, options, reference.source, window, opening.open, test or (), checked
    )
    write_json(json, noise_record(measured))
    print_noise(measured)
    if output is not None:
        from maci2.rigs.kalibr import write_imu_yaml

        write_imu_yaml(output, measured.estimate.pooled(measured.stated.rate_hz), None)
        typer.echo(f"wrote {output}")
    if tools is not None:
        for path in write_tools(measured, tools):
            typer.echo(f"wrote {path}")
    if report is not None:
        from maci2.report.recording_pages import noise_page

        write_report(report, noise_page(measured, command_line()))


def print_noise(measured: "MeasuredImu") -> None:
    """Print the noise by all methods, and the findings."""
    from maci2.text_tables import table_text
    from maci2.tools.imu_noise.run import noise_remarks, noise_rows

    columns = ["noise per sqrt(Hz)", "in motion", "1-sigma", "stationary", "roughness", "stated"]
    title = f"{', '.join(measured.recordings)}: {measured.seconds:.0f} s against {measured.source}"
    typer.echo(table_text(title, columns, noise_rows(measured)))
    for remark in noise_remarks(measured):
        typer.echo(remark)
    if measured.checks:
        from maci2.tools.imu_noise.consistency import CHECK_COLUMNS, check_rows

        title = "NEES of integration errors per degree of freedom, 1 is ideal"
        typer.echo(table_text(title, CHECK_COLUMNS, check_rows(measured.checks)))
