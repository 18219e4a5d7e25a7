"""Files of a bag, found by name; nothing is parsed."""

from pathlib import Path

BAG_SUFFIXES = (".bag", ".mcap", ".db3")
METADATA = "metadata.yaml"
"""File that identifies a folder as a ROS 2 bag."""


def bag_paths(path: Path) -> tuple[Path, ...]:
    """Paths to open for `path`: the bag's file or folder, or all ROS 1 files of a folder; empty if
    it is not a bag."""
    if path.is_file():
        return (path,) if path.suffix in BAG_SUFFIXES else ()
    if (path / METADATA).is_file():
        return (path,)
    split = tuple(sorted(path.glob("*.bag")))
    single = tuple(sorted([*path.glob("*.mcap"), *path.glob("*.db3")]))
    return split or (single if len(single) == 1 else ())
