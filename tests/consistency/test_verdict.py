"""Verdicts in plain words: what is missing, by how much, on which axis."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from helpers import simulated_window
from maci2.consistency import (
    CalibrationLimits,
    InitLimits,
    calibrate,
    initialize,
    rotation_about_axes_deg,
)
from maci2.errors import Maci2Error, MeasurementError
from maci2.estimator import InitResult, SolverConfig, SolveReport, Verdict, direction_std
from maci2.estimator.initialize import solve_window
from maci2.geometry import se3_exp
from maci2.vision import RelativePoses


def started(window, **options):
    return initialize(window.imu, window.vision, window.truth.T_b_c, **options)


def all_reasons(result):
    return "; ".join(result.verdict.reasons)


def assert_finite(result):
    if result.state is None:
        return
    for part in (result.state, result.posterior):
        for name, value in vars(part).items():
            assert np.isfinite(value).all(), name


@pytest.mark.parametrize("kind", ["handheld", "drone", "car"])
def test_good_motion_is_ok_without_a_reason(kind):
    result = started(simulated_window(kind, seed=1))
    assert (result.verdict.status, result.verdict.reasons) == ("ok", ())
    assert result.report.converged
    assert 0.0 < result.gravity_std_deg < 1.0


def test_the_verdict_is_a_plain_value_of_the_result_when_the_call_returns():
    window = simulated_window(seed=1)
    result = started(window)
    assert vars(result)["verdict"] == Verdict("ok", ())
    solved = solve_window(window.imu, window.vision, window.truth.T_b_c, SolverConfig())
    np.testing.assert_array_equal(solved.state.velocity_b, result.velocity_b)
    np.testing.assert_array_equal(solved.posterior.gravity_c0, result.posterior.gravity_c0)


def test_a_result_is_pickled_and_replaced_with_its_verdict():
    window = simulated_window(seed=1)
    stored = pickle.loads(pickle.dumps(started(window)))
    assert stored.verdict == started(window).verdict == Verdict("ok", ())
    np.testing.assert_array_equal(stored.state.gravity_c0, started(window).state.gravity_c0)
    again = replace(started(window), state=None, posterior=None)
    assert (again.verdict.status, again.state) == ("ok", None)


def test_good_motion_calibrates_without_a_reason():
    window = simulated_window("handheld", seed=1, steps=40)
    assert calibrate(window.imu, window.vision).verdict == Verdict("ok", ())


@pytest.mark.parametrize("seed", range(6))
def test_calibrating_without_rotation_names_every_axis_of_the_position(seed):
    window = simulated_window("straight", seed=seed, steps=40)
    result = calibrate(window.imu, window.vision)
    assert result.verdict.status in ("weak", "failed")
    for axis in "xyz":
        assert f"position along the IMU's {axis} axis" in all_reasons(result)
    assert "too little rotation about" in all_reasons(result)
    assert_finite(result)


@pytest.mark.parametrize("seed", range(8))
def test_turning_in_the_plane_leaves_the_height_of_the_camera_unknown(seed):
    window = simulated_window("planar_yaw", seed=seed, steps=40)
    result = calibrate(window.imu, window.vision)
    assert result.verdict.status in ("weak", "failed")
    assert "position along the IMU's z axis" in all_reasons(result)
    assert "too little rotation about x or y" in all_reasons(result)
    for axis in "xy":
        assert f"position along the IMU's {axis} axis" not in all_reasons(result)


@pytest.mark.parametrize("seed", range(6))
def test_calibrating_at_rest_fails_with_all_axes_named(seed):
    window = simulated_window("static", seed=seed, steps=40)
    result = calibrate(window.imu, window.vision)
    assert result.verdict.status in ("weak", "failed")
    for axis in "xyz":
        assert f"the IMU's {axis} axis" in all_reasons(result)


def test_too_few_keyframes_are_counted():
    window = simulated_window(seed=1, steps=2)
    for call in (lambda: started(window), lambda: calibrate(window.imu, window.vision)):
        with pytest.raises(MeasurementError, match="3 keyframes, needed at least 4"):
            call()


def test_keyframes_closer_than_the_imu_can_see_are_refused():
    window = simulated_window(seed=1, step_s=0.015, steps=6, camera_rate_hz=200.0)
    with pytest.raises(MeasurementError) as raised:
        started(window)
    for part in ("15.0 ms apart", "every 5.0 ms", "at least 4 samples"):
        assert part in str(raised.value)


def test_the_fewest_and_closest_keyframes_allowed_still_give_an_answer():
    window = simulated_window(seed=1, step_s=0.02, steps=3, camera_rate_hz=200.0)
    result = started(window)
    # 60 ms are no window to start from.
    assert result.verdict.status in ("weak", "failed")
    assert_finite(result)


@pytest.mark.parametrize("seed", range(3))
def test_visual_noise_ten_times_what_was_stated_is_noticed(seed):
    window = simulated_window(seed=seed, noise_scale=10.0)
    result = started(window)
    assert result.report.inflation > 30.0
    assert f"chi-square {result.report.cost:.0f} for {result.report.dof}" in all_reasons(result)
    assert "times the stated value" in all_reasons(result)
    assert "vision and gyroscope disagree by" in all_reasons(result)
    # The answer knows that it is worse than one from noise as stated.
    good = started(simulated_window(seed=seed))
    assert result.gravity_std_deg > 1.5 * good.gravity_std_deg
    assert good.report.inflation == 1.0


def test_calibration_notices_visual_noise_ten_times_what_was_stated():
    window = simulated_window(seed=2, steps=40, noise_scale=10.0)
    result = calibrate(window.imu, window.vision)
    assert result.report.inflation > 30.0
    assert "chi-square" in all_reasons(result)


@pytest.mark.parametrize("scale", [0.1, 0.5, 1.1, 1.3, 2.0])
@pytest.mark.parametrize("kind", ["handheld", "drone"])
def test_an_accelerometer_of_the_wrong_scale_is_not_ok(kind, scale):
    result = started(simulated_window(kind, seed=2, shape_acc=scale * np.eye(3)))
    assert result.verdict.status in ("weak", "failed")
    assert result.verdict.reasons != ()
    assert_finite(result)


def test_a_gyroscope_in_degrees_is_not_ok():
    result = started(simulated_window(seed=2, shape_gyro=57.3 * np.eye(3)))
    assert result.verdict.status in ("weak", "failed")
    assert result.verdict.reasons != ()
    assert_finite(result)


def test_a_camera_turned_against_the_given_extrinsics_is_not_ok():
    window = simulated_window(seed=2)
    wrong = window.truth.T_b_c @ np.diag([-1.0, -1.0, 1.0, 1.0])
    result = initialize(window.imu, window.vision, wrong)
    assert result.verdict.status in ("weak", "failed")
    assert_finite(result)


def test_a_window_too_short_for_the_limits_says_what_is_missing():
    window = simulated_window("drone", seed=3, steps=3, step_s=0.1)
    result = started(window)
    assert result.verdict.status in ("weak", "failed")
    found = f"gravity's direction is known to {result.gravity_std_deg:.2g} deg only, needed 1"
    assert found in all_reasons(result)


def test_limits_decide_between_ok_weak_and_failed():
    window = simulated_window(seed=4)
    std = started(window).gravity_std_deg
    statuses = [
        started(window, limits=InitLimits(gravity_deg=factor * std, velocity=1.0)).verdict.status
        for factor in (2.1, 1.9, 0.6, 0.4)
    ]
    assert statuses == ["ok", "weak", "weak", "failed"]


def test_calibration_limits_name_the_axis_that_misses_them():
    window = simulated_window(seed=4, steps=40)
    std = np.sqrt(np.diag(calibrate(window.imu, window.vision).posterior.T_b_c))
    worst = int(np.argmax(std[:3]))
    second = np.sort(std[:3])[-2]
    limits = CalibrationLimits(translation=float(std[worst] + second))
    result = calibrate(window.imu, window.vision, limits=limits)
    assert result.verdict.status == "weak"
    assert len(result.verdict.reasons) == 1
    assert f"position along the IMU's {'xyz'[worst]} axis" in result.verdict.reasons[0]


def test_a_covariance_that_is_not_positive_definite_never_reaches_the_solver():
    window = simulated_window(seed=1)
    covs = window.vision.covs_T_ck_ck1.copy()
    covs[3, 2, 2] = -1e-6
    with pytest.raises(MeasurementError, match=r"covs_T_ck_ck1 is not positive definite at index"):
        RelativePoses(window.vision.stamps_ns, window.vision.Ts_ck_ck1, covs)


@pytest.mark.parametrize("kind", ["handheld", "drone", "car", "static", "straight", "planar_yaw"])
@pytest.mark.parametrize("seed", range(3))
def test_no_motion_makes_initialization_return_nan(kind, seed):
    assert_finite(started(simulated_window(kind, seed=seed)))


@pytest.mark.parametrize("seed", range(5, 9))
def test_an_outlier_in_vision_is_rejected_and_named(seed):
    window = simulated_window(seed=seed)
    Ts = window.vision.Ts_ck_ck1.copy()
    Ts[4, :3, 3] += [2.0, -1.0, 3.0]
    Ts[4, :3, :3] = np.diag([1.0, -1.0, -1.0]) @ Ts[4, :3, :3]
    result = started(replace(window, vision=replace(window.vision, Ts_ck_ck1=Ts)))
    assert "1 of 9 relative poses contradict the IMU" in all_reasons(result)
    error = np.linalg.norm(result.state.velocity_b - window.truth.velocity_b, axis=1)
    assert np.sqrt(np.mean(error**2)) < 0.1


def test_noise_far_beyond_what_was_stated_is_noticed_and_leaves_numbers_finite():
    result = started(simulated_window(seed=5, noise_scale=30.0))
    assert result.verdict.status in ("weak", "failed")
    assert result.verdict.reasons != ()
    assert_finite(result)


@pytest.mark.parametrize("name", ["gyro", "acc", "var_gyro", "var_acc"])
def test_nan_in_the_imu_samples_is_refused_in_words(name):
    window = simulated_window(seed=5)
    values = getattr(window.imu, name).copy()
    values[200, 1] = np.nan
    with pytest.raises(Maci2Error, match="NaN"):
        started(replace(window, imu=replace(window.imu, **{name: values})))


def test_an_answer_that_does_not_exist_has_no_uncertainty():
    report = SolveReport(False, np.inf, 10, 50, 1.0)
    assert InitResult(Verdict("failed", ("why",)), report).gravity_std_deg is None


def test_direction_std_counts_only_what_lies_across():
    g = np.array([0.0, 0.0, -9.81])
    cov = np.diag([0.01, 0.04, 100.0])
    assert direction_std(g, cov) == pytest.approx(np.sqrt(0.05) / 9.81)


def test_rotation_about_axes_is_peak_to_peak_in_the_first_body():
    window = simulated_window("planar_yaw", seed=1, steps=20)
    turned_deg = rotation_about_axes_deg(window.truth.Ts_c0_b)
    assert turned_deg[2] > 10.0
    np.testing.assert_allclose(turned_deg[:2], 0.0, atol=1e-9)


def test_one_wrong_visual_step_does_less_harm_with_the_robust_loss():
    errors = {True: [], False: []}
    for seed in range(8):
        window = simulated_window("handheld", seed=seed)
        Ts = window.vision.Ts_ck_ck1.copy()
        Ts[4] = se3_exp(np.array([0.2, -0.1, 0.1, 0.0, 0.0, 0.05])) @ Ts[4]
        vision = replace(window.vision, Ts_ck_ck1=Ts)
        for robust in errors:
            state = started(
                replace(window, vision=vision), config=SolverConfig(robust=robust)
            ).state
            errors[robust].append(np.linalg.norm(state.velocity_b - window.truth.velocity_b))
    assert np.mean(errors[True]) < 0.7 * np.mean(errors[False])
