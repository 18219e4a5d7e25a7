"""`maci2 simulate`."""

from pathlib import Path
from typing import Annotated

import typer

from maci2.cli import options as opt


def simulate(
    output: Annotated[Path, typer.Argument(help="folder to write, in EuRoC layout")],
    motion: Annotated[
        str, typer.Option(help="handheld, drone, car, static, straight or planar_yaw")
    ] = "handheld",
    duration: Annotated[float, typer.Option(help="length [s]")] = 30.0,
    lens: Annotated[str, typer.Option(help="pinhole or fisheye")] = "pinhole",
    noise: Annotated[bool, typer.Option(help="white noise on the IMU")] = True,
    bias_walk: Annotated[bool, typer.Option(help="biases that wander")] = True,
    seed: opt.Seed = 0,
) -> None:
    """Write a recording without images: IMU, camera stamps, calibration and exact truth."""
    from maci2.sensors import SimulationConfig, write_euroc
    from maci2.sensors import simulate as run

    config = SimulationConfig(
        kind=motion,  # type: ignore[arg-type]
        duration_s=duration,
        lens=lens,  # type: ignore[arg-type]
        white_noise=noise,
        bias_walk=bias_walk,
        seed=seed,
    )
    write_euroc(run(config), output)
    typer.echo(f"wrote {output}")
