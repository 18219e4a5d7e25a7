"""`maci2 truth`."""

from pathlib import Path
from typing import Annotated

import typer

from maci2.cli import options as opt
from maci2.cli.json_output import write_json
from maci2.cli.printing import command_line, write_report
from maci2.pipeline.option_list import Opening


def truth(
    sequence: opt.Sequence,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="folder to write: data.csv, covariance.npz, ...")
    ],
    source: Annotated[
        str,
        typer.Option(
            "--from",
            help="source to audit: vicon0 (raw poses), leica0 (raw positions), the name of a "
            "ground truth, or trajectory:FILE (TUM format, poses of the body)  [default: the first "
            "ground truth of the recording]",
        ),
    ] = "",
    inside: Annotated[
        bool, typer.Option("--inside", help="allow the output folder to be inside the recording")
    ] = False,
    opening: Opening = Opening(),
    report: opt.Report = None,
    json: opt.Json = None,
) -> None:
    """Audit ground truth with the IMU and give it covariances.

    Estimates clock, axes, tilt and noise of the source together with all states of the IMU, and
    reports the errors of the source.
    """
    from maci2.files import require_new_folder
    from maci2.ground_truth.audit import audit_ground_truth
    from maci2.ground_truth.audit_files import audit_record, require_outside, write_audit
    from maci2.ground_truth.choose import beside_raw_capture
    from maci2.ground_truth.comparison import compare_with_published

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
        from maci2.reports.truth_page import truth_page

        write_report(report, truth_page(audit, recording, command_line()))
