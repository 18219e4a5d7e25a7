"""Commands that need no data: `maci2 demo` and `simulate`."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from maci2.cli import options as opt
from maci2.cli.command import Use, command, write_json
from maci2.cli.terminal import command_line, print_summary, print_table, progress_bar

if TYPE_CHECKING:
    from maci2.sensors import Recording
    from maci2.simulation import SimulationConfig
    from maci2.simulation.rendering.images import RenderConfig


@command("initialize", "calibrate", "odometry", "render")
def demo(
    output: Annotated[
        Path, typer.Option("-o", "--output", help="folder for the report"), Use.OUTPUT
    ] = Path("maci2-demo"),
    seed: opt.Seed = 0,
    json: opt.Json = None,
) -> None:
    """Run on rendered images and compare with the true values.

    Renders stereo images of a synthetic room, initializes and calibrates on them, and compares the
    stated uncertainties with the actual errors.
    """
    from rich.console import Console

    console = Console()
    with progress_bar() as on_progress:
        on_progress("loading", 0, 0)
        from maci2.demo import demo_record, run_demo

        result = run_demo(output, seed, lambda step: on_progress(step, 0, 0), command_line())
    console.rule("initialization")
    print_summary(result.initialization.summary(), result.initialization.verdict)
    console.rule("calibration")
    print_summary(result.calibration.summary(), result.calibration.verdict)
    console.rule("are the uncertainties consistent?")
    print_table(
        f"{len(result.samples)} simulated windows",
        ("state", "NEES per degree of freedom, 1 is ideal"),
        [(key.replace("_", " "), f"{value:.2f}") for key, value in result.nees.items()],
    )
    typer.echo(f"wrote {output / 'report.html'}")
    write_json(json, demo_record(result))


@dataclass(frozen=True)
class Simulated:
    """Motion and sensors to simulate."""

    motion: Annotated[
        str, typer.Option(help="handheld, drone, car, driving, static, straight or planar_yaw")
    ] = "handheld"
    duration: Annotated[float, typer.Option(help="length [s]")] = 30.0
    lens: Annotated[str, typer.Option(help="pinhole or fisheye")] = "pinhole"
    noise: Annotated[bool, typer.Option(help="white noise on the IMU")] = True
    bias_walk: Annotated[bool, typer.Option(help="biases as random walks instead of constants")] = (
        True
    )
    rate: Annotated[float, typer.Option(help="rate of the images [Hz]")] = 20.0
    seed: opt.Seed = 0

    def config(self) -> "SimulationConfig":
        """Configuration of the simulation."""
        from maci2.simulation import SimulationConfig

        return SimulationConfig(
            kind=self.motion,  # type: ignore[arg-type]
            duration_s=self.duration,
            lens=self.lens,  # type: ignore[arg-type]
            camera_rate_hz=self.rate,
            white_noise=self.noise,
            bias_walk=self.bias_walk,
            seed=self.seed,
        )


@dataclass(frozen=True)
class Rendered:
    """Images to render."""

    images: Annotated[bool, typer.Option(help="also render stereo images")] = False
    difficulty: Annotated[str, typer.Option(help="difficulty of the images: easy or hard")] = "easy"
    degrade: Annotated[
        str,
        typer.Option(
            help="NAME=VALUE[,...]: single degradations, such as light=0.1, exposure_s=0.01, "
            "moving_boxes=4, blackout=0.5, covered=0.5"
        ),
    ] = ""
    spoil: opt.Spoil = ""
    scene: Annotated[
        str, typer.Option(help="scene to render: room, or street (for level motion)")
    ] = "room"
    start: Annotated[float, typer.Option(help="with --along: start [s]")] = 0.0
    keep_clock: Annotated[
        bool,
        typer.Option(
            "--keep-clock",
            help="with --along: keep the timestamps of the ground truth even if they are early or "
            "late relative to the IMU",
        ),
    ] = False

    def config(self, simulated: Simulated) -> "RenderConfig":
        """Configuration of the renderer."""
        from maci2.simulation.rendering.difficulty import degraded, difficulty_of
        from maci2.simulation.rendering.images import RenderConfig

        return RenderConfig(
            degraded(difficulty_of(self.difficulty), self.degrade or self.spoil),
            simulated.seed,
            simulated.rate,
            self.start,
            simulated.duration,
            self.scene,  # type: ignore[arg-type]
        )


@command("render")
def simulate(
    output: Annotated[
        Path, typer.Argument(metavar="OUTPUT", help="folder to write, in EuRoC layout")
    ],
    simulated: Simulated = Simulated(),
    along: Annotated[
        Path | None,
        typer.Option(
            help="render along the ground truth of this recording and keep its IMU, instead of "
            "--motion"
        ),
        Use.READ,
    ] = None,
    rendered: Rendered = Rendered(),
    truth: opt.Truth = "",
    json: opt.Json = None,
) -> None:
    """Write a simulated recording, with images on request.

    The folder has EuRoC layout, with IMU, calibration and exact ground truth.
    """
    from maci2.datasets import open_recording, write_euroc
    from maci2.simulation import simulate as run

    config = simulated.config()
    images = rendered.images or along is not None
    recording = run(config) if along is None else open_recording(along)
    if images:
        _render(recording, output, simulated, rendered, truth, along is not None)
    else:
        write_euroc(recording, output)
    typer.echo(f"wrote {output}")
    write_json(json, {"folder": str(output), "images": images})


def _render(
    recording: "Recording",
    output: Path,
    simulated: Simulated,
    rendered: Rendered,
    truth: str,
    along: bool,
) -> None:
    from maci2.simulation.rendering.images import render_recording

    config = rendered.config(simulated)
    if truth:
        from maci2.tools.ground_truth.choose import with_audited

        recording = with_audited(recording, (truth,))
    if along and not rendered.keep_clock:
        recording = _on_imu_clock(recording, config, truth)
    with progress_bar() as on_progress:
        on_pair = partial(on_progress, "rendering stereo pairs")
        render_recording(recording, output, config, truth, on_pair=on_pair)


def _on_imu_clock(recording: "Recording", config: "RenderConfig", truth: str) -> "Recording":
    """Put a rendered recording on the clock of the IMU; prints it if ground truth was not."""
    from maci2.pipeline.render_along import rendered_on_imu_clock

    recording, clock = rendered_on_imu_clock(recording, config, truth)
    if clock is not None:
        typer.echo(
            f"{recording.name}: its ground truth is {clock} relative to its IMU; images and ground "
            "truth are written on the IMU's clock (--keep-clock leaves the timestamps as they are)."
        )
    return recording
