"""Noise of an IMU from motion: the likelihood's slope, and estimates against what was simulated."""

import json

import numpy as np
import pytest

from maci2.errors import CalibrationError
from maci2.estimator.normal_equations import factorize
from maci2.estimator.solver import normal_equations
from maci2.geometry import so3_log
from maci2.imu.model_choice import MeasuredNoise, find_imu_model
from maci2.tools.imu_noise.estimate import (
    NoiseEstimate,
    NoiseLevel,
    WhiteNoise,
    _solve,
    _without_losses,
    estimate_imu_noise,
)
from maci2.tools.imu_noise.likelihood import likelihood_slope
from maci2.tools.imu_noise.run import high_frequency_density
from tools.imu_noise.noise_cases import TRUE_LEVELS, WRONG_SHEET, noise_problem, tracked_recording

RECORDINGS = 100


def levels_of(estimate):
    return (
        *estimate.gyro.axes,
        *estimate.acc.axes,
        estimate.walk_gyro,
        estimate.walk_acc,
    )


def normalized_errors(estimate):
    return np.array(
        [
            np.log(level.value / true) / level.std_log
            for level, true in zip(levels_of(estimate), TRUE_LEVELS, strict=True)
        ]
    )


def log_likelihood(chain, logs):
    """States integrated out by Laplace's formula, up to a constant."""
    solution = _solve(chain, logs)
    system = normal_equations(solution)
    assert factorize(system, 0.0, system)
    diagonals = np.einsum("kii->ki", system.rows[:, :, :15])
    log_det = 2.0 * np.log(diagonals).sum() + 2.0 * np.log(np.diag(system.border)).sum()
    white = np.einsum("kii->ki", solution.measurements.white)
    return -0.5 * (solution.cost + log_det) + np.log(white).sum()


def test_the_slope_is_that_of_the_likelihood_with_states_integrated_out():
    chain = _without_losses(noise_problem("handheld", 3, 9.0))
    logs = 2.0 * np.log(TRUE_LEVELS) + 0.3 * np.random.default_rng(3).standard_normal(8)
    solution = _solve(chain, logs)
    slope = likelihood_slope(solution, np.exp(logs))
    step = 1e-3
    for i in range(8):
        moved = [logs + sign * step * np.eye(8)[i] for sign in (1.0, -1.0)]
        high, low = (log_likelihood(chain, at) for at in moved)
        numeric = (high - low) / (2.0 * step)
        # The integral over rotations is Laplace's; its curvature changes with the states.
        assert slope.score[i] == pytest.approx(numeric, rel=0.01, abs=0.02)


@pytest.mark.parametrize(("kind", "vibration"), [("handheld", 0.0), ("drone", 3.0), ("car", 0.0)])
def test_levels_are_found_from_a_wrong_data_sheet(kind, vibration):
    estimate = estimate_imu_noise([noise_problem(kind, 40, 20.0, vibration)], WRONG_SHEET)
    assert estimate.converged
    assert np.abs(normalized_errors(estimate)).max() < 4.0
    # The accelerometer's walk shows in twenty seconds: its sheet was wrong by a factor of three.
    assert estimate.walk_acc.seen


def estimate_of(logs, stds):
    axes = [NoiseLevel(float(np.exp(log)), std) for log, std in zip(logs, stds, strict=True)]
    walks = [NoiseLevel(1e-5, 0.1), NoiseLevel(1e-3, 0.1)]
    sensor = WhiteNoise(tuple(axes), np.diag(np.square(stds)))
    return NoiseEstimate(sensor, sensor, *walks, True)


def test_an_axis_that_hardly_shows_counts_little_where_axes_are_alike():
    estimate = estimate_of((-7.0, -7.2, -9.0), (0.2, 0.2, 2.0))
    assert not estimate.gyro.differs
    assert np.log(estimate.gyro.pooled.value) == pytest.approx((-7.0 - 7.2 - 0.09) / 2.01)
    assert estimate.gyro.pooled.std_log == pytest.approx(0.2 / np.sqrt(2.01))
    np.testing.assert_allclose(estimate.levels()[:6], estimate.gyro.pooled.value)


def test_axes_that_differ_stay_apart_and_tools_get_the_root_mean_square():
    estimate = estimate_of((-7.0, -7.2, -9.0), (0.1, 0.1, 0.1))
    np.testing.assert_allclose(np.log(estimate.levels()[3:6]), (-7.0, -7.2, -9.0))
    variances = np.exp(2.0 * np.array([-7.0, -7.2, -9.0]))
    assert estimate.pooled(200.0).density_acc == pytest.approx(np.sqrt(variances.mean()))


def test_two_recordings_know_more_than_one():
    first, second = (noise_problem("handheld", seed, 15.0) for seed in (41, 42))
    one = estimate_imu_noise([first], WRONG_SHEET)
    two = estimate_imu_noise([first, second], WRONG_SHEET)
    assert two.acc.axes[0].std_log < one.acc.axes[0].std_log


