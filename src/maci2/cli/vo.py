"""`maci2 vo` and `maci2 vo-report`."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from maci2.cli import options as opt
from maci2.cli.json_output import write_json
from maci2.cli.printing import print_table, progress_bar
from maci2.cli.viewing import require_viewer, viewer
from maci2.pipeline.option_list import Opening
from maci2.text_tables import number

Interval = Annotated[float, typer.Option(help="time between keyframes [s]")]

COLUMNS = (
    "recording", "covariance", "poses", "[deg]", "[mm]", "pose", "rotation", "translation", "tails",
)  # fmt: skip

SHOWN_REASONS = 5
"""Number of unmeasured relative poses to list with their reasons."""


def vo(
    sequence: opt.Sequence,
    output: Annotated[
        Path, typer.Option("-o", "--output", help=".npz of relative poses to write")
    ] = Path("poses.npz"),
    interval: Interval = 0.2,
    covariance: Annotated[
        str, typer.Option(help="match covariance: learned, fixed, structure or chi2")
    ] = "learned",
    weights: Annotated[
        Path | None, typer.Option(help=".onnx of `maci2 train-vision`, instead of the bundled one")
    ] = None,
    opening: Opening = Opening(),
    rerun: opt.Rerun = "",
    json: opt.Json = None,
) -> None:
    """Measure relative poses with covariances from stereo images.

    An interrupted run resumes when it is called again with the same options.
    """
    require_viewer(rerun)
    from maci2.pipeline.vo import VoOptions, run_vo

    options = VoOptions(interval, covariance, weights, opening.rig, opening.given, opening.topics)
    with progress_bar() as on_progress:
        result = run_vo(sequence, output, options, partial(on_progress, "keyframes"))
    unmeasured = result.unmeasured
    measured = "all measured" if not unmeasured else f"{len(unmeasured)} of them not measured"
    typer.echo(f"wrote {output}: {len(result.poses)} relative poses, {measured}")
    reasons = [{"stamp_ns": pose.stamps_ns[0], "reason": pose.reason} for pose in unmeasured]
    record = {"file": str(output), "poses": len(result.poses), "unmeasured": reasons}
    write_json(json, record)
    for pose in unmeasured[:SHOWN_REASONS]:
        typer.echo(f"  {pose.stamps_ns[0]} ns: {pose.reason}")
    if len(unmeasured) > SHOWN_REASONS:
        typer.echo(f"  and {len(unmeasured) - SHOWN_REASONS} more")
    if rerun:
        with viewer(rerun, "vo") as shown:
            shown.show_tracks(result.odometry, result.keyframes_ns)


def vo_report(
    sequences: opt.Sequences,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="folder for the y = x figure")
    ] = None,
    interval: Interval = 0.2,
    baselines: Annotated[
        bool,
        typer.Option(
            "--baselines/--no-baselines",
            help="compare with fixed, structure-tensor and chi-square-scaled covariances",
        ),
    ] = True,
    rivals: opt.Rivals = None,
    truth: opt.Truth = "",
    opening: Opening = Opening(),
    json: opt.Json = None,
) -> None:
    """Check that covariances of visual odometry are consistent.

    Reports errors and NEES of relative poses against ground truth.
    """
    from maci2.evaluation.protocol import distinct_names
    from maci2.evaluation.vo_report import MODELS, visual_report, visual_report_json
    from maci2.files import write_atomically
    from maci2.ground_truth.choose import require_known_truths, with_audited
    from maci2.pipeline.options import as_names
    from maci2.reports.reliability import pose_reliability

    recordings = [with_audited(opening.open(path), as_names(truth)) for path in sequences]
    names = distinct_names([recording.name for recording in recordings], sequences)
    require_known_truths(recordings, as_names(truth))
    models = MODELS if opt.with_baselines(baselines, rivals) else MODELS[:1]
    scores = {
        name: visual_report(recording, interval, models, as_names(truth))
        for name, recording in zip(names, recordings, strict=True)
    }
    print_table(
        f"keyframes every {interval:g} s: mean error of a relative pose [deg], [mm]; NEES per "
        "degree of freedom (1 is ideal); tails: % beyond 3 and 5 sigmas",
        COLUMNS,
        [
            _row(name, model, score.as_dict())
            for name, by_model in scores.items()
            for model, score in by_model.items()
        ],
    )
    audited = [
        _row(name, model, numbers)
        for name, by_model in scores.items()
        for model, score in by_model.items()
        if (numbers := score.as_dict()["audited"]) is not None
    ]
    if audited:
        print_table("the same against the audited ground truth", COLUMNS, audited)
    write_json(json, visual_report_json(interval, scores))
    if output is not None:
        learned = [by_model["learned"] for by_model in scores.values()]
        write_atomically(output / "pose_cov.svg", pose_reliability(learned))
        typer.echo(f"wrote {output / 'pose_cov.svg'}")


def _row(name: str, model: str, score: dict[str, Any]) -> tuple[str, ...]:
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
