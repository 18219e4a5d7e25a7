"""What is remembered of biases claims no more than their posterior did."""

import numpy as np
import pytest

from maci2.live.initializer import uncorrelated


@pytest.mark.parametrize("seed", range(20))
def test_independent_axes_are_at_least_as_wide_in_every_direction(seed):
    factor = np.random.default_rng(seed).standard_normal((3, 3))
    cov = factor @ factor.T
    wider = np.diag(uncorrelated(cov)) - cov
    assert np.linalg.eigvalsh(wider)[0] > -1e-12 * np.trace(cov)


def test_axes_that_are_independent_are_remembered_as_they_are():
    np.testing.assert_allclose(uncorrelated(np.diag([1.0, 4.0, 9.0])), [1.0, 4.0, 9.0])


def test_what_no_window_shows_does_not_get_more_certain():
    # Each window sees the bias along gravity only, which is tilted against the axes.
    along = np.array([0.94, 0.02, -0.34]) / np.linalg.norm([0.94, 0.02, -0.34])
    across = np.array([along[2], 0.0, -along[0]]) / np.hypot(along[0], along[2])
    seen = np.outer(along, along) / 0.001**2
    variance = np.full(3, 0.1**2)
    before = across @ np.linalg.inv(np.diag(1.0 / variance) + seen) @ across
    for _ in range(30):
        posterior = np.linalg.inv(np.diag(1.0 / variance) + seen)
        variance = uncorrelated(posterior)
    after = across @ np.linalg.inv(np.diag(1.0 / variance) + seen) @ across
    assert after > 0.95 * before
