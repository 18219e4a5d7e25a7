"""Options that several commands of the lab share."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from maci2_lab.parallel import Pool

Jobs = Annotated[int, typer.Option(help="recordings to process in parallel")]
Backend = Annotated[str, typer.Option(help="where to run: local (this machine) or dask")]
Scheduler = Annotated[
    str, typer.Option(help="address of a Dask scheduler  [default: a cluster on this machine]")
]
Rivals = Annotated[bool | None, typer.Option("--rivals/--no-rivals", hidden=True)]
"""Name of --baselines in version 0.1."""


def with_baselines(baselines: bool, rivals: bool | None) -> bool:
    """Value of --baselines, or of its old name if that is given."""
    return baselines if rivals is None else rivals


def pool(jobs: int, backend: str, scheduler: str) -> "Pool":
    """Workers selected by these options."""
    from maci2_lab.parallel import Pool

    return Pool(jobs, backend, scheduler)  # type: ignore[arg-type]
