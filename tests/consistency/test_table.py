"""The table of consistency tests: one false-alarm rate, causes first, and as documented."""

from pathlib import Path

import numpy as np
import pytest

from maci2.consistency.significance import FALSE_ALARM, largest_square
from maci2.consistency.tests import TESTS, Statistic, contradicted, number

PAGE = Path(__file__).parents[2] / "docs" / "research" / "consistency.md"


def test_all_levels_add_up_to_the_stated_rate_of_false_alarms():
    assert sum(test.level or 0.0 for test in TESTS) == pytest.approx(FALSE_ALARM)


UNITS = {  # of a spread, and how many there are of it in one of the SI
    "camera rotation": ("deg", 180.0 / np.pi),
    "time offset": ("ms", 1e3),
    "gyroscope scale": ("%", 100.0),
    "gravity norm": ("m/s²", 1.0),
    "accelerometer delay": ("ms", 1e3),
    "scale": ("%", 100.0),
    "lever arm": ("cm", 100.0),
    "camera drift": ("m/s", 1.0),
}


@pytest.mark.parametrize("test", TESTS)
def test_the_documentation_has_every_row_of_the_table(test):
    spread = "-"
    if test.spread is not None:
        unit, per_si = UNITS[test.name]
        spread = f"{test.spread * per_si:.2g} {unit}"
    level = "-" if test.level is None else f"{100.0 * test.level:.2g} %"
    dof = f"{test.dof} x 1" if test.by_axis else str(test.dof)
    row = " | ".join((test.name, test.statistic, spread, dof, level))
    assert f"| {row} |" in PAGE.read_text(encoding="utf-8")


def test_a_test_hides_only_tests_of_the_table():
    names = {test.name for test in TESTS}
    assert len(names) == len(TESTS)
    assert all(set(test.hides) <= names for test in TESTS)


def test_a_cause_hides_its_effects_and_no_others():
    offset = number(0.1, 1e-6, (100.0,))
    scale = Statistic(np.array([0.2, 0.0, 0.0]), 1e-6 * np.eye(3), ("0.8, 1.0, 1.0",))
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
