"""Readings that are not new, told from those that repeat by chance."""

import numpy as np
import pytest

from maci2.imu.values import (
    MOST_HELD,
    held_share,
    runs_of_equal,
    stuck_axis,
)

RATE_HZ = 200.0


def moving(seed=0, count=500):
    rng = np.random.default_rng(seed)
    t = np.arange(count) / RATE_HZ
    motion = np.sin(2.0 * np.pi * np.outer(t, [0.4, 0.7, 0.3]) + [0.0, 1.0, 2.0])
    return motion + 0.02 * rng.normal(size=(count, 3))


def test_runs_are_counted_by_hand():
    starts, lengths = runs_of_equal(np.array([False, True, True, False, False]))
    assert starts.tolist() == [0, 2, 3]
    assert lengths.tolist() == [2, 1, 3]


def test_sound_readings_are_neither_stuck_nor_held():
    assert stuck_axis(moving(), RATE_HZ) is None
    assert held_share(moving()) == 0.0


def test_a_stuck_axis_is_found_with_its_time():
    values = moving()
    values[120:320, 1] = values[120, 1]
    stuck = stuck_axis(values, RATE_HZ)
    assert stuck is not None
    assert (stuck.axis, stuck.start, stuck.length, stuck.others) == (1, 120, 200, 1)


def test_two_stuck_axes_do_not_excuse_each_other():
    values = moving()
    values[:, 1:] = values[0, 1:]
    assert stuck_axis(values, RATE_HZ) is not None


@pytest.mark.parametrize(("every", "share"), [(2, 0.5), (4, 0.75), (10, 0.9)])
def test_held_values_are_counted(every, share):
    held = moving()[(np.arange(500) // every) * every]
    assert held_share(held) == pytest.approx(share, abs=0.01)
    assert held_share(held) > MOST_HELD


def test_a_slower_sensor_copied_into_faster_samples_is_within_bounds():
    copied = moving()[(np.arange(500) * 250) // 400]
    assert 0.3 < held_share(copied) < MOST_HELD


@pytest.mark.parametrize("step", [0.05, 0.1, 0.5])
@pytest.mark.parametrize("still", [False, True])
def test_a_coarse_resolution_is_not_held(step, still):
    values = moving()
    if still:
        values = 0.02 * np.random.default_rng(2).normal(size=values.shape) + 0.49 * step
    coarse = np.round(values / step) * step
    assert stuck_axis(coarse, RATE_HZ) is None
    assert held_share(coarse) < MOST_HELD
