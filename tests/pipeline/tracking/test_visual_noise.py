"""Noise that covariances do not state, read off innovations; calibration that is off."""

from dataclasses import replace

import numpy as np

from maci2.evaluation.track_errors import track_errors
from maci2.lie import se3_exp
from maci2.pipeline.tracking import SmootherConfig, track
from maci2.pipeline.tracking.calibration_spread import (
    KNOWN,
    MEASURED,
    bias_walks,
    calibration_spread,
)
from maci2.pipeline.tracking.smoother import covered
from maci2.pipeline.tracking.visual_noise import Innovation, VisualNoise
from maci2.simulation import SimulationConfig, simulate
from tracking_cases import simulated_ride

STATED = np.diag([1e-6] * 3 + [1e-8] * 3)


def observed(std_phi, count, seed=0):
    """The noise after innovations whose rotation has this standard deviation."""
    rng, noise = np.random.default_rng(seed), VisualNoise()
    for _ in range(count):
        r = np.concatenate([1e-3 * rng.standard_normal(3), std_phi * rng.standard_normal(3)])
        noise.observe(Innovation(r, np.zeros((6, 6))), STATED)
    return noise


def test_noise_as_stated_stays_as_stated():
    assert (
        sum(observed(1e-4, 50, seed).covariance(STATED)[5, 5] > 1.0001e-8 for seed in range(20)) < 3
    )


def test_rotation_noise_that_lasts_is_found_and_translation_is_left_alone():
    for seed in range(5):
        noise = observed(5e-4, 50, seed)
        lasting = noise.covariance(STATED) / noise.factor
        assert 0.6 < lasting[5, 5] / 25e-8 < 1.6
        assert lasting[0, 0] < 1.5e-6


def test_a_few_outliers_are_no_noise():
    noise = observed(1e-4, 47)
    for _ in range(3):
        noise.observe(Innovation(np.full(6, 1.0), np.zeros((6, 6))), STATED)
    for _ in range(5):
        noise.observe(Innovation(np.zeros(6), np.zeros((6, 6))), STATED)
    assert noise.covariance(STATED)[5, 5] < 4e-8


def slow_factor_of(slow_share, count, seed):
    """Factor after innovations of the stated size, of whose variance a share lasts for a second."""
    rng, noise = np.random.default_rng(seed), VisualNoise()
    slow = np.zeros(3)
    for _ in range(count):
        slow = 0.8 * slow + 0.6 * rng.standard_normal(3)
        fast = rng.standard_normal(3)
        phi = 1e-4 * (np.sqrt(slow_share) * slow + np.sqrt(1.0 - slow_share) * fast)
        r = np.concatenate([1e-3 * rng.standard_normal(3), phi])
        noise.observe(Innovation(r, np.zeros((6, 6))), STATED)
    return noise.slow_factor


def test_errors_that_last_for_seconds_show_in_sums_and_not_in_single_innovations():
    found = [slow_factor_of(0.5, 200, seed) for seed in range(10)]
    # Sums of ten have 1 + 2 sum (1 - k / 10) 0.5 0.8^k = 3.4 times the variance.
    assert 2.2 < np.mean(found) < 4.0
    assert min(found) > 1.3


def test_independent_innovations_are_not_taken_for_slow_errors():
    found = [slow_factor_of(0.0, count, seed) for count in (60, 200) for seed in range(20)]
    assert np.mean(np.array(found) == 1.0) > 0.8
    assert np.mean(found) < 1.1


def test_a_covariance_that_covers_slow_errors_widens_vertical_and_gyroscope_bias_alone():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((2, 15, 15))
    cov = A @ np.swapaxes(A, 1, 2)
    wide = covered(cov, 4.0)
    np.testing.assert_allclose(wide[:, 0:3, 0:3], 4.0 * cov[:, 0:3, 0:3])
    np.testing.assert_allclose(wide[:, 9:12, 9:12], 4.0 * cov[:, 9:12, 9:12])
    np.testing.assert_array_equal(wide[:, 3:9, 3:9], cov[:, 3:9, 3:9])
    assert np.linalg.eigvalsh(wide).min() > 0.0


def test_extrinsics_that_are_off_do_not_spoil_the_vertical_where_they_are_doubted():
    ride = simulated_ride(11, duration_s=20.0)
    off = se3_exp(np.array([0.0, 0.0, 0.0, 0.006, -0.004, 0.005])) @ ride.T_b_c
    scores = {}
    for name, spread in {"known": KNOWN, "doubted": MEASURED}.items():
        # Without it: noise read off innovations would cover a part of it, too.
        config = SmootherConfig(calibration=spread, adapt_visual_noise=False)
        found = track(ride.imu, ride.vision, off, ride.walks, ride.vision.stamps_ns, config)
        gyro = np.array([state.gyro_bias for state in found.states])
        errors = track_errors(found.states, gyro, ride.truth, found.origins)
        scores[name] = errors.nees
    for part in ("gravity", "orientation"):
        assert scores["doubted"][part] < 0.7 * scores["known"][part]
        assert scores["doubted"][part] < 2.0
    assert scores["doubted"]["gyro_bias"] < scores["known"]["gyro_bias"]


def test_a_simulated_rig_is_taken_at_its_word_and_a_real_one_is_not():
    rig = simulate(SimulationConfig(duration_s=2.0)).rig
    assert calibration_spread(rig) is KNOWN
    assert bias_walks(rig) == (rig.imu.walk_gyro, rig.imu.walk_acc)
    real = replace(rig, imu=replace(rig.imu, exact=False))
    assert calibration_spread(real) is MEASURED
    assert bias_walks(real)[0] > rig.imu.walk_gyro
