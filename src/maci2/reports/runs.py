"""Reader of result folders."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maci2 import __version__
from maci2.errors import DatasetError, OptionError
from maci2.experiments.catalogue import find_experiments
from maci2.experiments.store import RESULTS, Store, read_result, time_table
from maci2.experiments.table import Findings

INDEX = "experiment.json"


@dataclass(frozen=True)
class Run:
    """One experiment in one folder."""

    label: str
    """Name of the experiment, with its folder if several have the same name."""

    about: dict[str, Any]
    findings: Findings

    @property
    def stale(self) -> bool:
        """Whether it was run by another version of maci2."""
        return bool(self.about["version"] != __version__)


def read_runs(folders: list[Path]) -> list[Run]:
    """Read all experiments in these folders: written by `reproduce -o`, or single experiments."""
    indices = [index for folder in folders for index in _indices(folder)]
    if not indices:
        raise OptionError("report: no folder given; name what `maci2 reproduce -o` wrote.")
    names = [index.parent.name for index in indices]
    return [_read(index, several=names.count(index.parent.name) > 1) for index in indices]


def _indices(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise DatasetError(f"{folder}: no such folder; give what `maci2 reproduce -o` wrote.")
    if (folder / INDEX).is_file():
        return [folder / INDEX]
    found = sorted(folder.glob(f"*/{INDEX}"))
    if not found:
        raise DatasetError(
            f"{folder}: neither it nor its subfolders contain {INDEX}; `maci2 reproduce -o` "
            "writes it."
        )
    return found


def _read(index: Path, several: bool) -> Run:
    about = read_result(index)
    [experiment] = find_experiments([about["name"]])
    records = {key: read_result(index.parent / RESULTS / f"{key}.json") for key in about["results"]}
    findings = experiment.findings(records) if records else Findings([])
    times = time_table(Store(index.parent), records)
    if times is not None:
        findings.tables.append(times)
    label = f"{about['name']} ({index.parent.parent})" if several else about["name"]
    return Run(label, about, findings)