def test_vibration_shows_in_the_roughness_and_not_in_what_integrates():
    recording, _ = tracked_recording("drone", 40, 20.0, vibration=3.0)
    rough = high_frequency_density(recording.imu)[3:]
    assert (rough > 20.0 * TRUE_LEVELS[3]).all()
    still, _ = tracked_recording("drone", 40, 20.0)
    np.testing.assert_allclose(high_frequency_density(still.imu), TRUE_LEVELS[:6], rtol=0.1)


def integration_nees(recording, measure, horizon):
    """Mean squared normalized rotation, velocity and position error per degree of freedom over
    windows of `horizon` samples that do not overlap, the bias at their start known."""
    from dataclasses import replace

    from maci2.estimator.measurements import integrate_spans, walking_covariance
    from maci2.types import GRAVITY_W

    imu, truth = measure(recording.imu, recording.rig.imu), recording.truth()
    at = np.searchsorted(truth.stamps_ns, imu.stamps_ns[0:-1:horizon])
    starts, ends = at[:-1], at[1:]
    bias = np.hstack([truth.bias_gyro, truth.bias_acc])[starts]
    spans = integrate_spans(replace(imu), truth.stamps_ns[starts], truth.stamps_ns[ends], bias)
    covs = walking_covariance(spans, imu.walk_gyro, imu.walk_acc)[:, :9, :9]
    squares = []
    for k, (i, j) in enumerate(zip(starts, ends, strict=True)):
        R, dt = truth.Ts_w_b[i, :3, :3], spans.dt[k]
        moved = truth.Ts_w_b[j, :3, 3] - truth.Ts_w_b[i, :3, 3] - truth.v_w[i] * dt
        e = np.concatenate(
            [
                so3_log(truth.Ts_w_b[j, :3, :3].T @ R @ spans.gamma[k]),
                spans.beta[k] - R.T @ (truth.v_w[j] - truth.v_w[i] - GRAVITY_W * dt),
                spans.alpha[k] - R.T @ (moved - 0.5 * GRAVITY_W * dt**2),
            ]
        )
        squares.append(e @ np.linalg.solve(covs[k], e) / 9.0)
    return float(np.mean(squares))


@pytest.mark.soak
@pytest.mark.parametrize(("kind", "vibration"), [("handheld", 0.0), ("drone", 3.0), ("car", 0.0)])
def test_a_hundred_recordings_are_within_three_sigmas(kind, vibration):
    errors, nees = [], []
    for seed in range(1000, 1000 + RECORDINGS // 3 + 1):
        estimate = estimate_imu_noise([noise_problem(kind, seed, 30.0, vibration)], WRONG_SHEET)
        errors.append(normalized_errors(estimate))
        levels = estimate.levels()
        found = MeasuredNoise(levels[:3], levels[3:6], *levels[6:])
        recording, _ = tracked_recording(kind, seed + 5000, 30.0)
        nees.append([integration_nees(recording, found.measure, horizon) for horizon in (50, 200)])
    assert np.mean(np.abs(errors) < 3.0) > 0.95
    assert ((np.mean(nees, axis=0) > 0.8) & (np.mean(nees, axis=0) < 1.25)).all(), nees


def noise_file(tmp_path, **changes):
    record = {
        "density_gyro": {"axes": [1e-3, 2e-3, 3e-3]},
        "density_acc": {"axes": [1e-2, 2e-2, 3e-2]},
        "walk_gyro": {"value": 1e-5},
        "walk_acc": {"value": 1e-3},
    } | changes
    path = tmp_path / "noise.json"
    path.write_text(json.dumps(record))
    return path


def test_a_noise_file_gives_variances_of_each_axis_and_walks(tmp_path):
    recording, _ = tracked_recording("handheld", 1, 2.0)
    measure = find_imu_model(f"noise:{noise_file(tmp_path)}")
    imu = measure(recording.imu, recording.rig.imu)
    np.testing.assert_allclose(imu.var_gyro[7], np.array([1e-3, 2e-3, 3e-3]) ** 2 * 200.0)
    assert (imu.walk_gyro, imu.walk_acc) == (1e-5, 1e-3)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"density_gyro": {"value": 1.0}}, "axes"),
        ({"density_acc": {"axes": [1.0, 2.0]}}, "density_acc.axes"),
        ({"density_acc": {"axes": [0.0, 1.0, 1.0]}}, "above 0"),
        ({"walk_acc": {"value": "much"}}, "walk_acc.value"),
        ({"walk_gyro": 3}, "walk"),
    ],
)
def test_a_damaged_noise_file_is_refused_by_name(tmp_path, changes, said):
    path = noise_file(tmp_path, **changes)
    with pytest.raises(CalibrationError, match=said) as raised:
        find_imu_model(f"noise:{path}")
    assert str(path) in str(raised.value)


def test_a_file_of_another_kind_says_what_is_needed(tmp_path):
    path = tmp_path / "other.json"
    path.write_text("{}")
    with pytest.raises(CalibrationError, match="maci2 noise --json"):
        find_imu_model(f"noise:{path}")
