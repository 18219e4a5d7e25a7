"""`maci2 live`."""

import json as json_text
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maci2.cli import options as opt
from maci2.cli.command import Use, command
from maci2.cli.terminal import require_viewer, viewer
from maci2.pipeline.options import Opening
from maci2.text_tables import sigmas, vector

if TYPE_CHECKING:
    from maci2.estimator import InitResult
    from maci2.live import OnlineInitializer, OnlineTracker
    from maci2.live.replay import Replayed
    from maci2.odometry import TrackedState
    from maci2.sensors import Recording

DRAIN_S = 60.0
"""Time allowed to process queued data after the replay ends [s]."""

STATUS_EVERY_NS = 500_000_000
"""Time of the recording between two status lines."""

WAITING_RESULTS = 10_000
"""Results that may be queued for a slow terminal."""


@command("initialize", "odometry", own_json=True)
def live(
    sequence: opt.Sequence,
    speed: Annotated[float, typer.Option(help="playback speed, as a multiple of real time")] = 1.0,
    track: Annotated[
        bool, typer.Option("--track", help="continue after initialization: a state at every image")
    ] = False,
    imu: opt.Imu = "raw",
    window: opt.Window = 2.5,
    keyframes: opt.Keyframes = 10,
    opening: Opening = Opening(),
    rerun: opt.Rerun = "",
    json: Annotated[
        Path | None,
        typer.Option("--json", help="write one line of JSON per result to this file; - prints it"),
        Use.FILE,
    ] = None,
) -> None:
    """Replay a recording as if its sensors were running.

    Prints what is still missing, then each result with its standard deviations; gravity, velocity
    and biases become more accurate the longer it runs. With --track, prints pose and velocity at
    every image. Exit code 1 if there was no result.
    """
    from maci2.errors import OptionError, require_in_range
    from maci2.pipeline.options import KEYFRAMES, WINDOW_S

    require_in_range("--window", window, *WINDOW_S)
    require_in_range("--keyframes", keyframes, *KEYFRAMES)
    if not speed > 0.0:
        raise OptionError(f"--speed is {speed:g}, needed above 0.")
    require_viewer(rerun)
    if track and rerun:
        raise OptionError("--rerun shows an initialization; leave out --track or --rerun.")
    recording = opening.open(sequence)
    with _output(json) as (say, write):
        if track:
            _track(recording, imu, speed, say, write)
        else:
            _initialize(recording, (window, keyframes, imu), speed, say, write, rerun)


Say = Callable[[str], None]
Write = Callable[[dict[str, Any]], None]


@contextmanager
def _output(path: Path | None) -> Iterator[tuple[Say, Write]]:
    """Functions that print text and JSON; text goes to stderr if stdout is JSON."""
    from maci2.files import open_lines

    for_people = sys.stderr if str(path) == "-" else sys.stdout

    def say(line: str) -> None:
        typer.echo(line, file=for_people)

    if path is None:
        yield say, lambda _: None
        return
    with open_lines(path) as append:
        yield say, lambda record: append(json_text.dumps(record, allow_nan=False))


class _Clock:
    """Time since the first image, printed at the beginning of each line."""

    def __init__(self, recording: "Recording") -> None:
        self.start_ns = int(recording.camera_stamps_ns[0][0])
        self.printed_ns = self.start_ns

    def text(self, stamp_ns: int) -> str:
        return f"{(stamp_ns - self.start_ns) / 1e9:7.2f} s "

    def is_due(self, stamp_ns: int) -> bool:
        """True if it is time to print a status line."""
        if stamp_ns - self.printed_ns < STATUS_EVERY_NS:
            return False
        self.printed_ns = stamp_ns
        return True


def _replayed(
    recording: "Recording",
    stream: Callable[[Callable[[Any], None]], "OnlineInitializer | OnlineTracker"],
    clock: _Clock,
    speed: float,
    take: Callable[[Any], None],
    say: Say,
) -> "tuple[Replayed, list[tuple[float, Any]]]":
    """Replay a recording into a stream; returns its results, each with the time at which it came.

    Prints the status for as long as there is no result; exit code 1 if none came.
    """
    from maci2.live.replay import replay

    results: list[tuple[float, Any]] = []

    def on_result(result: Any) -> None:
        results.append((time.perf_counter(), result))
        take(result)

    def on_pair(stamp_ns: int) -> None:
        if clock.is_due(stamp_ns) and online.wait(0.0) is None:
            say(f"{clock.text(stamp_ns)} waiting: {online.status}")

    with stream(on_result) as online:
        taken = replay(recording, online, speed, on_pair)
        online.drain(DRAIN_S)
        say(str(online.status))
    if not results:
        say(_nothing_found(taken, clock))
        raise typer.Exit(1)
    return taken, results


