"""Recordings under a folder, found by looking."""

from dataclasses import dataclass
from pathlib import Path

from maci2.datasets.vbr import is_vbr
from maci2.errors import DatasetError

DEEPEST = 4
"""Folders below the root that are looked into."""


@dataclass(frozen=True)
class Found:
    """Recordings by name; names that were wanted and are not there are asked for by experiments."""

    root: Path
    by_name: dict[str, Path]

    def present(self, names: tuple[str, ...]) -> dict[str, Path]:
        """Those of `names` that are there, in the order of `names`."""
        return {name: self.by_name[name] for name in names if name in self.by_name}

    def missing(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for name in names if name not in self.by_name)


def find_recordings(root: Path) -> Found:
    """Every folder below `root` that holds mav0/imu0, or VBR's bags, under the folder's name."""
    if not root.is_dir():
        raise DatasetError(f"--data {root}: no such folder; give the one that holds recordings.")
    by_name: dict[str, Path] = {}
    level = [root]
    for _ in range(DEEPEST):
        deeper: list[Path] = []
        for folder in level:
            if (folder / "mav0" / "imu0").is_dir() or is_vbr(folder):
                by_name.setdefault(short_name(folder.name), folder)
            else:
                deeper += sorted(entry for entry in folder.iterdir() if entry.is_dir())
        level = deeper
    if not by_name:
        raise DatasetError(
            f"--data {root}: no recording in it; looked {DEEPEST} folders deep for mav0/imu0 "
            "(EuRoC, TUM-VI)."
        )
    return Found(root, by_name)


def short_name(folder: str) -> str:
    """`dataset-room2_512_16` is known as room2, `campus_train0` as campus0."""
    if folder.startswith("dataset-"):
        return folder.removeprefix("dataset-").partition("_")[0]
    return folder.replace("_train", "")
