"""Axes that met the end of their range, told from those that repeat a value by chance."""

import numpy as np
import pytest

from maci2.imu.values import saturation

RATE_HZ = 200.0
FALSE_ALARM = 1e-3


def moving(seed=0, count=500, noise=0.02, step=0.0):
    rng = np.random.default_rng(seed)
    t = np.arange(count) / RATE_HZ
    values = np.sin(2.0 * np.pi * 0.7 * t + seed) + noise * rng.normal(size=count)
    return np.round(values / step) * step if step else values


@pytest.mark.parametrize("limit", [0.3, 0.7, 0.9])
@pytest.mark.parametrize("step", [0.0, 1e-3, 1e-2])
def test_an_end_that_is_met_is_found(limit, step):
    met = saturation(np.clip(moving(step=step), -limit, limit), FALSE_ALARM)
    assert met is not None
    assert abs(met.value) == limit
    assert met.samples > 20


def test_one_that_is_touched_again_and_again_is_found_without_a_long_run():
    vibrating = np.random.default_rng(3).normal(size=500)
    met = saturation(np.minimum(vibrating, 1.2), FALSE_ALARM)
    assert met is not None
    assert met.value == 1.2
    assert met.longest < 5


@pytest.mark.parametrize("step", [0.0, 1e-3, 5e-3, 0.02, 0.1])
@pytest.mark.parametrize("noise", [0.0, 5e-3, 0.02])
def test_sound_axes_are_not_saturated_beyond_the_stated_rate(step, noise):
    alarms = sum(
        saturation(moving(seed, noise=noise, step=step), FALSE_ALARM) is not None
        for seed in range(100)
    )
    assert alarms <= 1


@pytest.mark.parametrize("step", [1e-3, 0.02, 0.1, 0.5])
def test_an_axis_at_rest_is_not_saturated_beyond_the_stated_rate(step):
    alarms = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        drift = 0.05 * np.linspace(rng.normal(), rng.normal(), 500)
        values = np.round((drift + 0.02 * rng.normal(size=500)) / step) * step
        alarms += saturation(values, FALSE_ALARM) is not None
    assert alarms <= 1


def test_a_few_samples_say_nothing():
    assert saturation(np.ones(500), FALSE_ALARM) is None
    assert saturation(np.array([0.0, 1.0, 1.0, 1.0]), FALSE_ALARM) is None
