"""Recordings below a folder, by name."""

from dataclasses import dataclass, field
from pathlib import Path

from maci2.datasets.vbr import is_vbr
from maci2.errors import DatasetError

DEEPEST = 4
"""Depth of the search below the root [folders]."""


@dataclass(frozen=True)
class Recordings:
    """Recordings below one folder."""

    root: Path
    """The folder that was searched."""

    by_name: dict[str, Path]
    """Path of each recording by name."""

    duplicates: dict[str, tuple[Path, ...]] = field(default_factory=dict)
    """Further recordings of the same name, which are not used."""

    def present(self, names: tuple[str, ...]) -> dict[str, Path]:
        """Paths of the `names` that are present, in their order."""
        return {name: self.by_name[name] for name in names if name in self.by_name}

    def missing(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The `names` that are not present."""
        return tuple(name for name in names if name not in self.by_name)


def find_recordings(root: Path) -> Recordings:
    """Find all folders below `root` with mav0/imu0 or VBR's bags."""
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
    """Name used by experiments: room2 for `dataset-room2_512_16`, campus0 for `campus_train0`."""
    if folder.startswith("dataset-"):
        return folder.removeprefix("dataset-").partition("_")[0]
    return folder.replace("_train", "")
