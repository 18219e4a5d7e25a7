"""Rows counted by hand."""

import pytest

from maci2.experiments.summary import METRICS, average, is_right, summarize
from maci2.experiments.table import Cell, Line, mark_best


def row(gravity=0.5, velocity=0.01, accepted=True, unsure=False, nees=None):
    errors = dict.fromkeys(METRICS, 1.0) | {"gravity_deg": gravity, "velocity_rmse": velocity}
    return {"accepted": accepted, "unsure": unsure, "errors": errors, "nees": nees or {}}


NO_ANSWER = {"accepted": False, "unsure": False, "errors": None, "nees": {}}


def test_success_counts_windows_without_an_answer_against_the_rate():
    found = summarize([row(), row(gravity=3.0), NO_ANSWER, row(velocity=0.2)], 0.1)
    assert found.windows == 4
    assert found.success == 0.25
    assert found.mean["gravity_deg"] == pytest.approx((0.5 + 3.0 + 0.5) / 3)
    assert found.median["gravity_deg"] == 0.5


def test_verdicts_are_scored_both_ways_and_doubt_is_neither():
    rows = [
        row(),
        row(gravity=2.5),  # accepted but wrong
        row(accepted=False),  # rejected but right
        row(accepted=False, gravity=2.5),  # rejected and wrong
        row(accepted=False, unsure=True),  # right, and unsure
    ]
    found = summarize(rows, 0.1)
    assert (found.accepted_wrong, found.rejected_right, found.unsure) == (0.2, 0.2, 0.2)


def test_velocity_has_the_limit_of_its_dataset():
    assert not is_right(row(velocity=0.2), 0.1)
    assert is_right(row(velocity=0.2), 0.3)
    assert not is_right(row(velocity=None), 0.3)


def test_each_recording_counts_once_in_the_average():
    long = summarize([row(gravity=1.0)] * 9, 0.1)
    short = summarize([row(gravity=3.0, nees={"gravity": 2.0})], 0.1)
    both = average([long, short])
    assert both.mean["gravity_deg"] == 2.0
    assert both.success == 0.5
    assert both.windows == 10
    assert both.nees == {"gravity": 2.0}


def test_the_best_of_a_column_is_marked_as_it_reads():
    lines = [
        Line(n, "", (Cell(v), Cell(s)))
        for n, v, s in (("a", 0.2331, 1.0), ("b", 0.2334, 0.9), ("c", 0.3, 1.0))
    ]
    marked = mark_best(lines, {0: False, 1: True})
    assert [line.cells[0].best for line in marked] == [True, True, False]
    assert [line.cells[1].best for line in marked] == [True, False, True]


def test_a_cell_shows_the_papers_number_in_brackets():
    assert Cell(0.2334, 3, 0.235).text() == "0.233 (0.235)"
    assert Cell(None, 3, 0.235).text() == "- (0.235)"
