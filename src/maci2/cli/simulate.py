"""`maci2 simulate`."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from maci2.cli import options as opt
from maci2.cli.json_output import write_json
from maci2.cli.printing import progress_bar

if TYPE_CHECKING:
    from maci2.sensors import Recording
    from maci2.simulation.rendering.recording import RenderConfig


def simulate(
    output: Annotated[Path, typer.Argument(help="folder to write, in EuRoC layout")],
    motion: Annotated[
        str, typer.Option(help="handheld, drone, car, driving, static, straight or planar_yaw")
    ] = "handheld",
    duration: Annotated[float, typer.Option(help="length [s]")] = 30.0,
    lens: Annotated[str, typer.Option(help="pinhole or fisheye")] = "pinhole",
    noise: Annotated[bool, typer.Option(help="white noise on the IMU")] = True,
    bias_walk: Annotated[
        bool, typer.Option(help="biases as random walks instead of constants")
    ] = True,
    images: Annotated[bool, typer.Option(help="also render stereo images")] = False,
    difficulty: Annotated[
        str, typer.Option(help="difficulty of the images: easy or hard")
    ] = "easy",
    degrade: Annotated[
        str,
        typer.Option(
            help="NAME=VALUE[,...]: single degradations, such as light=0.1, exposure_s=0.01, "
            "moving_boxes=4, blackout=0.5, covered=0.5"
        ),
    ] = "",
    scene: Annotated[
        str, typer.Option(help="scene to render: room, or street (for level motion)")
    ] = "room",
    spoil: opt.Spoil = "",
    along: Annotated[
        Path | None,
        typer.Option(
            help="render along the ground truth of this recording and keep its IMU, instead of "
            "--motion"
        ),
    ] = None,
    start: Annotated[float, typer.Option(help="with --along: start [s]")] = 0.0,
    rate: Annotated[float, typer.Option(help="rate of the images [Hz]")] = 20.0,
    keep_clock: Annotated[
        bool,
        typer.Option(
            "--keep-clock",
            help="with --along: keep the timestamps of the ground truth even if they are early or "
            "late against the IMU",
        ),
    ] = False,
    truth: opt.Truth = "",
    seed: opt.Seed = 0,
    json: opt.Json = None,
) -> None:
    """Write a simulated recording, with images on request.

    The folder has EuRoC layout, with IMU, calibration and exact ground truth.
    """
    from maci2.datasets import open_recording, write_euroc
    from maci2.simulation import SimulationConfig
    from maci2.simulation import simulate as run
    from maci2.simulation.rendering.image_difficulty import degraded, difficulty_of

    config = SimulationConfig(
        kind=motion,  # type: ignore[arg-type]
        duration_s=duration,
        lens=lens,  # type: ignore[arg-type]
        camera_rate_hz=rate,
        white_noise=noise,
        bias_walk=bias_walk,
        seed=seed,
    )
    if not images and along is None:
        write_euroc(run(config), output)
        _wrote(output, False, json)
        return
    from maci2.simulation.rendering.recording import RenderConfig, render_recording

    recording = run(config) if along is None else open_recording(along)
    if truth:
        from maci2.ground_truth.choose import with_audited

        recording = with_audited(recording, (truth,))
    rendered = RenderConfig(
        degraded(difficulty_of(difficulty), degrade or spoil),
        seed,
        rate,
        start,
        duration,
        scene,  # type: ignore[arg-type]
    )
    if along is not None and not keep_clock:
        recording = _on_imu_clock(recording, rendered, truth)
    with progress_bar() as on_progress:
        render_recording(
            recording, output, rendered, truth,
            on_pair=partial(on_progress, "rendering stereo pairs"),
        )  # fmt: skip
    _wrote(output, True, json)


def _wrote(folder: Path, images: bool, json: Path | None) -> None:
    typer.echo(f"wrote {folder}")
    write_json(json, {"folder": str(folder), "images": images})


def _on_imu_clock(recording: "Recording", rendered: "RenderConfig", truth: str) -> "Recording":
    """Put a rendered recording on the clock of the IMU, and say so if ground truth was not."""
    from maci2.pipeline.render_along import rendered_on_imu_clock

    recording, clock = rendered_on_imu_clock(recording, rendered, truth)
    if clock is not None:
        typer.echo(
            f"{recording.name}: its truth is stamped {clock} against its IMU; rendered and written "
            "on the IMU's clock (--keep-clock leaves it)."
        )
    return recording
