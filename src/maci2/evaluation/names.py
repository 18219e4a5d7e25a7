"""Names that tell recordings apart, even if their folders are called the same."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from maci2.errors import OptionError
from maci2.files import real_path


def distinct_names(names: Sequence[str], paths: Sequence[Path]) -> list[str]:
    """Each recording's own name; with as many of its parent folders as it takes where several
    recordings have the same name."""
    resolved = [real_path(path) for path in paths]
    for path, count in Counter(resolved).items():
        if count > 1:
            raise OptionError(f"{path}: is given {count} times; name each recording once.")
    longest = max((len(path.parts) for path in resolved), default=0)
    distinct = list(names)
    for depth in range(1, longest):
        counts = Counter(distinct)
        if max(counts.values(), default=0) < 2:
            break
        distinct = [
            _with_parents(name, path, depth) if counts[shown] > 1 else shown
            for name, shown, path in zip(names, distinct, resolved, strict=True)
        ]
    return distinct


def _with_parents(name: str, path: Path, depth: int) -> str:
    """`b/c/name` for depth 2 of /a/b/c/name."""
    folder = path.parent if path.name == "mav0" else path
    return "/".join([*folder.parent.parts[-depth:], name])
