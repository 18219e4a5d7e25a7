"""Commands that need no data: `maci2 demo` and `simulate`."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from maci2.cli import options as opt
from maci2.cli.command import (
    Use,
    command,
    command_line,
    print_summary,
    print_table,
    progress_bar,
    write_json,
)
from maci2.pipeline.options import Measuring, option, option_of

if TYPE_CHECKING:
    from maci2.simulation import SimulationConfig
    from maci2.simulation.rendering.images import RenderConfig


@command("initialize", "calibrate", "odometry", "render")
def demo(
    *,
    output: Path = opt.output("folder for the report", Path("maci2-demo")),
    seed: int = option_of(Measuring, "seed"),
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

    motion: str = option(
        "handheld", "handheld, drone, car, driving, static, straight or planar_yaw"
    )
    duration: float = option(30.0, "length [s]")
    lens: str = option("pinhole", "pinhole or fisheye")
    noise: bool = option(True, "white noise on the IMU", "--noise/--no-noise")
    bias_walk: bool = option(
        True, "biases as random walks instead of constants", "--bias-walk/--no-bias-walk"
    )
    rate: float = option(20.0, "rate of the images [Hz]")
    seed: int = option_of(Measuring, "seed")

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

    images: bool = option(False, "also render stereo images", "--images/--no-images")
    difficulty: str = option("easy", "difficulty of the images: easy or hard")
    degrade: str = option(
        "",
        "NAME=VALUE[,...]: single degradations, such as light=0.1, exposure_s=0.01, "
        "moving_boxes=4, blackout=0.5, covered=0.5",
    )
    scene: str = option("room", "scene to render: room, or street (for level motion)")
    start: float = option(0.0, "with --along: start [s]")
    keep_clock: bool = option(
        False,
        "with --along: keep the timestamps of the ground truth even if they are early or late "
        "relative to the IMU",
    )

    def config(self, simulated: Simulated) -> "RenderConfig":
        """Configuration of the renderer."""
        from maci2.simulation.rendering.difficulty import degraded, difficulty_of
        from maci2.simulation.rendering.images import RenderConfig

        return RenderConfig(
            degraded(difficulty_of(self.difficulty), self.degrade),
            simulated.seed,
            simulated.rate,
            self.start,
            simulated.duration,
            self.scene,  # type: ignore[arg-type]
        )


@command("render")
def simulate(
    *,
    output: Annotated[
        Path, typer.Argument(metavar="OUTPUT", help="folder to write, in EuRoC layout")
    ],
    simulated: Simulated,
    along: Path | None = option(
        None,
        "render along the ground truth of this recording and keep its IMU, instead of --motion",
        use=Use.READ,
    ),
    rendered: Rendered,
    spoil: Annotated[str, typer.Option("--spoil", hidden=True)] = "",
    truth: str = option_of(Measuring, "truth"),
    json: opt.Json = None,
) -> None:
    """Write a simulated recording, with images on request.

    The folder has EuRoC layout, with IMU, calibration and exact ground truth.
    """
    from maci2.datasets import open_recording, write_euroc
    from maci2.pipeline.render_along import rendered_on_imu_clock
    from maci2.simulation import simulate as run
    from maci2.simulation.rendering.images import render_recording
    from maci2.tools.ground_truth.choose import with_audited

    recording = run(simulated.config()) if along is None else open_recording(along)
    images = rendered.images or along is not None
    if not images:
        write_euroc(recording, output)
    else:
        # --spoil was the name of --degrade in version 0.1.
        rendered = replace(rendered, degrade=rendered.degrade or spoil)
        config = rendered.config(simulated)
        if truth:
            recording = with_audited(recording, (truth,))
        if along is not None and not rendered.keep_clock:
            recording, clock = rendered_on_imu_clock(recording, config, truth)
            if clock is not None:
                typer.echo(
                    f"{recording.name}: its ground truth is {clock} relative to its IMU; images "
                    "and ground truth are written on the IMU's clock (--keep-clock leaves the "
                    "timestamps as they are)."
                )
        with progress_bar() as on_progress:
            on_pair = partial(on_progress, "rendering stereo pairs")
            render_recording(recording, output, config, truth, on_pair=on_pair)
    typer.echo(f"wrote {output}")
    write_json(json, {"folder": str(output), "images": images})