def _initialize(
    recording: "Recording",
    choices: tuple[float, int, str],
    speed: float,
    say: Say,
    write: Write,
    rerun: str,
) -> None:
    from maci2.live import OnlineConfig, OnlineInitializer
    from maci2.result_output import verdict_text

    clock = _Clock(recording)

    def take(result: "InitResult") -> None:
        write(result.to_dict())
        say(_result_line(result, clock))

    config = OnlineConfig(*choices, waiting_results=WAITING_RESULTS)
    stream = partial(OnlineInitializer, recording.rig, config)
    taken, results = _replayed(recording, stream, clock, speed, take, say)
    (ready_s, first), (_, last) = results[0], results[-1]
    say(verdict_text(last.verdict))
    say(_timing(taken, first, ready_s))
    if rerun:
        with viewer(rerun, "live", say) as shown:
            shown.show_initialization(last)


def _nothing_found(taken: "Replayed", clock: _Clock) -> str:
    """Last line without a result: the length of the stream."""
    length_s = (max(taken.pair_at_s, default=clock.start_ns) - clock.start_ns) / 1e9
    return f"no result: {len(taken.pair_at_s)} stereo pairs over {length_s:.1f} s were replayed"


def _result_line(result: "InitResult", clock: _Clock) -> str:
    """One line: time, verdict, and each quantity with its sigma."""
    from maci2.result_output import stds

    state, posterior = result.state, result.posterior
    if state is None or posterior is None:
        return (
            f"{clock.text(clock.printed_ns)} {result.verdict.status}: {result.verdict.reasons[0]}"
        )
    line = (
        f"{clock.text(int(state.stamps_ns[-1]))} {result.verdict.status:6} "
        f"gravity_c0 {vector(state.gravity_c0, 3)} +- {result.gravity_std_deg:.3f} deg; "
        f"velocity_b {vector(state.velocity_b[-1], 3)} +- "
        f"{sigmas(stds(posterior.velocity_b[-1]), 3)} m/s; "
        f"gyro bias +- {sigmas(stds(posterior.gyro_bias), 5)} rad/s; "
        f"acc bias +- {sigmas(stds(posterior.acc_bias), 3)} m/s^2"
    )
    return line if result.verdict.status == "ok" else f"{line}; {'; '.join(result.verdict.reasons)}"


def _timing(taken: "Replayed", first: "InitResult", ready_s: float) -> str:
    complete_s = ready_s
    if first.state is not None:
        complete_s = taken.pair_at_s[int(first.state.stamps_ns[-1])]
    return (
        f"{_calls(taken)}; first result {ready_s - complete_s:.2f} s after its window's last image"
    )


def _calls(taken: "Replayed") -> str:
    return (
        f"95 % of calls within: add_imu {_p95_ms(taken.imu_s):.2f} ms, add_stereo "
        f"{_p95_ms(taken.stereo_s):.2f} ms"
    )


def _track(recording: "Recording", imu: str, speed: float, say: Say, write: Write) -> None:
    from maci2.live import OnlineTracker, OnlineTrackerConfig
    from maci2.pipeline.track_files import state_record

    clock = _Clock(recording)

    def take(state: "TrackedState") -> None:
        write(state_record(state))
        say(_state_line(state, clock))

    config = OnlineTrackerConfig(imu=imu, waiting_results=WAITING_RESULTS)
    stream = partial(OnlineTracker, recording.rig, config)
    taken, _ = _replayed(recording, stream, clock, speed, take, say)
    say(_calls(taken))


def _state_line(state: "TrackedState", clock: _Clock) -> str:
    from maci2.result_output import stds

    std = stds(state.cov)
    return (
        f"{clock.text(state.stamp_ns)} {state.health:8} "
        f"position_w {vector(state.T_w_b[:3, 3], 3)} +- {sigmas(std[6:9], 3)} m; "
        f"velocity_w {vector(state.v_w, 3)} +- {sigmas(std[3:6], 3)} m/s"
    )


def _p95_ms(times_s: list[float]) -> float:
    return 1e3 * sorted(times_s)[int(0.95 * (len(times_s) - 1))]
