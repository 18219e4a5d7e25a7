"""The table of consistency tests: one false-alarm rate, causes first, and as documented."""

from pathlib import Path

import numpy as np
import pytest

from maci2.consistency.significance import FALSE_ALARM, largest_square
from maci2.consistency.tests import TESTS, Statistic, contradicted, number, table

PAGE = Path(__file__).parents[2] / "docs" / "research" / "consistency.md"


def test_all_levels_add_up_to_the_stated_rate_of_false_alarms():
    assert sum(test.level or 0.0 for test in TESTS) == pytest.approx(FALSE_ALARM)


def test_the_documentation_has_every_row_of_the_table():
    documented = PAGE.read_text(encoding="utf-8")
    for row in table():
        assert "| " + " | ".join(row) + " |" in documented


def test_a_test_hides_only_tests_of_the_table():
    names = {test.name for test in TESTS}
    assert len(names) == len(TESTS)
    assert all(set(test.hides) <= names for test in TESTS)


def test_a_cause_hides_its_effects_and_no_others():
    offset = number(0.1, 1e-6, lambda: (100.0,))
    scale = Statistic(np.array([0.2, 0.0, 0.0]), 1e-6 * np.eye(3), lambda: ("0.8, 1.0, 1.0",))
    both = {"gyroscope scale": scale, "time offset": offset}
    assert list(contradicted(both, 100)) == ["time offset"]
    assert list(contradicted({"gyroscope scale": scale}, 100)) == ["gyroscope scale"]


@pytest.mark.parametrize("test", [one for one in TESTS if one.spread is not None])
def test_a_difference_is_significant_just_beyond_its_quantile(test):
    dof, variance = 50, 4.0 * test.spread**2
    level = test.level / 3.0 if test.by_axis else test.level
    limit = largest_square(1 if test.by_axis else test.dof, dof, level)
    root = np.sqrt(limit * (variance + test.spread**2))
    for factor, expected in ((0.999, False), (1.001, True)):
        value = np.zeros(test.dof)
        value[-1] = factor * root
        found = Statistic(value, variance * np.eye(test.dof))
        assert test.is_significant(found, dof) == expected
