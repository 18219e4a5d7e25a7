"""`maci2 live`."""

import json as json_text
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from maci2.cli import options as opt
from maci2.cli.command import Use, command, require_viewer, viewer
from maci2.errors import OptionError, require_in_range
from maci2.pipeline.options import (
    KEYFRAMES,
    WINDOW_S,
    Measuring,
    Opening,
    Windows,
    option,
    option_of,
)
from maci2.text_tables import sigmas, vector

if TYPE_CHECKING:
    from maci2.estimator import InitResult
    from maci2.live import OnlineInitializer, OnlineTracker
    from maci2.odometry import TrackedState
    from maci2.result_output import Record
    from maci2.sensors import Recording

DRAIN_S = 60.0
"""Time allowed to process queued data after the replay ends [s]."""

STATUS_EVERY_NS = 500_000_000
"""Time of the recording between two status lines."""

WAITING_RESULTS = 10_000
"""Results that may be queued for a slow terminal."""


Say = Callable[[str], None]
Write = Callable[[dict[str, Any]], None]
Stream = Callable[[Callable[[Any], None]], "OnlineInitializer | OnlineTracker"]
"""Makes a stream that calls a function with each result."""


@command("initialize", "odometry", own_json=True)
def live(
    *,
    sequence: opt.Sequence,
    speed: float = option(1.0, "playback speed, as a multiple of real time"),
    track: bool = option(False, "continue after initialization: a state at every image"),
    imu: str = option_of(Measuring, "imu"),
    window: float = option_of(Windows, "window_s"),
    keyframes: int = option_of(Windows, "keyframes"),
    opening: Opening,
    rerun: opt.Rerun = "",
    json: Path | None = option(
        None, "write one line of JSON per result to this file; - prints it", use=Use.FILE
    ),
) -> None:
    """Replay a recording as if its sensors were running.

    Prints what is still missing, then each result with its standard deviations; gravity, velocity
    and biases become more accurate the longer it runs. With --track, prints pose and velocity at
    every image. Exit code 1 if there was no result.
    """
    from maci2.live import OnlineConfig, OnlineInitializer, OnlineTracker, OnlineTrackerConfig
    from maci2.result_output import verdict_text

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
            tracker = OnlineTrackerConfig(imu=imu, waiting_results=WAITING_RESULTS)
            replayed = Replay(recording, say, write, _tracked)
            replayed.run(partial(OnlineTracker, recording.rig, tracker), speed)
            say(replayed.calls())
            return
        config = OnlineConfig(window, keyframes, imu, waiting_results=WAITING_RESULTS)
        replayed = Replay(recording, say, write, _initialized)
        replayed.run(partial(OnlineInitializer, recording.rig, config), speed)
        (ready_s, first), (_, last) = replayed.results[0], replayed.results[-1]
        complete_s = ready_s
        if first.state is not None:
            complete_s = replayed.taken.pair_at_s[int(first.state.stamps_ns[-1])]
        delay = f"first result {ready_s - complete_s:.2f} s after its window's last image"
        say(verdict_text(last.verdict))
        say(f"{replayed.calls()}; {delay}")
        if rerun:
            with viewer(rerun, "live", say) as shown:
                shown.show_initialization(last)


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


class Replay:
    """A recording played into a stream; each result is written and printed when it comes."""

    def __init__(
        self,
        recording: "Recording",
        say: Say,
        write: Write,
        described: Callable[[Any], tuple["Record", int | None, str]],
    ) -> None:
        """`described` gives record, timestamp and line of a result."""
        self.recording, self.say, self.write, self.described = recording, say, write, described
        self.start_ns = self.printed_ns = int(recording.camera_stamps_ns[0][0])
        self.results: list[tuple[float, Any]] = []
        """Results, each with the time at which it came."""

    def run(self, stream: Stream, speed: float) -> None:
        """Replay; prints the status for as long as there is no result. Exit code 1 if none came."""
        from maci2.live.replay import replay

        def on_pair(stamp_ns: int) -> None:
            if stamp_ns - self.printed_ns >= STATUS_EVERY_NS:
                self.printed_ns = stamp_ns
                if online.wait(0.0) is None:
                    self._say_at(stamp_ns, f"waiting: {online.status}")

        with stream(self._take) as online:
            self.taken = replay(self.recording, online, speed, on_pair)
            online.drain(DRAIN_S)
            self.say(str(online.status))
        if not self.results:
            pairs = self.taken.pair_at_s
            length_s = (max(pairs, default=self.start_ns) - self.start_ns) / 1e9
            self.say(f"no result: {len(pairs)} stereo pairs over {length_s:.1f} s were replayed")
            raise typer.Exit(1)

    def _take(self, result: Any) -> None:
        self.results.append((time.perf_counter(), result))
        record, stamp_ns, line = self.described(result)
        self.write(record)
        self._say_at(self.printed_ns if stamp_ns is None else stamp_ns, line)

    def _say_at(self, stamp_ns: int, line: str) -> None:
        """Print a line after the time since the first image."""
        self.say(f"{(stamp_ns - self.start_ns) / 1e9:7.2f} s  {line}")

    def calls(self) -> str:
        """Durations of the calls."""
        imu_ms, stereo_ms = (
            1e3 * sorted(times_s)[int(0.95 * (len(times_s) - 1))]
            for times_s in (self.taken.imu_s, self.taken.stereo_s)
        )
        return f"95 % of calls within: add_imu {imu_ms:.2f} ms, add_stereo {stereo_ms:.2f} ms"


def _initialized(result: "InitResult") -> tuple["Record", int | None, str]:
    """Verdict, and each quantity with its sigma."""
    from maci2.result_output import stds

    state, posterior, verdict = result.state, result.posterior, result.verdict
    if state is None or posterior is None:
        return result.to_dict(), None, f"{verdict.status}: {verdict.reasons[0]}"
    line = (
        f"{verdict.status:6} "
        f"gravity_c0 {vector(state.gravity_c0, 3)} +- {result.gravity_std_deg:.3f} deg; "
        f"velocity_b {vector(state.velocity_b[-1], 3)} +- "
        f"{sigmas(stds(posterior.velocity_b[-1]), 3)} m/s; "
        f"gyro bias +- {sigmas(stds(posterior.gyro_bias), 5)} rad/s; "
        f"acc bias +- {sigmas(stds(posterior.acc_bias), 3)} m/s^2"
    )
    if verdict.status != "ok":
        line = f"{line}; {'; '.join(verdict.reasons)}"
    return result.to_dict(), int(state.stamps_ns[-1]), line


def _tracked(state: "TrackedState") -> tuple["Record", int | None, str]:
    """Health, position and velocity, with their sigmas."""
    from maci2.pipeline.track_recording import state_record
    from maci2.result_output import stds

    std = stds(state.cov)
    line = (
        f"{state.health:8} "
        f"position_w {vector(state.T_w_b[:3, 3], 3)} +- {sigmas(std[6:9], 3)} m; "
        f"velocity_w {vector(state.v_w, 3)} +- {sigmas(std[3:6], 3)} m/s"
    )
    return state_record(state), state.stamp_ns, line
