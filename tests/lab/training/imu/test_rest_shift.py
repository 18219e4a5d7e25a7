"""Shift of a stationary gyroscope against the same one in motion, learned from recordings."""

import numpy as np
import pytest

from imu.test_bias_tracking import after, resting, swaying
from maci2.imu.bias_tracker import STD_INSTABILITY, STD_UNKNOWN

pytest.importorskip("torch")
pytest.importorskip("lightning")

from maci2_lab.training.imu.train import shift_of, stationary_rate


def test_the_rate_at_rest_leaves_motion_out():
    rate = np.array([0.01, -0.02, 0.03])
    samples = after(resting(rate, 5.0), swaying(np.zeros(3), 5.0))
    np.testing.assert_allclose(stationary_rate(samples), rate, atol=3e-4)
    assert stationary_rate(swaying(np.zeros(3), 5.0)) is None


def test_a_shift_is_learned_from_three_recordings_on():
    seen = [np.full(3, value) for value in (1e-3, 2e-3, 3e-3)]
    assert (shift_of(seen[:2]).mean == 0.0).all()
    assert (shift_of(seen[:2]).std == STD_UNKNOWN).all()
    found = shift_of(seen)
    np.testing.assert_allclose(found.mean, 2e-3)
    # Nine numbers about three means: Student's distribution with six degrees of freedom.
    variance = 1e-6 * (4.0 / 3.0) * (6.0 / 4.0)
    np.testing.assert_allclose(found.std**2, variance + STD_INSTABILITY**2)
