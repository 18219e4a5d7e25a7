"""The noise of a truth, found from integration errors."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

from maci2.geometry import so3_exp
from maci2.imu import BiasPrior, datasheet_model
from maci2.simulation import SimulationConfig, simulate
from maci2_lab.training.imu.data import load_track
from maci2_lab.training.imu.finish import SMALLEST, fit_label_noise


@pytest.fixture(scope="module")
def flight():
    """A track whose truth is exact, without biases."""
    config = SimulationConfig(
        kind="drone", duration_s=30.0, seed=3, bias_walk=False, bias_gyro_std=0.0, bias_acc_std=0.0
    )
    return load_track(simulate(config), "exact")


def fitted(track):
    imu = datasheet_model(track.imu, track.noise)
    tiny = np.full(3, 1e-6)
    return fit_label_noise(imu, track, BiasPrior(np.zeros(3), tiny, np.zeros(3), tiny))


def test_an_exact_truth_has_hardly_any_noise_and_shows_all_of_the_gyroscope_s(flight):
    found = fitted(flight)
    assert found.std_rotation < 5e-5
    assert found.std_velocity < 1e-3
    assert found.std_drift < 1e-4
    assert found.gyro_shown > 0.6
    assert found.acc_shown > 0.6


def test_noise_put_on_a_truth_is_found(flight):
    rng = np.random.default_rng(1)
    shape = flight.published.v_w.shape
    turns = np.array([so3_exp(phi) for phi in 1e-3 * rng.standard_normal(shape)])
    noisy = replace(
        flight.published,
        Rs_w_b=flight.published.Rs_w_b @ turns,
        v_w=flight.published.v_w + 0.02 * rng.standard_normal(shape),
        p_w=flight.published.p_w + 0.003 * rng.standard_normal(shape),
    )
    found = fitted(replace(flight, published=noisy))
    assert found.std_rotation == pytest.approx(1e-3, rel=0.1)
    assert found.std_velocity == pytest.approx(0.02, rel=0.1)
    assert found.std_position == pytest.approx(0.003, rel=0.1)


def test_noise_that_a_truth_does_not_show_is_not_counted(flight):
    louder = replace(flight.noise, density_gyro=100.0 * flight.noise.density_gyro)
    found = fitted(replace(flight, noise=louder))
    assert found.gyro_shown == pytest.approx(SMALLEST.gyro_shown)
    louder = replace(flight.noise, density_acc=100.0 * flight.noise.density_acc)
    found = fitted(replace(flight, noise=louder))
    assert found.acc_shown == pytest.approx(SMALLEST.acc_shown)
