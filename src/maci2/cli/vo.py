"""`maci2 vo` and `maci2 vo-report`."""

from pathlib import Path
from typing import Annotated

import typer

from maci2.cli import options as opt
from maci2.cli.printing import number, print_table, write_json

Interval = Annotated[float, typer.Option(help="between keyframes [s]")]


def vo(
    sequence: opt.Sequence,
    output: Annotated[
        Path, typer.Option("-o", "--output", help=".npz of relative poses to write")
    ] = Path("poses.npz"),
    interval: Interval = 0.2,
    covariance: Annotated[
        str, typer.Option(help="of matches: learned, fixed, structure or chi2")
    ] = "learned",
    weights: Annotated[
        Path | None, typer.Option(help=".onnx of `maci2 train-vision`, instead of the bundled one")
    ] = None,
    rig: opt.RigFile = None,
    imu_rate: opt.ImuRate = None,
    imu_noise: opt.ImuNoiseText = "",
    t_b_c: opt.Extrinsics = "",
    topics: opt.Topics = "",
    rerun: opt.Rerun = "",
) -> None:
    """Relative camera poses with 6x6 covariances from stereo images.

    Stopped halfway, it goes on where it was when called again.
    """
    from rich.progress import Progress

    from maci2.datasets.image_files import stereo_frames
    from maci2.datasets.open_images import open_images
    from maci2.pipeline.gyro_rotation import rotation_predictor
    from maci2.sensors import Recording
    from maci2.vision.odometry import odometry_by
    from maci2.vision.odometry_run import even_keyframes, measure_all
    from maci2.vision.predicted_rotation import no_prediction

    # Timestamps of the file are those of the images, whatever a rig states about clocks.
    recording = open_images(sequence, rig, topics, opt.given(imu_rate, imu_noise, t_b_c))
    odometry = odometry_by(
        covariance,
        stereo_frames(recording),
        recording.rig,
        weights,
        # An IMU helps where there is one.
        rotation_predictor(recording) if isinstance(recording, Recording) else no_prediction,
    )
    keyframes_ns = even_keyframes(odometry.stamps_ns, interval)
    with Progress(transient=True) as progress:
        task = progress.add_task("keyframes", total=len(keyframes_ns) - 1)
        poses = measure_all(
            odometry, keyframes_ns, output, lambda done, _: progress.update(task, completed=done)
        )
    failed = [pose for pose in poses if pose.reason]
    typer.echo(f"wrote {output}: {len(poses)} relative poses, {len(failed)} of them not measured")
    for pose in failed[:5]:
        typer.echo(f"  {pose.stamps_ns[0]} ns: {pose.reason}")
    if len(failed) > 5:
        typer.echo(f"  and {len(failed) - 5} more")
    if rerun:
        from maci2.reports.rerun_viewer import Viewer

        Viewer(rerun, "vo").show_tracks(odometry, keyframes_ns)


def vo_report(
    sequences: opt.Sequences,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="folder for the y = x figure")
    ] = None,
    interval: Interval = 0.2,
    rivals: Annotated[
        bool, typer.Option(help="fixed, structure-tensor and chi-square-scaled covariance beside")
    ] = True,
    truth: opt.Truth = "",
    rig: opt.RigFile = None,
    topics: opt.Topics = "",
    json: opt.Json = None,
) -> None:
    """Are visual poses and covariances true? Errors and NEES against ground truth."""
    from maci2.datasets import open_recording
    from maci2.evaluation.vo_report import MODELS, visual_report
    from maci2.files import write_atomically
    from maci2.reports.reliability import pose_reliability

    names = tuple(name for name in truth.split(",") if name)
    models = MODELS if rivals else MODELS[:1]
    found, learned, rows = {}, [], []
    for path in sequences:
        name, scores = visual_report(open_recording(path, rig, topics), interval, models, names)
        found[name] = scores["learned"].as_dict() | {
            "rivals": {model: scores[model].as_dict() for model in models if model != "learned"}
        }
        learned.append(scores["learned"])
        rows += [_row(name, model, score.as_dict()) for model, score in scores.items()]
    print_table(
        f"steps of {interval:g} s; NEES per degree of freedom, 1 is right",
        (
            "recording",
            "covariance",
            "steps",
            "deg",
            "mm",
            "pose",
            "rotation",
            "translation",
            "% > 3 sigma",
            "% > 5 sigma",
        ),
        rows,
    )
    write_json(json, {"interval_s": interval, "sequences": found})
    if output is not None:
        write_atomically(output / "pose_cov.svg", pose_reliability(learned))
        typer.echo(f"wrote {output / 'pose_cov.svg'}")


def _row(name: str, model: str, one: dict) -> tuple[str, ...]:
    millimetres = None if one["translation_m"] is None else 1e3 * one["translation_m"]
    return (
        name,
        model,
        str(one["steps"]),
        number(one["rotation_deg"], 4),
        number(millimetres, 2),
        *(number(one["nees"][key], 2) for key in ("pose", "rotation", "translation")),
        *(number(_percent(one[f"beyond_{sigmas}_sigma"]), 1) for sigmas in (3, 5)),
    )


def _percent(share: float | None) -> float | None:
    return None if share is None else 100.0 * share
