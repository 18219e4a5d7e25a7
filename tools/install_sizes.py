"""Size of what an installation of maci2 brings with it: `python tools/install_sizes.py [EXTRA...]`.

Reads the metadata of the environment it runs in; sizes are those of the files on disk.
"""

import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import Requirement

SHOWN_MB = 20.0
"""Smaller ones are added up in one row."""


def needed(name: str, extras: frozenset[str], by: str, found: dict[str, str]) -> None:
    """Add a distribution and all that it needs: name -> by whom."""
    try:
        installed = distribution(name)
    except PackageNotFoundError:
        return
    key = installed.metadata["Name"].lower().replace("_", "-")
    if key in found and not extras:
        return
    found.setdefault(key, by)
    for text in installed.requires or []:
        requirement = Requirement(text)
        marker = requirement.marker
        wanted = [""] if marker is None else ["", *extras]
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in wanted):
            needed(requirement.name, frozenset(requirement.extras), key, found)


def size_mb(installed: Distribution) -> float:
    """Size of its files [MB], without what Python compiles of them."""
    paths = [file.locate() for file in installed.files or [] if not file.name.endswith(".pyc")]
    return sum(path.stat().st_size for path in paths if path.is_file()) / 1e6


def main() -> None:
    """Print one row for each large distribution, the largest first."""
    found: dict[str, str] = {}
    needed("maci2", frozenset(sys.argv[1:]), "", found)
    sizes = sorted(((size_mb(distribution(name)), name) for name in found), reverse=True)
    print("| package | MB | needed by |\n|---|---|---|")
    for size, name in sizes:
        if size >= SHOWN_MB:
            print(f"| {name} | {size:.0f} | {found[name]} |")
    small = [size for size, _ in sizes if size < SHOWN_MB]
    print(f"| {len(small)} others | {sum(small):.0f} | |")
    print(f"| all {len(sizes)} | {sum(size for size, _ in sizes):.0f} | |")


if __name__ == "__main__":
    main()
