"""NEES and coverage by quarter of the predicted sigma."""

from dataclasses import replace

import numpy as np

from maci2.metrics.init_errors import InitErrors
from maci2_lab.evaluation.protocol import Row, StatedUncertainty
from maci2_lab.evaluation.summary import against_audit, by_quartile, summarize


def row(index, sigma, nees, audited_nees):
    def errors(score):
        inside = {"gravity": float(score < 3.0), "velocity": 1.0}
        scores = {"gravity": score, "velocity": 1.0}
        return InitErrors(0.1, 0.01, 0.01, 0.01, None, None, 0.1, 0.01, scores, inside)

    stated = StatedUncertainty(sigma, 0.01, (0.0, 0.0), ((1.0, 0.0), (0.0, 1.0)))
    return Row(index, 0, 1, "ok", (), errors(nees), stated=stated, audited=errors(audited_nees))


def test_the_hardest_quarter_shows_what_the_mean_hides():
    sigmas = np.linspace(0.1, 0.8, 16)
    rows = [row(k, sigma, 5.0 if k >= 12 else 0.5, 1.0) for k, sigma in enumerate(sigmas)]
    quarters = by_quartile(rows[::-1], audited=False)["gravity"]
    assert [one.count for one in quarters] == [4, 4, 4, 4]
    assert [one.nees for one in quarters] == [0.5, 0.5, 0.5, 5.0]
    assert [one.covered for one in quarters] == [1.0, 1.0, 1.0, 0.0]
    assert quarters[0].sigma < quarters[-1].sigma
    audited = by_quartile(rows, audited=True)["gravity"]
    assert [one.nees for one in audited] == [1.0] * 4


def test_fewer_than_two_windows_a_quarter_say_nothing():
    rows = [row(k, 0.1 * k, 1.0, 1.0) for k in range(1, 8)]
    assert by_quartile(rows, audited=False) == {}


def test_summaries_against_the_audit_take_its_errors():
    rows = [row(k, 0.1, 5.0, 1.0) for k in range(3)]
    assert summarize(rows).nees["gravity"] == 5.0
    assert summarize(against_audit(rows)).nees["gravity"] == 1.0
    assert summarize(against_audit(rows)).covered["gravity"] == 1.0


def test_windows_beyond_the_audit_are_left_out_and_failures_are_not():
    covered = row(0, 0.1, 5.0, 1.0)
    beyond = replace(covered, audited=None)
    failed = Row(2, 0, 1, "failed", ("no state",), None)
    assert summarize(against_audit([covered, beyond])).success == 1.0
    assert summarize(against_audit([covered, beyond, failed])).success == 0.5
