"""A late accelerometer and a camera that drifts: found over all windows, honest, and named."""

from dataclasses import replace

import numpy as np
import pytest

from consistency.devices import STEP_S, device
from helpers import chi_square_band
from maci2.consistency import InitLimits, initialize

DRIFT_C = np.array([0.0, 0.0, 0.2])


def with_late_acc(one, samples):
    acc = np.vstack([np.repeat(one.imu.acc[:1], samples, axis=0), one.imu.acc[:-samples]])
    return replace(one, imu=replace(one.imu, acc=acc))


def with_drift(one, drift_c):
    windows = []
    for window in one.windows:
        Ts = window.Ts_ck_ck1.copy()
        Ts[:, :3, 3] += STEP_S * drift_c
        windows.append(replace(window, Ts_ck_ck1=Ts))
    return replace(one, windows=windows)


@pytest.fixture(scope="module")
def sound():
    return device(seed=1, windows=16)


def test_a_delay_is_found_with_its_uncertainty(sound):
    delayed = with_late_acc(sound, 4)
    expected_s = 4 * float(np.median(np.diff(sound.imu.stamps_ns))) / 1e9
    found = delayed.constants().translation.motion_errors
    assert abs(found.delay_s - expected_s) < 3.5 * np.sqrt(found.var_delay) + 0.05 * expected_s
    assert np.sqrt(found.var_delay) < 0.002


def test_a_drift_is_found_with_its_uncertainty(sound):
    found = with_drift(sound, DRIFT_C).constants().translation.motion_errors
    away = sound.T_b_c[:3, :3].T @ found.drift_b - DRIFT_C
    assert np.abs(away).max() < 3.5 * np.sqrt(np.diag(found.cov_drift_b)).max()
    assert np.sqrt(np.diag(found.cov_drift_b)).max() < 0.05


def test_covariances_agree_with_sampled_noise():
    delays, drifts = [], []
    for seed in range(16):
        found = device(seed=400 + seed, windows=16).constants().translation.motion_errors
        delays.append(found.delay_s**2 / found.var_delay)
        drifts.append(found.drift_b @ np.linalg.solve(found.cov_drift_b, found.drift_b))
    for d, scores in ((1, delays), (3, drifts)):
        low, high = chi_square_band(d, len(scores))
        # Where noise is less than stated by chance, the covariance stays as stated.
        assert 0.8 * low < np.mean(scores) < high


def test_too_few_windows_say_nothing():
    assert device(seed=1, windows=15).constants().translation.motion_errors is None


def verdicts(one):
    constants = replace(one.constants(), is_complete=True)
    limits = InitLimits(trust_constants=False)
    return [
        initialize(one.imu, window, one.T_b_c, None, limits, constants).verdict
        for window in one.windows
    ]


def test_sound_windows_are_ok(sound):
    assert {verdict.status for verdict in verdicts(sound)} == {"ok"}


@pytest.mark.parametrize(
    ("fault", "named"),
    [
        (lambda one: with_late_acc(one, 10), "ms late against gyroscope and camera"),
        (lambda one: with_drift(one, DRIFT_C), "drifts by ("),
    ],
)
def test_a_verdict_names_them(sound, fault, named):
    for verdict in verdicts(fault(sound)):
        assert verdict.status == "weak"
        assert named in verdict.reasons[0]
