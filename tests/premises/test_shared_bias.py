"""The accelerometer's bias that all windows share: found, honest, and asked by the verdict."""

from dataclasses import replace

import numpy as np
import pytest

from helpers import chi_square_band
from maci2.estimation import InitLimits, initialize
from premises.devices import device

LARGE = np.array([0.05, 0.4, -0.1])


def with_bias(one, bias):
    return replace(one, imu=replace(one.imu, acc=one.imu.acc + bias))


@pytest.fixture(scope="module")
def sound():
    return device(seed=1, windows=14, bias_acc_std=0.0)


def test_a_bias_is_found_whatever_its_prior_says(sound):
    prior = replace(sound.imu.bias_prior, mean_acc=np.array([0.3, -0.2, 0.1]))
    for imu in (sound.imu, replace(sound.imu, bias_prior=prior)):
        found = with_bias(replace(sound, imu=imu), LARGE).premises().acc_bias
        assert np.abs(found.acc - LARGE).max() < 3.5 * np.sqrt(np.diag(found.cov)).max()
        assert np.sqrt(np.diag(found.cov)).min() < 0.03


@pytest.mark.parametrize("windows", [14, 20])
def test_its_covariance_agrees_with_sampled_noise(windows):
    scores = []
    for seed in range(16):
        one = device(seed=300 + seed, windows=windows, bias_acc_std=0.0)
        found = one.premises().acc_bias
        scores.append(found.acc @ np.linalg.solve(found.cov, found.acc))
    low, high = chi_square_band(3, len(scores))
    # Where noise is less than stated by chance, the covariance stays as stated.
    assert 0.8 * low < np.mean(scores) < high


def test_too_few_windows_to_show_their_model_errors_say_nothing_of_a_bias():
    assert device(seed=1, windows=13, bias_acc_std=0.0).premises().acc_bias is None


def results(one):
    premises = replace(one.premises(), is_complete=True)
    limits = InitLimits(trust_constants=False)
    return [
        initialize(one.imu, window, one.T_b_c, None, limits, premises) for window in one.windows
    ]


def statuses(one):
    return {result.verdict.status for result in results(one)}


def test_gravity_that_the_shared_bias_would_move_is_not_ok():
    flown = device(seed=1, kind="drone", windows=20, bias_acc_std=0.0)
    found = results(with_bias(flown, LARGE))
    named = ["accelerometer bias of (" in "; ".join(one.verdict.reasons) for one in found]
    assert any(named)
    for one, name in zip(found, named, strict=True):
        assert not (name and one.verdict.status == "ok")
        away = one.state.acc_bias_residual - LARGE
        # What a window does not know of its bias it takes from gravity.
        wrong = np.rad2deg(np.linalg.norm(away) / 9.81) > 2.0
        assert not (wrong and one.verdict.status == "ok")


def test_a_bias_as_expected_costs_no_window(sound):
    assert statuses(sound) == {"ok"}
    assert statuses(with_bias(sound, 0.1 * LARGE)) == {"ok"}


def test_a_bias_that_was_stated_costs_no_window(sound):
    stated = with_bias(sound, LARGE)
    prior = replace(stated.imu.bias_prior, mean_acc=LARGE)
    stated = replace(stated, imu=replace(stated.imu, bias_prior=prior))
    assert statuses(stated) == {"ok"}
