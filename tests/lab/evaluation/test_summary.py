"""Rows counted by hand."""

import pytest

from maci2.metrics.init_errors import METRICS, InitErrors
from maci2_lab.evaluation.protocol import Row
from maci2_lab.evaluation.summary import VBR_LIMITS, SuccessLimits, average, is_right, summarize


def row(gravity=0.5, velocity=0.01, status="ok", nees=None, solve_ms=2.0):
    errors = dict.fromkeys(METRICS, 1.0) | {"gravity_deg": gravity, "velocity_rmse": velocity}
    return Row(0, 0, 1, status, (), InitErrors(**errors, nees=nees or {}), solve_ms)


NO_ANSWER = Row(0, 0, 1, "failed", ("no state",), None)


def test_success_counts_windows_without_an_answer_against_the_rate():
    summary = summarize([row(), row(gravity=3.0), NO_ANSWER, row(velocity=0.2)])
    assert summary.windows == 4
    assert summary.success == 0.25
    assert summary.mean["gravity_deg"] == pytest.approx((0.5 + 3.0 + 0.5) / 3)
    assert summary.median["gravity_deg"] == 0.5


def test_verdicts_are_scored_both_ways_and_doubt_is_neither():
    rows = [
        row(),
        row(gravity=2.5),  # accepted but wrong
        row(status="failed"),  # rejected but right
        row(status="failed", gravity=2.5),  # rejected and wrong
        row(status="weak"),  # right, and unsure
    ]
    summary = summarize(rows)
    assert (summary.accepted_wrong, summary.rejected_right, summary.unsure) == (0.2, 0.2, 0.2)
    assert summary.verdicts["ok"].count == 2
    assert summary.verdicts["ok"].success == 0.5
    assert summary.verdicts["weak"].success == 1.0


def test_velocity_has_the_limit_of_its_dataset():
    assert not is_right(row(velocity=0.2))
    assert is_right(row(velocity=0.2), VBR_LIMITS)
    assert not is_right(row(velocity=None), VBR_LIMITS)
    assert not is_right(row(gravity=1.0), SuccessLimits(gravity_deg=0.9))


def test_each_recording_counts_once_in_the_average():
    long = summarize([row(gravity=1.0)] * 9)
    short = summarize([row(gravity=3.0, nees={"gravity": 2.0}, solve_ms=4.0)])
    both = average([long, short])
    assert both.mean["gravity_deg"] == 2.0
    assert both.success == 0.5
    assert both.windows == 10
    assert (both.nees["gravity"], both.nees["velocity"]) == (2.0, None)
    assert both.solve_ms == 3.0


def test_what_a_ground_truth_does_not_say_is_missing_and_not_averaged():
    unknown = InitErrors(1.0, 0.01, 0.01, 0.01, None, None, 0.1, 0.01, {"gyro_bias": None})
    known = InitErrors(1.0, 0.01, 0.01, 0.01, 8.0, 4.0, 0.1, 0.01, {"gyro_bias": 1.5})
    rows = [Row(0, 0, 1, "ok", (), errors) for errors in (unknown, known)]
    assert summarize(rows).mean["gyro_bias_pct"] == 8.0
    assert summarize(rows).nees["gyro_bias"] == 1.5
    assert summarize(rows[:1]).mean["gyro_bias_pct"] is None
    assert summarize(rows[:1]).as_dict()["gyro_bias_pct"] is None


def test_nothing_is_summarized_as_missing_not_as_zero():
    empty = summarize([])
    assert (empty.windows, empty.success, empty.solve_ms) == (0, None, None)
    assert average([]).success is None
