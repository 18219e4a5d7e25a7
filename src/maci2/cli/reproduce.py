"""`maci2 reproduce` and `maci2 report`."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maci2.cli import options as opt
from maci2.cli.json_output import write_json
from maci2.cli.printing import command_line, print_table, progress_bar

if TYPE_CHECKING:
    from maci2.experiments.reproduce import Reproduced


TABLE_WIDTH = 300
"""Width of tables in a file [characters]: recordings stand side by side."""


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="names of experiments  [default: all that the recordings allow]"),
    ] = None,
    data: Annotated[Path, typer.Option(help="folder to search for recordings")] = Path("."),
    output: Annotated[
        Path, typer.Option("-o", "--output", help="folder for results and the report")
    ] = Path("maci2-results"),
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="run only this method, named by row (DRT-t) or initializer (drt-t); may be given "
            "several times"
        ),
    ] = None,
    seed: opt.Seed = 0,
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
    backend: opt.Backend = "local",
    scheduler: opt.Scheduler = "",
    json: opt.Json = None,
) -> None:
    """Run the paper's experiments.

    Baselines run on the same input, and tables include the paper's numbers. An interrupted run
    resumes where it stopped.
    """
    from maci2.errors import DatasetError
    from maci2.experiments.catalogue import by_methods, find_experiments
    from maci2.experiments.experiment import Settings
    from maci2.experiments.recordings import find_recordings
    from maci2.experiments.reproduce import reproduce as run
    from maci2.files import write_atomically
    from maci2.reports.experiments_page import build_page
    from maci2.reports.interval_picture import pictures
    from maci2.reports.runs import read_runs

    experiments = by_methods(find_experiments(names or []), method or [])
    recordings = find_recordings(data)
    settings = Settings(seed, time_limit)
    pool = opt.pool(jobs, backend, scheduler)
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


def report(
    folders: Annotated[list[Path], typer.Argument(help="folders written by `maci2 reproduce -o`")],
    output: Annotated[Path, typer.Option("-o", "--output", help="HTML report to write")] = Path(
        "report.html"
    ),
    json: opt.Json = None,
) -> None:
    """Write one self-contained report from stored results."""
    from maci2.files import write_atomically
    from maci2.reports.experiments_page import build_page
    from maci2.reports.runs import read_runs

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
