"""`maci2 live`."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from maci2.cli import options as opt
from maci2.cli.printing import print_verdict

if TYPE_CHECKING:
    from maci2.estimation import InitResult


DRAIN_S = 60.0
"""Time to finish what has been handed over when the replay ends [s]."""


def live(
    sequence: opt.Sequence,
    speed: Annotated[float, typer.Option(help="times real time")] = 1.0,
    imu: opt.Imu = "raw",
    window: opt.Window = 2.5,
    keyframes: opt.Keyframes = 10,
    rig: opt.RigFile = None,
    imu_rate: opt.ImuRate = None,
    imu_noise: opt.ImuNoiseText = "",
    t_b_c: opt.Extrinsics = "",
    topics: opt.Topics = "",
    rerun: opt.Rerun = "",
) -> None:
    """Replay a recording through the online initializer, as if its sensors were running."""
    from maci2.datasets import open_recording
    from maci2.errors import OptionError
    from maci2.pipeline.online import OnlineConfig, OnlineInitializer
    from maci2.pipeline.online.replay import replay

    if not speed > 0.0:
        raise OptionError(f"--speed is {speed:g}, needed above 0.")
    recording = open_recording(sequence, rig, topics, opt.given(imu_rate, imu_noise, t_b_c))
    results: list[InitResult] = []
    ready_s: list[float] = []

    def take(result: "InitResult") -> None:
        ready_s.append(time.perf_counter())
        results.append(result)

    config = OnlineConfig(window, keyframes, imu)
    with OnlineInitializer(recording.rig, config, take) as online:
        taken = replay(recording, online, speed)
        online.drain(DRAIN_S)
        status = online.status
    typer.echo(str(status))
    if not results:
        raise typer.Exit(1)
    for result in results:
        if result.state is not None:
            gravity = " ".join(f"{value:+.3f}" for value in result.state.gravity_c0)
            end_ns = result.state.stamps_ns[-1]
            typer.echo(f"{end_ns} ns: gravity_c0 {gravity} +- {result.gravity_std_deg:.2f} deg")
    print_verdict(results[-1].verdict)
    first = results[0].state
    complete_s = ready_s[0]
    if first is not None:
        complete_s = taken.pair_at_s[int(first.stamps_ns[-1])]
    typer.echo(
        f"95 % of calls within: add_imu {_p95_ms(taken.imu_s):.2f} ms, add_stereo "
        f"{_p95_ms(taken.stereo_s):.2f} ms; first result {ready_s[0] - complete_s:.2f} s after its "
        "window's last image"
    )
    if rerun:
        from maci2.reports.rerun_viewer import Viewer

        Viewer(rerun, "live").show_initialization(results[-1])


def _p95_ms(times_s: list[float]) -> float:
    return 1e3 * sorted(times_s)[int(0.95 * (len(times_s) - 1))]
