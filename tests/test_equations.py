"""docs/equations.md: every equation has a row, every name in it exists."""

import importlib
import re
from importlib.util import find_spec
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
ROW = re.compile(r"^\| (\d+)(?:-(\d+))? \| (.*?) \| (.*?) \| (.*?) \|$")
LAST_EQUATION = 89


def rows() -> list[re.Match[str]]:
    lines = (REPOSITORY / "docs" / "equations.md").read_text().splitlines()
    return [match for line in lines if (match := ROW.match(line))]


def test_every_equation_of_the_paper_has_one_row():
    numbers = [number for row in rows() for number in range(int(row[1]), int(row[2] or row[1]) + 1)]
    assert numbers == list(range(1, LAST_EQUATION + 1))


def test_every_function_named_exists():
    named = [name for row in rows() for name in re.findall(r"`(maci2[\w.]*)`", row[4])]
    assert len(named) > 40
    for name in named:
        if name.startswith("maci2_lab.training") and find_spec("torch") is None:
            continue
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), name


def test_every_test_named_exists():
    named = [name for row in rows() for name in re.findall(r"`(tests/[\w/]+\.py::\w+)`", row[5])]
    assert len(named) > 40
    for name in named:
        file, _, function = name.partition("::")
        assert f"def {function}(" in (REPOSITORY / file).read_text(), name


def test_what_is_not_built_yet_says_so():
    for row in rows():
        if not row[4].startswith("`"):
            assert row[4] == "not in this version", row[0]
            assert row[5] == "-", row[0]
