"""Commands that run experiments: `maci2 reproduce`, `report`, `freeze` and `bench`."""

import io
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maci2.cli import options as opt
from maci2.cli.command import Use, command, command_line, print_table, progress_bar, write_json
from maci2.pipeline.options import Measuring, option_of
from maci2.text_tables import number
from maci2_lab.cli import options as lab

if TYPE_CHECKING:
    from maci2_lab.experiments.reproduce import Reproduced

TABLE_WIDTH = 300
"""Width of tables in a file [characters]: recordings stand side by side."""


@command("initialize", "calibrate", "baselines", "odometry", "chain")
def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="names of experiments  [default: all that the recordings allow]"),
    ] = None,
    data: Annotated[Path, typer.Option(help="folder to search for recordings")] = Path("."),
    output: Annotated[
        Path, typer.Option("-o", "--output", help="folder for results and the report"), Use.FOLDER
    ] = Path("maci2-results"),
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="run only this method, named by row (DRT-t) or initializer (drt-t); may be given "
            "several times"
        ),
    ] = None,
    seed: int = option_of(Measuring, "seed"),
    time_limit: Annotated[
        float,
        typer.Option(
            help="processor time allowed for one window of one method [s]; a window beyond it is "
            "tried again alone and then counts as a failure"
        ),
    ] = 20.0,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="discard stored results and run everything again")
    ] = False,
    jobs: Annotated[int, typer.Option(help="tasks to run in parallel")] = 2,
    backend: lab.Backend = "local",
    scheduler: lab.Scheduler = "",
    json: opt.Json = None,
) -> None:
    """Run the paper's experiments.

    Baselines run on the same input, and tables include the paper's numbers. An interrupted run
    resumes where it stopped.
    """
    from maci2.errors import DatasetError
    from maci2.files import write_atomically
    from maci2_lab.experiments.catalogue import by_methods, find_experiments
    from maci2_lab.experiments.experiment import Settings
    from maci2_lab.experiments.recordings import find_recordings
    from maci2_lab.experiments.reproduce import reproduce as run
    from maci2_lab.reports.experiments_page import build_page, pictures, read_runs

    experiments = by_methods(find_experiments(names or []), method or [])
    recordings = find_recordings(data)
    settings = Settings(seed, time_limit)
    pool = lab.pool(jobs, backend, scheduler)
    done = []
    for experiment in experiments:
        with progress_bar() as on_progress:
            reproduced = run(experiment, recordings, output, settings, pool, fresh, on_progress)
        print_experiment(reproduced)
        done.append(reproduced)
    page = output / "report.html"
    runs = read_runs([reproduced.folder for reproduced in done])
    write_atomically(page, build_page(runs, command_line()))
    for one in runs:
        for name, picture in pictures(one).items():
            write_atomically(output / name, picture)
    typer.echo(f"wrote {page}")
    write_json(json, {"report": str(page), "experiments": [_record(one) for one in done]})
    if all(one.findings is None for one in done):
        raise DatasetError(
            f"--data {data}: holds none of the recordings that these experiments need; nothing was "
            "run. Give the folder that holds them."
        )


@command()
def report(
    folders: Annotated[
        list[Path], typer.Argument(help="folders written by `maci2 reproduce -o`"), Use.READ
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="HTML report to write"), Use.OUTPUT
    ] = Path("report.html"),
    json: opt.Json = None,
) -> None:
    """Write one self-contained report from stored results."""
    from maci2.files import write_atomically
    from maci2_lab.reports.experiments_page import build_page, read_runs

    runs = read_runs(folders)
    write_atomically(output, build_page(runs, command_line()))
    typer.echo(f"wrote {output}: {len(runs)} experiments")
    write_json(json, {"report": str(output), "experiments": [run.about["name"] for run in runs]})


def _record(reproduced: "Reproduced") -> dict[str, Any]:
    """Tables and claims of one experiment."""
    found = reproduced.findings
    return {
        "name": reproduced.experiment.name,
        "title": reproduced.experiment.title,
        "folder": str(reproduced.folder),
        "missing": list(reproduced.missing),
        "tables": [] if found is None else [table.as_dict() for table in found.tables],
        "claims": [] if found is None else [asdict(claim) for claim in found.claims],
    }


