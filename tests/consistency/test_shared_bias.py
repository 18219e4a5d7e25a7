"""The accelerometer's bias that all windows share: found, honest, and asked by the verdict."""

from dataclasses import replace

import numpy as np
import pytest

from consistency.devices import device
from helpers import chi_square_band
from maci2.consistency import InitLimits, initialize
from maci2.consistency.translation import CONSTANTS, BiasBlocks, wandering_bias

LARGE = np.array([0.05, 0.4, -0.1])


def with_bias(one, bias):
    return replace(one, imu=replace(one.imu, acc=one.imu.acc + bias))


@pytest.fixture(scope="module")
def sound():
    return device(seed=1, windows=14, bias_acc_std=0.0)


def test_a_bias_is_found_whatever_its_prior_says(sound):
    prior = replace(sound.imu.bias_prior, mean_acc=np.array([0.3, -0.2, 0.1]))
    for imu in (sound.imu, replace(sound.imu, bias_prior=prior)):
        (found,) = with_bias(replace(sound, imu=imu), LARGE).constants().acc_bias.biases
        assert np.abs(found.acc - LARGE).max() < 3.5 * np.sqrt(np.diag(found.cov)).max()
        assert np.sqrt(np.diag(found.cov)).min() < 0.03


@pytest.mark.parametrize("windows", [14, 20])
def test_its_covariance_agrees_with_sampled_noise(windows):
    scores = []
    for seed in range(16):
        one = device(seed=300 + seed, windows=windows, bias_acc_std=0.0)
        (found,) = one.constants().acc_bias.biases
        scores.append(found.acc @ np.linalg.solve(found.cov, found.acc))
    low, high = chi_square_band(3, len(scores))
    # Where noise is less than stated by chance, the covariance stays as stated.
    assert 0.8 * low < np.mean(scores) < high


def test_too_few_windows_to_show_their_model_errors_say_nothing_of_a_bias():
    assert device(seed=1, windows=13, bias_acc_std=0.0).constants().acc_bias is None


def results(one):
    constants = replace(one.constants(), is_complete=True)
    limits = InitLimits(trust_constants=False)
    return [
        initialize(one.imu, window, one.T_b_c, None, limits, constants) for window in one.windows
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


def swinging(one, size, period_s):
    """The device with an accelerometer whose y axis has a bias that swings."""
    time_s = (one.imu.stamps_ns - one.imu.stamps_ns[0]) / 1e9
    swing = size * np.sin(2.0 * np.pi * time_s / period_s)
    return with_bias(one, np.outer(swing, [0.0, 1.0, 0.0])), swing


def test_a_bias_that_swings_is_followed_within_its_covariance():
    flown = device(seed=1, kind="drone", windows=32, bias_acc_std=0.0)
    one, swing = swinging(flown, 0.4, 40.0)
    found = one.constants().acc_bias
    assert len(found.biases) == 32
    scores = []
    for window in one.windows:
        inside = (one.imu.stamps_ns >= window.stamps_ns[0]) & (
            one.imu.stamps_ns <= window.stamps_ns[-1]
        )
        bias = found.at(int(window.stamps_ns[0]))
        away = bias.acc - [0.0, swing[inside].mean(), 0.0]
        scores.append(away @ np.linalg.solve(bias.cov, away))
    # A sine is smoother than a random walk, so that errors are less than stated if anything.
    assert np.mean(scores) < 6.0
    assert max(abs(bias.acc[1]) for bias in found.biases) > 0.25


def test_windows_whose_bias_swings_far_are_not_ok():
    flown = device(seed=1, kind="drone", windows=32, bias_acc_std=0.0)
    one, swing = swinging(flown, 0.4, 40.0)
    found = results(one)
    for result, window in zip(found, one.windows, strict=True):
        first = int(np.searchsorted(one.imu.stamps_ns, window.stamps_ns[0]))
        away = result.state.acc_bias_residual - [0.0, swing[first], 0.0]
        wrong = np.rad2deg(np.linalg.norm(away) / 9.81) > 2.0
        assert not (wrong and result.verdict.status == "ok")
    assert any(result.verdict.status == "ok" for result in found)


def test_the_fit_of_a_wandering_bias_is_that_of_one_system_for_all_unknowns():
    """A random walk, assembled block by block instead."""
    rng = np.random.default_rng(3)
    count, size = 6, CONSTANTS + 3
    roots = rng.standard_normal((count, size, 2 * size))
    blocks = BiasBlocks(
        roots @ roots.transpose(0, 2, 1), rng.standard_normal((count, size)), 500.0,
        np.eye(size), 100,
    )  # fmt: skip
    elapsed_s, walk = rng.uniform(1.0, 4.0, count - 1), 0.3
    found = wandering_bias(blocks, walk**2 * elapsed_s)
    H, g = np.zeros((CONSTANTS + 3 * count,) * 2), np.zeros(CONSTANTS + 3 * count)
    H[:CONSTANTS, :CONSTANTS] += np.eye(CONSTANTS)
    for k in range(count):
        own = [*range(CONSTANTS), *range(CONSTANTS + 3 * k, CONSTANTS + 3 * k + 3)]
        H[np.ix_(own, own)] += blocks.information[k]
        H[np.ix_(own[CONSTANTS:], own[CONSTANTS:])] += np.eye(3)
        g[own] += blocks.gradient[k]
    for k in range(count - 1):
        D = np.zeros((3, len(g)))
        D[:, CONSTANTS + 3 * k : CONSTANTS + 3 * k + 6] = np.hstack([-np.eye(3), np.eye(3)])
        H += D.T @ D / (walk**2 * elapsed_s[k])
    x, cov = -np.linalg.solve(H, g), np.linalg.inv(H)
    chi2 = 500.0 + g @ x
    np.testing.assert_allclose(found.biases, x[CONSTANTS:].reshape(-1, 3) / x[0])
    noise = max(chi2 / (100 - size), 1.0)
    last = slice(CONSTANTS + 3 * count - 3, None)
    np.testing.assert_allclose(found.covariances[-1], noise * cov[last, last] / x[0] ** 2)
    log_walk = 3.0 * np.log(walk**2 * elapsed_s).sum()
    expected = (100 - size) * np.log(noise) + chi2 / noise + np.linalg.slogdet(H)[1] + log_walk
    np.testing.assert_allclose(found.misfit, expected)
