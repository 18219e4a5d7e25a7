"""What biases of a few recordings say of another."""

import numpy as np
import pytest

from maci2.types import NS
from maci2_lab.training.imu.data import RecordingBias, bias_prior, recording_bias


def test_the_mean_and_the_wander_of_a_recording_are_told_apart():
    stamps_ns = np.arange(0, 62 * NS, NS // 10)
    wave = np.where((stamps_ns // (10 * NS)) % 2 == 0, 1.0, -1.0)
    # Two seconds at the end are no stretch: they would count as much as ten.
    wave[stamps_ns >= 60 * NS] = 100.0
    mean = np.array([0.01, 0.02, 0.03, 0.1, 0.2, 0.3])
    bias = mean + np.outer(wave, [1e-4] * 3 + [0.01] * 3)
    found = recording_bias(stamps_ns, bias)
    np.testing.assert_allclose(found.mean, bias.mean(axis=0))
    np.testing.assert_allclose(found.wander, [1e-8] * 3 + [1e-4] * 3)


def test_a_recording_too_short_for_two_stretches_shows_its_wander_by_halves():
    stamps_ns = np.arange(0, 9 * NS, NS // 10)
    bias = np.tile((stamps_ns / NS)[:, None], (1, 6))
    found = recording_bias(stamps_ns, bias)
    # Means of the halves are 4.5 s apart.
    np.testing.assert_allclose(found.wander, 2.25**2, rtol=1e-9)


@pytest.mark.parametrize("count", [3, 4, 6])
def test_the_nees_of_another_recording_is_one_however_few_there_are(count):
    rng = np.random.default_rng(count)
    spread = np.array([1e-3] * 3 + [0.02] * 3)
    scores = []
    for _ in range(4000):
        *seen, unseen = rng.standard_normal((count + 1, 6)) * spread
        prior = bias_prior([RecordingBias(mean, np.zeros(6)) for mean in seen])
        away = unseen - np.concatenate([prior.mean_gyro, prior.mean_acc])
        scores.append((away / np.concatenate([prior.std_gyro, prior.std_acc])) ** 2)
    # 24 000 squares with Student's tails. A Gaussian's spread would give 1.3 to 2 with so few.
    assert np.mean(scores) == pytest.approx(1.0, abs=0.08)


def test_wander_within_recordings_adds_to_the_spread():
    seen = [RecordingBias(np.zeros(6), np.full(6, 4e-6)) for _ in range(3)]
    np.testing.assert_allclose(bias_prior(seen).std_acc, 2e-3)


def test_one_recording_says_that_others_may_be_far():
    seen = [RecordingBias(np.array([0.01] * 3 + [0.1] * 3), np.zeros(6))]
    np.testing.assert_allclose(bias_prior(seen).std_acc, 0.1)
