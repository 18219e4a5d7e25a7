"""Scale, lever arm and axes from translations: exact without noise, and honest with it."""

from dataclasses import replace

import numpy as np
import pytest

from consistency.devices import STEP_S, device
from helpers import chi_square_band, numerical_jacobian
from maci2.consistency.rotation import runs_of
from maci2.consistency.translation import (
    ACC_BIAS,
    ACC_MATRIX,
    CAMERA_MATRIX,
    DELAY,
    DRIFT,
    GRAVITY,
    GYRO_BIAS,
    LEVER_ARM,
    SHARED,
    VELOCITY,
    _by_readings,
    _rows,
    fitted,
    translation_sums,
)
from maci2.imu import preintegrate
from maci2.imu.rotation_rates import SIGNED_PERMUTATIONS

BIAS = np.array([0.02, -0.01, 0.03])


def rows_at(one, bias_gyro, bias_acc):
    """Left side of the equation at given biases, with nothing of the window's own."""
    [run] = runs_of(one.windows[:1])
    prior = replace(one.imu.bias_prior, mean_acc=bias_acc)
    imu = replace(one.imu, bias_prior=prior)
    pre = preintegrate(imu, run.stamps_ns, bias_gyro, bias_acc, "midpoint")
    return _rows(run, pre, *_by_readings(imu, run, bias_gyro, "midpoint"), one.T_b_c)


def stated(one, scale=1.0):
    z = np.zeros(SHARED)
    z[CAMERA_MATRIX], z[LEVER_ARM] = one.T_b_c[:3, :3].ravel(), one.T_b_c[:3, 3]
    z[ACC_MATRIX] = np.eye(3).ravel() / scale
    return z


def test_derivatives_by_both_biases_are_those_of_the_integrated_samples():
    one = device(seed=1, windows=1)
    z = stated(one)

    def left(x):
        return (rows_at(one, BIAS + x[3:6], x[0:3])[0] @ z).ravel()

    numeric = numerical_jacobian(left, 6, step=1e-5)
    N = rows_at(one, BIAS, np.zeros(3))[1].reshape(-1, 12)
    np.testing.assert_allclose(N[:, ACC_BIAS], numeric[:, 0:3], atol=1e-6)
    # The lever arm's own rotation by a bias is left out: 0.1 m times the angle of one interval.
    np.testing.assert_allclose(N[:, GYRO_BIAS], numeric[:, 3:6], atol=0.15 * 0.3)
    scale = np.abs(numeric[:, 3:6]).max()
    assert np.abs(N[:, GYRO_BIAS] - numeric[:, 3:6]).max() < 0.05 * scale


def test_derivatives_by_drift_and_delay_are_those_of_the_measurements():
    one = device(seed=1, windows=1, white_noise=False)
    z = stated(one)

    def left(x):
        drifts = (one.T_b_c[:3, :3].T @ x[0:3]) * STEP_S
        Ts = one.windows[0].Ts_ck_ck1.copy()
        Ts[:, :3, 3] -= drifts
        t = one.imu.stamps_ns / 1e9
        # Readings at t of an accelerometer that is late are those of t + delay, put right.
        acc = np.array([np.interp(t + x[3], t, axis) for axis in one.imu.acc.T]).T
        changed = replace(one, windows=[replace(one.windows[0], Ts_ck_ck1=Ts)])
        changed = replace(changed, imu=replace(one.imu, acc=np.ascontiguousarray(acc)))
        return (rows_at(changed, BIAS, np.zeros(3))[0] @ z).ravel()

    # A tenth of a sample: shorter than the straight piece between two, longer than rounding.
    numeric = numerical_jacobian(left, 4, step=5e-4)
    Z = rows_at(one, BIAS, np.zeros(3))[0].reshape(-1, SHARED)
    np.testing.assert_allclose(Z[:, DRIFT], numeric[:, 0:3], atol=1e-9)
    scale = np.abs(numeric[:, 3]).max()
    assert np.abs(Z[:, DELAY] - numeric[:, 3:]).max() < 0.02 * scale


def test_exact_measurements_satisfy_the_equation():
    one = device(
        seed=2, windows=1, noise=1e-6, white_noise=False, bias_gyro_std=0.0, bias_acc_std=0.0
    )
    Z, N = (part.reshape(-1, part.shape[-1]) for part in rows_at(one, np.zeros(3), np.zeros(3)))
    left = Z @ stated(one)
    unknowns = np.linalg.lstsq(N[:, [*range(0, 6)]], -left, rcond=None)[0]
    assert np.abs(left + N[:, 0:6] @ unknowns).max() < 1e-4
    assert np.linalg.norm(unknowns[GRAVITY]) == pytest.approx(9.81, abs=0.01)
    assert np.linalg.norm(unknowns[VELOCITY]) > 0.01


@pytest.mark.parametrize("scale", [0.5, 0.9, 1.0, 1.1, 2.0])
def test_a_scale_is_found_with_its_uncertainty(scale):
    found = device(seed=3).with_scale(1.0 / scale).constants().translation
    assert found is not None
    assert abs(found.scale - scale) < 3.5 * np.sqrt(found.cov[0, 0])
    assert np.sqrt(found.cov[0, 0]) < 0.03 * scale
    assert found.gravity_norm == pytest.approx(9.81, abs=0.1)


def test_noise_does_not_pull_the_scale_towards_zero():
    scales = [device(seed=seed, windows=6, noise=2.0).constants().translation for seed in range(20)]
    away = [(one.scale - 1.0) / np.sqrt(one.cov[0, 0]) for one in scales]
    assert abs(np.mean(away)) < 3.3 / np.sqrt(len(away))


@pytest.mark.parametrize("windows", [6, 12])
def test_variance_of_the_scale_agrees_with_sampled_noise(windows):
    scores = []
    for seed in range(16):
        one = device(seed=200 + seed, windows=windows)
        found = one.constants().translation
        scores.append((found.scale - 1.0) ** 2 / found.cov[0, 0])
        assert np.linalg.norm(found.p_b_c - one.T_b_c[:3, 3]) < 0.01
    low, high = chi_square_band(1, len(scores))
    assert low < np.mean(scores) < high


@pytest.mark.parametrize("index", [0, 5, 13, 24, 29, 38, 47])
def test_axes_and_signs_of_the_accelerometer_are_found(index):
    axes = SIGNED_PERMUTATIONS[index]
    # Readings are axes' times the force: to multiply by `axes` gives the force back.
    found = device(seed=4).with_axes(np.eye(3), axes.T).constants()
    np.testing.assert_array_equal(found.axes, axes)
    assert (found.axes_right > 0.99) == (index == 0)


def test_mirrored_motion_of_the_camera_has_a_negative_scale():
    one = device(seed=8)
    [run] = runs_of(one.windows)
    biases, std = np.zeros((len(one.windows), 3)), np.full(len(one.windows), 0.1)
    sums = translation_sums(one.imu, run, one.T_b_c, biases, std, "midpoint")
    negated = fitted(sums.own_bias, one.T_b_c[:3, :3], one.T_b_c[:3, 3], (), -np.eye(3))
    assert negated.inverse_scale < 0.0
