"""`maci2 evaluate`."""

from itertools import count
from pathlib import Path
from typing import Annotated, Any

import typer

from maci2.cli import options as opt
from maci2.cli.json_output import write_json
from maci2.cli.printing import print_table, progress_bar
from maci2.pipeline.option_list import EvaluateOptions
from maci2.text_tables import number

SCORES = ("gravity", "velocity", "gyro_bias", "pose")
ERROR_COLUMNS = (
    "recording", "n", "SR", "gravity", "velocity", "bias", "|bias|", "rotation", "position",
)  # fmt: skip


def evaluate(
    sequences: opt.Sequences,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="folder for summary.json and rows.json")
    ] = None,
    options: EvaluateOptions = EvaluateOptions(),
    jobs: opt.Jobs = 1,
    backend: opt.Backend = "local",
    scheduler: opt.Scheduler = "",
    json: opt.Json = None,
) -> None:
    """Initialize on every window and compare with ground truth.

    Uses the paper's protocol and reports errors, NEES and verdicts.
    """
    from maci2.evaluation.protocol import evaluate as run
    from maci2.evaluation.summary import evaluation_json
    from maci2.pipeline.options import RunOptions

    chosen = RunOptions.of(options)
    with progress_bar() as on_progress:
        done = count(1)
        pool = opt.pool(jobs, backend, scheduler)
        results = run(
            sequences, chosen, pool, lambda name, _: on_progress(name, next(done), len(sequences))
        )
    summary = evaluation_json(results, chosen)
    write_json(json, summary)
    if output is not None:
        write_json(output / "summary.json", summary)
        rows = [
            {"sequence": name, **row.as_dict()}
            for name, evaluated in results.items()
            for row in evaluated.rows
        ]
        write_json(output / "rows.json", {"rows": rows})
    print_summary(summary)
    if output is not None:
        typer.echo(f"wrote {output / 'summary.json'}")


def print_summary(summary: dict[str, Any]) -> None:
    """Print one line per recording, then the mean over recordings."""
    protocol = summary["protocol"]
    title = (
        f"IMU {protocol['imu']}{' (paper)' if protocol['paper'] else ''}, vision "
        f"{protocol['vision']}, {protocol['keyframes']} keyframes in {protocol['window_s']:g} s "
        f"every {protocol['stride_s']:g} s"
    )
    summaries = [*summary["sequences"].items(), ("average", summary["average"])]
    print_table(
        title,
        ERROR_COLUMNS,
        [_errors(name, numbers) for name, numbers in summaries],
    )
    typer.echo(
        "n: windows; SR: success rate; gravity and rotation [deg], velocity [m/s rms], "
        "position [m]; gyroscope bias [%]:\nnorm of the error, and error of the norm (the paper's)"
    )
    print_table(
        "NEES per degree of freedom against the published ground truth (1 is ideal), verdicts, "
        "time of a solve",
        ("recording", "gravity", "velocity", "bias", "pose", "ok", "weak", "failed", "[ms]"),
        [_consistency(name, numbers) for name, numbers in summaries],
    )
    _print_audited(summary["audited"])
    rows = [
        (f"{judge}, {quantity}", *(_quartile(quartile) for quartile in quartiles))
        for judge, part in (("as published", summary), ("audited", summary["audited"]))
        for quantity, quartiles in part["quartiles"].items()
    ]
    if rows:
        print_table(
            "By quartile of the predicted sigma: NEES, % of errors inside the 95 % ellipsoid",
            ("", "smallest", "second", "third", "largest"),
            rows,
        )


def _print_audited(audited: dict[str, Any]) -> None:
    """Print errors and NEES against the audited ground truth."""
    if audited["average"] is None:
        return
    summaries = [*audited["sequences"].items(), ("average", audited["average"])]
    print_table(
        "Against the audited ground truth, whose covariance is part of the NEES",
        (
            "recording", "SR", "gravity", "velocity", "rotation", "position",
            "NEES gravity", "velocity", "bias", "pose",
        ),
        [
            (
                name,
                number(numbers["success_rate"]),
                number(numbers["gravity_deg"]),
                number(numbers["velocity_rmse"], 4),
                number(numbers["rotation_deg"]),
                number(numbers["translation_m"], 4),
                *(number(numbers["nees"][key], 2) for key in SCORES),
            )
            for name, numbers in summaries
        ],
    )  # fmt: skip


def _quartile(quartile: dict[str, Any]) -> str:
    return f"{number(quartile['nees'], 2)}, {100.0 * quartile['covered']:.0f}"


def _errors(name: str, numbers: dict[str, Any]) -> tuple[str, ...]:
    return (
        name,
        str(numbers["segments"]),
        number(numbers["success_rate"]),
        number(numbers["gravity_deg"]),
        number(numbers["velocity_rmse"], 4),
        number(numbers["gyro_bias_pct"], 2),
        number(numbers["gyro_bias_norm_pct"], 2),
        number(numbers["rotation_deg"]),
        number(numbers["translation_m"], 4),
    )


def _consistency(name: str, numbers: dict[str, Any]) -> tuple[str, ...]:
    scores = (number(numbers["nees"][key], 2) for key in SCORES)
    counts = (str(numbers["verdicts"][key]["count"]) for key in ("ok", "weak", "failed"))
    return (name, *scores, *counts, number(numbers["solve_ms"], 1))
