"""Noise that covariances do not state, read off innovations; calibration that is off."""

from dataclasses import replace

import numpy as np

from maci2.calibration_prior import CALIBRATED, EXACT
from maci2.estimator.visual_noise import BELIEVED_CHI2, Innovation, VisualNoise
from maci2.geometry import se3_exp
from maci2.metrics.track_errors import track_errors
from maci2.odometry import SmootherConfig, track
from maci2.odometry.settings import bias_walks, calibration_spread
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


def test_a_pose_that_noise_explains_keeps_its_covariance():
    prediction = Innovation(np.array([1e-3, 0.0, 2e-3, 1e-4, 0.0, -1e-4]), 3.0 * STATED)
    np.testing.assert_array_equal(VisualNoise().explaining(prediction, STATED), STATED)


def test_a_pose_that_noise_does_not_explain_is_given_just_as_much_as_does():
    rng = np.random.default_rng(3)
    L = 1e-3 * rng.standard_normal((6, 6))
    difference = Innovation(0.02 * rng.standard_normal(6), L @ L.T)
    cov = VisualNoise().explaining(difference, STATED)
    np.testing.assert_allclose(cov / cov[0, 0], STATED / STATED[0, 0], rtol=1e-12)
    chi2 = difference.r @ np.linalg.solve(difference.cov + cov, difference.r)
    assert BELIEVED_CHI2 < chi2 < BELIEVED_CHI2 + 0.02


def test_sigma_covers_the_error_where_single_poses_are_off_by_a_centimetre():
    """Too little to be rejected, more than their covariances say."""
    ride = simulated_ride(302, 20.0, noise=(0.02, 0.0015), kind="drone")
    rng, Ts = np.random.default_rng(302), ride.vision.Ts_ck_ck1.copy()
    for k in range(20, len(Ts) - 5, 15):
        direction = rng.standard_normal(3)
        Ts[k, :3, 3] += 0.01 * direction / np.linalg.norm(direction)
    vision, worst = replace(ride.vision, Ts_ck_ck1=Ts), {}
    for adapted in (True, False):
        config = SmootherConfig(calibration=CALIBRATED, adapt_visual_noise=adapted)
        found = track(ride.imu, vision, ride.T_b_c, ride.walks, vision.stamps_ns, config)
        errors = track_errors(found.states, np.zeros((len(found.states), 3)), ride.truth)
        worst[adapted] = np.sqrt(3.0 * np.nanmax(errors.nees_over_time["velocity"]))
    assert worst[True] < 5.0 < worst[False]


def test_extrinsics_that_are_off_do_not_degrade_the_vertical_where_they_are_doubted():
    ride = simulated_ride(11, duration_s=20.0)
    off = se3_exp(np.array([0.0, 0.0, 0.0, 0.006, -0.004, 0.005])) @ ride.T_b_c
    scores = {}
    for name, spread in {"known": EXACT, "doubted": CALIBRATED}.items():
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
    assert calibration_spread(rig) is EXACT
    assert bias_walks(rig, "raw") == (rig.imu.walk_gyro, rig.imu.walk_acc)
    real = replace(rig, imu=replace(rig.imu, exact=False))
    assert calibration_spread(real) is CALIBRATED
    assert bias_walks(real, "raw")[0] > rig.imu.walk_gyro
