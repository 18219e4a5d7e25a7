"""Recordings below a folder, by name."""

from dataclasses import dataclass, field
from pathlib import Path

from maci2.datasets.vbr import is_vbr
from maci2.errors import DatasetError

DEEPEST = 4
"""Levels of folders below the root that are searched."""


@dataclass(frozen=True)
class Recordings:
    """Recordings below one folder."""

    root: Path
    """The folder that was searched."""

    by_name: dict[str, Path]
    """Name -> where the recording lies."""

    duplicates: dict[str, tuple[Path, ...]] = field(default_factory=dict)
    """Name -> further recordings of that name, which are not used."""

    def present(self, names: tuple[str, ...]) -> dict[str, Path]:
        """Paths of those `names` that are present, in the order of `names`."""
        return {name: self.by_name[name] for name in names if name in self.by_name}

    def missing(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Those `names` that are not present."""
        return tuple(name for name in names if name not in self.by_name)


def find_recordings(root: Path) -> Recordings:
    """Every folder below `root` that holds mav0/imu0, or VBR's bags, under the folder's name."""
    if not root.is_dir():
        raise DatasetError(f"--data {root}: no such folder; give the one that holds recordings.")
    by_name: dict[str, Path] = {}
    duplicates: dict[str, tuple[Path, ...]] = {}
    level = [root]
    for _ in range(DEEPEST):
        deeper: list[Path] = []
        for folder in level:
            if (folder / "mav0" / "imu0").is_dir() or is_vbr(folder):
                name = short_name(folder.name)
                if by_name.setdefault(name, folder) != folder:
                    duplicates[name] = (*duplicates.get(name, ()), folder)
            else:
                deeper += sorted(entry for entry in folder.iterdir() if entry.is_dir())
        level = deeper
    if not by_name:
        raise DatasetError(
            f"--data {root}: no recording in it; looked {DEEPEST} folders deep for mav0/imu0 "
            "(EuRoC, TUM-VI)."
        )
    return Recordings(root, by_name, duplicates)


def short_name(folder: str) -> str:
    """The name that experiments use: room2 for `dataset-room2_512_16`, campus0 for
    `campus_train0`."""
    if folder.startswith("dataset-"):
        return folder.removeprefix("dataset-").partition("_")[0]
    return folder.replace("_train", "")
