"""Extrinsic rotation and time offset from rates: right, and as uncertain as they say."""

from dataclasses import replace

import numpy as np
import pytest

from consistency.devices import device
from helpers import chi_square_band, numerical_jacobian
from maci2.calibration_prior import UNKNOWN
from maci2.consistency.rotation import (
    PRIOR_WEIGHT,
    RotationSums,
    _gradients,
    _information,
    _misfit,
    compare_rotations,
    estimate_rotation,
    runs_of,
)
from maci2.geometry import se3_exp, so3_exp, so3_log
from maci2.types import NS


def sums_of(one):
    parts = [compare_rotations(one.imu, run, "midpoint").sums for run in runs_of(one.windows)]
    return RotationSums(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def error_of(estimate, R_b_c):
    return so3_log(np.ascontiguousarray(estimate.R_b_c @ R_b_c.T))


@pytest.mark.parametrize("stated", ["right", "identity", "half a revolution off"])
def test_the_rotation_is_found_whatever_was_stated(stated):
    one = device(seed=3, noise=1e-3, white_noise=False)
    R_b_c = one.T_b_c[:3, :3]
    opposite = np.diag([1.0, -1.0, -1.0]) @ R_b_c
    guesses = {"right": R_b_c, "identity": np.eye(3), "half a revolution off": opposite}
    estimate = estimate_rotation(sums_of(one), guesses[stated])
    assert np.linalg.norm(error_of(estimate, R_b_c)) < 1e-3
    assert abs(estimate.time_offset_s) < 1e-3
    assert estimate.mirror_ratio < -50.0


@pytest.mark.parametrize("offset_s", [-0.01, 0.015])
def test_a_camera_whose_clock_is_off_is_found(offset_s):
    one = device(seed=5)
    shift_ns = round(offset_s * NS)
    windows = [replace(w, stamps_ns=w.stamps_ns - shift_ns) for w in one.windows]
    estimate = estimate_rotation(sums_of(replace(one, windows=windows)), one.T_b_c[:3, :3])
    # The derivative is taken over 8 ms; 15 ms are a little beyond its reach.
    assert estimate.time_offset_s == pytest.approx(offset_s, abs=2e-3)


def test_covariance_agrees_with_sampled_noise():
    errors = []
    for seed in range(24):
        one = device(seed=100 + seed, windows=6)
        estimate = estimate_rotation(sums_of(one), one.T_b_c[:3, :3])
        error = np.append(error_of(estimate, one.T_b_c[:3, :3]), estimate.time_offset_s)
        errors.append(error @ np.linalg.solve(estimate.cov, error))
    low, high = chi_square_band(4, len(errors))
    # Where noise is less than stated by chance, the covariance stays as stated.
    assert 0.8 * low < np.mean(errors) < high


def test_noise_above_the_stated_one_widens_the_covariance():
    quiet, loud = (
        estimate_rotation(sums_of(one), one.T_b_c[:3, :3])
        for one in (device(seed=7, windows=6), device(seed=7, windows=6, noise=4.0))
    )
    assert quiet.variance_ratio < 1.5
    assert 8.0 < loud.variance_ratio < 24.0
    assert loud.cov[0, 0] > 5.0 * quiet.cov[0, 0]


def test_gradient_and_curvature_are_those_of_the_misfit():
    one = device(seed=9, windows=4)
    sums = sums_of(one)
    total = sums.products.sum(axis=0)
    R, offset_s = so3_exp(np.array([0.1, -0.2, 0.15])) @ one.T_b_c[:3, :3], 0.003

    def misfit(x):
        return np.array([_misfit(total, so3_exp(x[:3]) @ R, offset_s + x[3])])

    gradient = numerical_jacobian(misfit, 4)[0]
    analytic = 2.0 * _gradients(sums, R, offset_s).sum(axis=0)
    np.testing.assert_allclose(analytic, gradient, rtol=1e-6, atol=1e-4 * np.abs(gradient).max())
    # The curvature is of use at the minimum, where it is that of noise-free products.
    estimate = estimate_rotation(sums, R)

    def slope(x):
        return _gradients(sums, so3_exp(x[:3]) @ estimate.R_b_c, estimate.time_offset_s + x[3]).sum(
            axis=0
        )

    information = _information(total, estimate.R_b_c, estimate.time_offset_s)
    without_priors = information - np.diag([PRIOR_WEIGHT] * 3 + [UNKNOWN.camera_clock_s**-2.0])
    np.testing.assert_allclose(
        without_priors, numerical_jacobian(slope, 4), rtol=1e-3, atol=1e-4 * information.max()
    )


def test_a_mirrored_gyroscope_is_told_from_a_rotated_one():
    one = device(seed=11)
    mirrored = one.with_axes(np.diag([1.0, 1.0, -1.0]), np.eye(3))
    assert estimate_rotation(sums_of(mirrored), one.T_b_c[:3, :3]).mirror_ratio > 50.0


def test_a_device_that_does_not_rotate_says_nothing_of_its_extrinsics():
    one = device(seed=13, kind="static")
    estimate = estimate_rotation(sums_of(one), one.T_b_c[:3, :3])
    assert np.sqrt(np.linalg.eigvalsh(estimate.cov[:3, :3])[0]) > np.deg2rad(2.0)


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_a_frozen_camera_is_named(noise):
    one = device(seed=9)
    rng = np.random.default_rng(9)
    windows = []
    for window in one.windows:
        Ts = np.array([se3_exp(noise * xi) for xi in drawn(rng, window.covs_T_ck_ck1)])
        windows.append(replace(window, Ts_ck_ck1=Ts))
    [reason] = replace(one, windows=windows).constants().contradictions()
    assert "the camera shows no rotation while the gyroscope does" in reason


def drawn(rng, covs):
    return [rng.multivariate_normal(np.zeros(6), cov) for cov in covs]


@pytest.mark.parametrize("kind", ["static", "straight", "handheld"])
def test_a_camera_that_measures_is_not_called_frozen(kind):
    assert not device(seed=9, kind=kind).constants().rotation.is_camera_still
