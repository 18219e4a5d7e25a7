"""The benchmark compares the same problem; how fast it is, is not for a test to say."""

import pytest

from maci2_lab.benchmarks.speed import run_bench

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def report():
    return run_bench(repeats=2)


def test_gtsam_gives_the_same_answer_on_the_same_problem(report):
    pytest.importorskip("gtsam")
    assert report.velocity_difference < 1e-3
    assert report.gravity_difference < 1e-3


def test_every_comparison_has_times_and_a_ratio(report):
    record = report.as_dict()
    assert len(record["comparisons"]) == len(report.rows()) >= 2
    for entry in record["comparisons"]:
        assert entry["ours_ms"] > 0.0
        assert entry["ratio"] == pytest.approx(entry["other_ms"] / entry["ours_ms"])


def test_memory_does_not_grow_with_the_number_of_windows(report):
    assert report.memory_growth_mb < 5.0


def test_without_gtsam_our_own_times_are_still_there(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "gtsam", None)
    report = run_bench(repeats=1)
    assert report.as_dict()["velocity_difference"] is None
    assert not any("GTSAM" in comparison.other for comparison in report.comparisons)
    assert "pip install 'maci2-lab[bench]'" in report.notes[0]
