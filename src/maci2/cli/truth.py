"""`maci2 truth`."""

from pathlib import Path
from typing import Annotated

import typer

from maci2.cli import options as opt
from maci2.cli.option_groups import Opening
from maci2.cli.printing import write_json


def truth(
    sequence: opt.Sequence,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="folder to write: data.csv, covariance.npz, ...")
    ],
    source: Annotated[
        str,
        typer.Option(
            "--from",
            help="what to audit: vicon0 (raw poses), leica0 (raw positions), a ground truth's "
            "name, or trajectory:FILE (TUM format, poses of the body); by default the recording's "
            "first ground truth",
        ),
    ] = "",
    inside: Annotated[
        bool, typer.Option("--inside", help="allow a folder inside the recording")
    ] = False,
    opening: Opening = Opening(),
    json: opt.Json = None,
) -> None:
    """Audited ground truth with covariance, and what is wrong with the published one.

    Clock, axes, tilt and noise of the source are estimated together with all states of the IMU.
    """
    from maci2.files import require_new_folder
    from maci2.ground_truth.audit import audit_ground_truth
    from maci2.ground_truth.audit_files import audit_record, require_outside, write_audit

    require_outside(output, sequence, inside)
    require_new_folder(output)
    audit = audit_ground_truth(opening.open(sequence), source)
    record = audit_record(audit)
    for finding in audit.findings:
        typer.echo(f"{finding.what}: {finding.text}")
    median = record["median_std"]
    typer.echo(
        f"{record['rows']} states, typically {median['rotation_deg']:.3f} deg, "
        f"{1e3 * median['velocity']:.1f} mm/s, {1e3 * median['position']:.1f} mm (1 sigma)"
    )
    write_audit(audit, output)
    write_json(json, record)
    typer.echo(f"wrote {output}")
