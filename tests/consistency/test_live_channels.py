"""The glance that spares most windows the search for channels that do not measure."""

import numpy as np
import pytest

from maci2.consistency.tests import shows_noise
from maci2.imu.values import MOST_HELD, held_share, saturation, stuck_axis

RATE_HZ = 200.0


def moving(seed=0, count=500):
    rng = np.random.default_rng(seed)
    t = np.arange(count) / RATE_HZ
    motion = np.sin(2.0 * np.pi * np.outer(t, [0.4, 0.7, 0.3]) + [0.0, 1.0, 2.0])
    return motion + 0.02 * rng.normal(size=(count, 3))


@pytest.mark.parametrize("step", [1e-6, 0.001])
def test_sound_readings_pass(step):
    assert shows_noise(np.round(moving() / step) * step, RATE_HZ)


@pytest.mark.parametrize("step", [0.001, 0.02, 0.05])
@pytest.mark.parametrize("equal", [0, 60, 100, 101, 102, 300])
@pytest.mark.parametrize("every", [1, 2, 3])
@pytest.mark.parametrize("limit", [0.6, 0.95, 9.0])
def test_what_is_stuck_held_or_saturated_does_not(step, equal, every, limit):
    values = np.clip(np.round(moving() / step) * step, -limit, limit)
    values[100 : 100 + equal, 2] = values[100, 2]
    values = values[(np.arange(500) // every) * every]
    found = stuck_axis(values, RATE_HZ) is not None or held_share(values) >= MOST_HELD
    found = found or any(saturation(values[:, axis], 1e-3) is not None for axis in range(3))
    assert not (found and shows_noise(values, RATE_HZ))
