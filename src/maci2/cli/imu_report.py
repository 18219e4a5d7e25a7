"""`maci2 imu-report`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from maci2.cli import options as opt
from maci2.cli.printing import print_table, write_json


def imu_report(
    sequences: opt.Sequences,
    imu: Annotated[
        list[str] | None,
        typer.Option(help="model, bundled or a file; several times  [default: euroc or tumvi]"),
    ] = None,
    rivals: Annotated[
        bool, typer.Option("--rivals/--no-rivals", help="bundled rivals of each model beside it")
    ] = True,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="folder for report.json and figures")
    ] = None,
    rig: opt.RigFile = None,
    topics: opt.Topics = "",
    bins: Annotated[int, typer.Option(help="equally filled bins of predicted sigma")] = 6,
    json: opt.Json = None,
) -> None:
    """Are the IMU's covariances true? Integration errors, NEES, bins on y = x, rivals beside."""
    from maci2.datasets import open_recording
    from maci2.evaluation.imu_report import choose_predictors
    from maci2.evaluation.imu_report import imu_report as run

    recordings = [open_recording(path, rig, topics) for path in sequences]
    report = run(recordings, choose_predictors(recordings, imu or [], rivals), bins=bins)
    print_report(report)
    write_json(json, report)
    if output is not None:
        from maci2.reports.imu_figures import plot_figures

        write_json(output / "report.json", report)
        for path in plot_figures(report, output):
            typer.echo(f"wrote {path}")


def print_report(report: dict[str, Any]) -> None:
    """NEES and rms per recording, then bins."""
    found = [(name, one["models"]) for name, one in report["sequences"].items()]
    found.append(("average", report["average"]))
    horizons = list(next(iter(report["average"].values()))["nees"])
    columns = [f"{part[:3]} {h}" for h in horizons for part in ("rotation", "velocity", "position")]
    for quantity, title, scales in (
        ("nees", "NEES per degree of freedom, 1 is right", (1.0, 1.0, 1.0)),
        ("rms", "rms error [deg, mm/s, mm]", (57.29578, 1e3, 1e3)),
    ):
        rows = []
        for name, models in found:
            for model, numbers in models.items():
                values = [
                    f"{scale * value:.3g}"
                    for h in horizons
                    for scale, value in zip(scales, numbers[quantity][h].values(), strict=True)
                ]
                rows.append((f"{name} {model}", *values))
        print_table(title, ("recording, model", *columns), rows)
    rows = []
    for model, by_horizon in report["bins"].items():
        for h, parts in by_horizon.items():
            for part, found_bins in parts.items():
                ratios = " ".join(f"{one['ratio']:.2f}" for one in found_bins)
                rows.append((f"{model} {part} {h} s", ratios))
    print_table("rms error / predicted in equally filled bins of predicted sigma", ("", ""), rows)
    for name, one in report["sequences"].items():
        left_out = ", ".join(f"{n} at {h} s" for h, n in one["windows_left_out"].items())
        typer.echo(
            f"{name}: {one['truth_jumps']} jumps and {one['truth_gaps']} gaps of the truth; "
            f"windows left out: {left_out}"
        )
