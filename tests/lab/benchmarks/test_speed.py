"""Timings for `pytest --benchmark-only`; `maci2 bench` sets them beside GTSAM's."""

import pytest

from maci2_lab.benchmarks.window_problem import window_problem


@pytest.mark.parametrize("keyframes", [10, 100])
def test_speed_of_preintegration(benchmark, keyframes):
    assert len(benchmark(window_problem(keyframes).preintegrate).dt) == keyframes - 1


@pytest.mark.parametrize("keyframes", [10, 100])
def test_speed_of_initialization(benchmark, keyframes):
    assert benchmark(window_problem(keyframes).initialize).state is not None
