"""`maci2 imu-report`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from maci2.cli import options as opt
from maci2.cli.json_output import write_json
from maci2.cli.printing import print_table
from maci2.pipeline.option_list import Opening


def imu_report(
    sequences: opt.Sequences,
    imu: Annotated[
        list[str] | None,
        typer.Option(
            help="IMU model as in `maci2 init`; may be given several times  [default: euroc or "
            "tumvi]"
        ),
    ] = None,
    baselines: Annotated[
        bool,
        typer.Option(
            "--baselines/--no-baselines",
            help="compare with bundled variants of each model and with data-sheet noise",
        ),
    ] = True,
    rivals: opt.Rivals = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="folder for report.json and figures")
    ] = None,
    truth: opt.Truth = "",
    opening: Opening = Opening(),
    bins: Annotated[int, typer.Option(help="equally filled bins of predicted sigma")] = 6,
    json: opt.Json = None,
) -> None:
    """Check that covariances of an IMU model are consistent.

    Reports integration errors, NEES and bins of predicted against actual error, with baselines.
    """
    from maci2.errors import require_in_range
    from maci2.evaluation.imu_report import TRUTHS, choose_predictors
    from maci2.evaluation.imu_report import imu_report as run
    from maci2.evaluation.protocol import distinct_names
    from maci2.ground_truth.choose import require_known_truths, with_audited
    from maci2.pipeline.options import as_names

    require_in_range("--bins", bins, 1, 1000)
    truths = as_names(truth) or TRUTHS
    opened = [opening.open(path) for path in sequences]
    require_known_truths(opened, as_names(truth))
    recordings = [with_audited(recording, truths) for recording in opened]
    names = distinct_names([recording.name for recording in recordings], sequences)
    predictors = choose_predictors(recordings, imu or [], opt.with_baselines(baselines, rivals))
    report = run(recordings, predictors, bins=bins, names=names, truth_names=truths, audit=True)
    print_report(report)
    write_json(json, report)
    if output is not None:
        from maci2.reports.imu_figures import plot_figures

        write_json(output / "report.json", report)
        for path in plot_figures(report, output):
            typer.echo(f"wrote {path}")


def print_report(report: dict[str, Any]) -> None:
    """NEES and rms per recording, then bins, against the ground truth as published and audited."""
    _print_scores(report, "against the ground truth as published")
    if report["audited"]["average"] is not None:
        _print_scores(
            report["audited"], "against the audited ground truth, covariance of the difference"
        )
    for name, numbers in report["sequences"].items():
        left_out = ", ".join(f"{n} at {h} s" for h, n in numbers["windows_left_out"].items())
        typer.echo(
            f"{name}: {numbers['truth_jumps']} jumps and {numbers['truth_gaps']} gaps of the "
            "ground truth; "
            f"windows rejected: {left_out}"
        )


def _print_scores(report: dict[str, Any], judge: str) -> None:
    """NEES, rms and bins against one kind of ground truth."""
    summaries = [(name, numbers["models"]) for name, numbers in report["sequences"].items()]
    summaries.append(("average", report["average"]))
    horizons = list(next(iter(report["average"].values()))["nees"])
    columns = [f"{part[:3]} {h}" for h in horizons for part in ("rotation", "velocity", "position")]
    for quantity, title, scales in (
        ("nees", "NEES per degree of freedom, 1 is ideal", (1.0, 1.0, 1.0)),
        ("rms", "rms error [deg, mm/s, mm]", (57.29578, 1e3, 1e3)),
    ):
        rows = []
        for name, models in summaries:
            for model, numbers in models.items():
                values = [
                    f"{scale * value:.3g}"
                    for h in horizons
                    for scale, value in zip(scales, numbers[quantity][h].values(), strict=True)
                ]
                rows.append((f"{name} {model}", *values))
        print_table(f"{title}, {judge}", ("recording, model", *columns), rows)
    rows = []
    for model, by_horizon in report["bins"].items():
        for h, parts in by_horizon.items():
            for part, filled in parts.items():
                ratios = " ".join(f"{group['ratio']:.2f}" for group in filled)
                rows.append((f"{model} {part} {h} s", ratios))
    title = f"rms error / predicted in equally filled bins of predicted sigma, {judge}"
    print_table(title, ("", ""), rows)
