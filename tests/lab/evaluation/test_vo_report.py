"""What is told of errors and covariances of relative poses."""

import numpy as np
import pytest
from scipy.stats import binom

from maci2_lab.evaluation.vo_report import VisualScore


def scored(errors, covs):
    return VisualScore(len(errors), 0, errors, covs, 0.0).as_dict()


def test_consistent_poses_lie_beyond_three_sigmas_as_often_as_a_normal_number():
    rng = np.random.default_rng(0)
    count, cov = 20_000, np.diag([1.0, 4.0, 9.0, 0.1, 0.2, 0.3])
    errors = rng.multivariate_normal(np.zeros(6), cov, count)
    record = scored(errors, np.tile(cov, (count, 1, 1)))
    low, high = binom.ppf([0.0005, 0.9995], count, 0.0027) / count
    assert low <= record["beyond_3_sigma"] <= high
    assert record["beyond_5_sigma"] == 0.0


def test_one_wrong_pose_in_four_is_a_quarter_beyond_five_sigmas():
    errors = np.zeros((4, 6))
    errors[2, 0] = 7.0
    record = scored(errors, np.tile(np.eye(6), (4, 1, 1)))
    assert record["beyond_5_sigma"] == pytest.approx(0.25)


def test_of_nothing_measured_no_share_is_told():
    record = scored(np.empty((0, 6)), np.empty((0, 6, 6)))
    assert record["beyond_3_sigma"] is None
