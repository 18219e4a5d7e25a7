"""Commands that score against ground truth: `maci2 evaluate`, `imu-report` and `vo-report`."""

from itertools import count
from pathlib import Path
from typing import Annotated, Any

import typer

from maci2.cli import options as opt
from maci2.cli.command import Use, command, print_table, progress_bar, write_json
from maci2.pipeline.options import EvaluateOptions, Measuring, Opening, option_of
from maci2.text_tables import number
from maci2_lab.cli import options as lab

SCORES = ("gravity", "velocity", "gyro_bias", "pose")
ERROR_COLUMNS = (
    "recording", "n", "SR", "gravity", "velocity", "bias", "|bias|", "rotation", "position",
)  # fmt: skip


@command("initialize", "odometry")
def evaluate(
    *,
    sequences: opt.Sequences,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="folder for summary.json and rows.json"),
        Use.FOLDER,
    ] = None,
    options: EvaluateOptions,
    jobs: lab.Jobs = 1,
    backend: lab.Backend = "local",
    scheduler: lab.Scheduler = "",
    json: opt.Json = None,
) -> None:
    """Initialize on every window and compare with ground truth.

    Uses the paper's protocol and reports errors, NEES and verdicts.
    """
    from maci2.pipeline.options import RunOptions
    from maci2_lab.evaluation.protocol import evaluate as run
    from maci2_lab.evaluation.summary import evaluation_json

    chosen = RunOptions.of(options)
    with progress_bar() as on_progress:
        done = count(1)
        pool = lab.pool(jobs, backend, scheduler)
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


@command()
def imu_report(
    *,
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
    rivals: lab.Rivals = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="folder for report.json and figures"),
        Use.OUTPUT,
    ] = None,
    truth: str = option_of(Measuring, "truth"),
    opening: Opening,
    bins: Annotated[int, typer.Option(help="equally filled bins of predicted sigma")] = 6,
    json: opt.Json = None,
) -> None:
    """Check that covariances of an IMU model are consistent.

    Reports integration errors, NEES and bins of predicted against actual error, with baselines.
    """
    from maci2.errors import require_in_range
    from maci2.pipeline.options import as_names
    from maci2.tools.ground_truth.choose import require_known_truths, with_audited
    from maci2_lab.evaluation.imu_report import TRUTHS, choose_predictors
    from maci2_lab.evaluation.imu_report import imu_report as run
    from maci2_lab.evaluation.protocol import distinct_names

    require_in_range("--bins", bins, 1, 1000)
    truths = as_names(truth) or TRUTHS
    opened = [opening.open(path) for path in sequences]
    require_known_truths(opened, as_names(truth))
    recordings = [with_audited(recording, truths) for recording in opened]
    names = distinct_names([recording.name for recording in recordings], sequences)
    predictors = choose_predictors(recordings, imu or [], lab.with_baselines(baselines, rivals))
    report = run(recordings, predictors, bins=bins, names=names, truth_names=truths, audit=True)
    print_imu_report(report)
    write_json(json, report)
    if output is not None:
        from maci2_lab.reports.figures import plot_figures

        write_json(output / "report.json", report)
        for path in plot_figures(report, output):
            typer.echo(f"wrote {path}")


def print_imu_report(report: dict[str, Any]) -> None:
    """NEES and rms per recording, then bins, against the ground truth as published and audited."""
    _print_imu_scores(report, "against the ground truth as published")
    if report["audited"]["average"] is not None:
        _print_imu_scores(
            report["audited"], "against the audited ground truth, covariance of the difference"
        )
    for name, numbers in report["sequences"].items():
        left_out = ", ".join(f"{n} at {h} s" for h, n in numbers["windows_left_out"].items())
        typer.echo(
            f"{name}: {numbers['truth_jumps']} jumps and {numbers['truth_gaps']} gaps of the "
            "ground truth; "
            f"windows rejected: {left_out}"
        )


def _print_imu_scores(report: dict[str, Any], judge: str) -> None:
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


POSE_COLUMNS = (
    "recording", "covariance", "poses", "[deg]", "[mm]", "pose", "rotation", "translation", "tails",
)  # fmt: skip


@command("odometry")
def vo_report(
    *,
    sequences: opt.Sequences,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="folder for the y = x figure"), Use.OUTPUT
    ] = None,
    interval: opt.Interval = 0.2,
    baselines: Annotated[
        bool,
        typer.Option(
            "--baselines/--no-baselines",
            help="compare with fixed, structure-tensor and chi-square-scaled covariances",
        ),
    ] = True,
    rivals: lab.Rivals = None,
    truth: str = option_of(Measuring, "truth"),
    opening: Opening,
    json: opt.Json = None,
) -> None:
    """Check that covariances of visual odometry are consistent.

    Reports errors and NEES of relative poses against ground truth.
    """
    from maci2.files import write_atomically
    from maci2.pipeline.options import as_names
    from maci2.tools.ground_truth.choose import require_known_truths, with_audited
    from maci2_lab.evaluation.protocol import distinct_names
    from maci2_lab.evaluation.vo_report import MODELS, visual_report, visual_report_json
    from maci2_lab.reports.figures import pose_reliability

    recordings = [with_audited(opening.open(path), as_names(truth)) for path in sequences]
    names = distinct_names([recording.name for recording in recordings], sequences)
    require_known_truths(recordings, as_names(truth))
    models = MODELS if lab.with_baselines(baselines, rivals) else MODELS[:1]
    scores = {
        name: visual_report(recording, interval, models, as_names(truth))
        for name, recording in zip(names, recordings, strict=True)
    }
    print_table(
        f"keyframes every {interval:g} s: mean error of a relative pose [deg], [mm]; NEES per "
        "degree of freedom (1 is ideal); tails: % beyond 3 and 5 sigmas",
        POSE_COLUMNS,
        [
            _pose_row(name, model, score.as_dict())
            for name, by_model in scores.items()
            for model, score in by_model.items()
        ],
    )
    audited = [
        _pose_row(name, model, numbers)
        for name, by_model in scores.items()
        for model, score in by_model.items()
        if (numbers := score.as_dict()["audited"]) is not None
    ]
    if audited:
        print_table("the same against the audited ground truth", POSE_COLUMNS, audited)
    write_json(json, visual_report_json(interval, scores))
    if output is not None:
        learned = [by_model["learned"] for by_model in scores.values()]
        write_atomically(output / "pose_cov.svg", pose_reliability(learned))
        typer.echo(f"wrote {output / 'pose_cov.svg'}")


def _pose_row(name: str, model: str, score: dict[str, Any]) -> tuple[str, ...]:
    millimetres = None if score["translation_m"] is None else 1e3 * score["translation_m"]
    return (
        name,
        model,
        str(score["steps"]),
        number(score["rotation_deg"], 4),
        number(millimetres, 2),
        *(number(score["nees"][key], 2) for key in ("pose", "rotation", "translation")),
        "/".join(number(_percent(score[f"beyond_{sigmas}_sigma"]), 1) for sigmas in (3, 5)),
    )


def _percent(share: float | None) -> float | None:
    return None if share is None else 100.0 * share
