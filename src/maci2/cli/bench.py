"""`maci2 bench`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from maci2.cli import options as opt
from maci2.cli.json_output import write_json
from maci2.cli.printing import print_table, progress_bar
from maci2.text_tables import number


def bench(
    repeats: Annotated[int, typer.Option(help="runs of each; the median is reported")] = 50,
    cold: Annotated[
        bool,
        typer.Option(
            "--cold", help="time of the first result, with an empty and with a full compile cache"
        ),
    ] = False,
    recording: Annotated[
        Path | None, typer.Option(help="recording for --cold  [default: a simulated one]")
    ] = None,
    live: Annotated[
        Path | None,
        typer.Option(help="time only the odometry on this recording, as a stream"),
    ] = None,
    json: opt.Json = None,
) -> None:
    """Measure speed relative to other libraries."""
    if cold:
        write_json(json, _first_results(recording))
        return
    if live is not None:
        write_json(json, _live(live))
        return
    from maci2.benchmarks.speed import run_bench

    report = run_bench(repeats)
    print_table("speed, one core", report.columns, report.rows())
    for note in report.notes:
        typer.echo(note)
    typer.echo(f"memory growth over 1000 windows: {report.memory_growth_mb:.1f} MB")
    write_json(json, report.as_dict())


def _live(path: Path) -> dict[str, Any]:
    from dataclasses import asdict

    from maci2.benchmarks.live_speed import live_speed

    speed = live_speed(path)
    typer.echo(speed.text())
    return asdict(speed) | {"processor_s_per_s": speed.per_second}


def _first_results(recording: Path | None) -> dict[str, Any]:
    import tempfile
    from dataclasses import asdict

    from maci2.benchmarks.live_speed import first_answers

    answers = []
    with tempfile.TemporaryDirectory() as folder, progress_bar() as on_progress:
        path = recording
        if path is None:
            path = Path(folder) / "simulated"
            _simulate(path)
        for answer in first_answers(path):
            answers.append(answer)
            on_progress(f"measured: {answer.command}", 0, 0)
    print_table(
        "processor time to the result with an empty and a full compile cache, and wall time [s]",
        ("command", "empty", "full", "wall, empty"),
        [
            (a.command, *(number(s, 2) for s in (a.cold_s, a.warm_s, a.cold_wall_s)))
            for a in answers
        ],
    )
    return {"first_answers": [asdict(answer) for answer in answers]}


def _simulate(path: Path) -> None:
    from maci2.datasets.euroc_writer import write_euroc
    from maci2.simulation import SimulationConfig, simulate

    write_euroc(simulate(SimulationConfig(duration_s=30.0)), path)