def print_experiment(reproduced: "Reproduced") -> None:
    """Tables and claims on the terminal."""
    typer.echo(f"{reproduced.experiment.name}: {reproduced.experiment.title}")
    for name in reproduced.missing:
        typer.echo(f"  missing  {name}")
    if reproduced.findings is None:
        typer.echo("  not run: none of its recordings was found\n")
        return
    for table in reproduced.findings.tables:
        rows = [(line.label, *(cell.text() for cell in line.cells)) for line in table.lines]
        print_table(table.title, ("", *table.columns), rows, width=TABLE_WIDTH)
    for claim in reproduced.findings.claims:
        typer.echo(f"  {'yes' if claim.holds else 'NO '}  {claim.text}")
    typer.echo()


@command("initialize", "calibrate", "chain", "render", "odometry")
def freeze(
    data: Annotated[Path, typer.Option(help="folder with the recordings, in euroc/ and tumvi/")],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="JSON file to store the answers in"),
        Use.OUTPUT,
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            help="stored answers to compare with  [default, without -o: those of version 0.11]"
        ),
    ] = None,
    part: Annotated[
        list[str] | None,
        typer.Option(
            help="init, calibrate, track, truth, noise, check, evaluate or bench; may be given "
            "several times  [default: all, bench only with -o]"
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(help="commands to run in parallel")] = 2,
    json: opt.Json = None,
) -> None:
    """Store the commands' answers, or compare with stored ones.

    The same command lines run on fixed and on simulated recordings. Exit code 1 if an answer
    differs by more than 1e-9, relative to the larger of 1 and the number; times never count. An
    interrupted run resumes where it stopped. Example: maci2 freeze --data ROOT --part init
    """
    from maci2.files import require_writable
    from maci2_lab.experiments.freeze import (
        BENCH,
        FROZEN_0_11,
        PARTS,
        compare,
        read_frozen,
        write_frozen,
    )
    from maci2_lab.experiments.freeze import freeze as run
    from maci2_lab.experiments.recordings import find_recordings
    from maci2_lab.parallel import Pool

    find_recordings(data)
    if output is not None:
        require_writable(output)
    reference = FROZEN_0_11 if against is None and output is None else against
    old = None if reference is None else read_frozen(reference)
    parts = part or [name for name in PARTS if name != BENCH or output is not None]
    with progress_bar() as on_progress:
        answers = run(data, parts, Pool(jobs), call_quietly, on_progress)
    if output is not None:
        write_frozen(output, answers)
        typer.echo(f"wrote {output}: {len(answers)} answers")
    if old is None:
        write_json(json, {"answers": answers})
        return
    compared = compare(old, answers, parts)
    for line in compared.lines():
        typer.echo(line)
    differences = [{"key": key, "old": a, "new": b} for key, a, b in compared.differences]
    write_json(json, {"differences": differences})
    if differences:
        raise typer.Exit(1)
    typer.echo("nothing differs")


def call_quietly(words: list[str]) -> int:
    """Run a command in this process without its output; its exit code."""
    from maci2.cli.app import app

    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        return app(["--quiet", *words], standalone_mode=False) or 0


@command()
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
        write_json(json, _live_speed(live))
        return
    from maci2_lab.benchmarks.speed import run_bench

    report = run_bench(repeats)
    print_table("speed, one core", report.columns, report.rows())
    for note in report.notes:
        typer.echo(note)
    typer.echo(f"memory growth over 1000 windows: {report.memory_growth_mb:.1f} MB")
    write_json(json, report.as_dict())


def _live_speed(path: Path) -> dict[str, Any]:
    from dataclasses import asdict

    from maci2_lab.benchmarks.live_speed import live_speed

    speed = live_speed(path)
    typer.echo(speed.text())
    return asdict(speed) | {"processor_s_per_s": speed.per_second}


def _first_results(recording: Path | None) -> dict[str, Any]:
    import tempfile
    from dataclasses import asdict

    from maci2_lab.benchmarks.live_speed import first_answers

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
    from maci2.datasets.euroc import write_euroc
    from maci2.simulation import SimulationConfig, simulate

    write_euroc(simulate(SimulationConfig(duration_s=30.0)), path)
