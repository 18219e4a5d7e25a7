"""`maci2 freeze`."""

import io
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from maci2.cli import options as opt
from maci2.cli.json_output import write_json
from maci2.cli.printing import progress_bar


def freeze(
    data: Annotated[Path, typer.Option(help="folder with the recordings, in euroc/ and tumvi/")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="JSON file to store the answers in")
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
    from maci2.evaluation.parallel import Pool
    from maci2.experiments.freeze import (
        BENCH,
        FROZEN_0_11,
        PARTS,
        compare,
        read_frozen,
        write_frozen,
    )
    from maci2.experiments.freeze import freeze as run
    from maci2.experiments.recordings import find_recordings
    from maci2.files import require_writable

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
