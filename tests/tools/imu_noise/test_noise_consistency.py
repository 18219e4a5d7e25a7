"""NEES of integration errors between the states of a chain, with right noise and with wrong."""

from dataclasses import replace

import numpy as np
import pytest

from maci2.estimator.measurements import integrate_spans, walking_covariance
from maci2.estimator.problem import POSITION, ROTATION, VELOCITY
from maci2.estimator.residuals import whitened_factors
from maci2.estimator.solver import IMU, covariance
from maci2.geometry import so3_log
from maci2.simulation.recording import MEMS_NOISE
from maci2.tools.imu_noise.consistency import compose_windows, consistency
from maci2.tools.imu_noise.estimate import fit_reference_noise, stated_levels
from maci2.tools.imu_noise.run import _thinned, measure_noise
from tools.imu_noise.noise_cases import TRUE_LEVELS, noise_problem

TRAINING = ("MH_01_easy", "MH_05_difficult", "V2_01_easy", "V2_03_difficult")


def scored(problem, levels):
    return consistency(fit_reference_noise(problem, levels))


def scores(problems, levels):
    found = [scored(problem, levels) for problem in problems]
    parts = {name: [one.nees[name] for one in found] for name in found[0].nees}
    return {name: np.mean(values) for name, values in parts.items()}, found


def test_right_noise_is_consistent_and_a_third_of_it_is_not():
    problems = [noise_problem("handheld", seed, 20.0) for seed in (60, 61)]
    right, found = scores(problems, TRUE_LEVELS)
    # Neighbouring errors go together: some tens of them are independent.
    assert all(0.7 < score < 1.4 for score in right.values()), right
    assert all(0.0 < shown < 1.0 for shown in found[0].shown.values())
    wrong, _ = scores(problems, TRUE_LEVELS / 3.0)
    assert all(score > 4.0 for score in wrong.values()), wrong
    large, _ = scores(problems, TRUE_LEVELS * 3.0)
    assert all(score < 0.75 for score in large.values()), large


def test_errors_are_as_correlated_as_white_noise_leaves_them():
    found = scored(noise_problem("handheld", 62, 20.0), TRUE_LEVELS)
    assert found.expected[0] > 5.0 * found.chance
    apart = (found.correlation - found.expected) / found.chance
    assert np.sqrt(np.mean(apart**2)) < 2.0, apart


NOISY = replace(MEMS_NOISE, density_acc=15.0 * MEMS_NOISE.density_acc)
"""An accelerometer in vibration: over a second it moves further than its reference is off."""


def sparse_problem(seed):
    """States every tenth of a second and two rows a second, as beside a real capture."""
    problem = noise_problem("drone", seed, 30.0, noise=NOISY)
    return replace(problem, problem=_thinned(problem.problem, 0))


def test_right_noise_is_consistent_over_a_second_between_sparse_rows():
    problems = [sparse_problem(seed) for seed in (63, 64, 65)]
    solved = [fit_reference_noise(problem, stated_levels(NOISY)) for problem in problems]
    for steps in (1, 10):
        scores = [consistency(solution, steps).nees for solution in solved]
        for name in ("velocity", "position"):
            assert 0.7 < np.mean([score[name] for score in scores]) < 1.4, (steps, scores)


def test_a_window_of_several_factors_ends_where_integrating_at_once_does():
    problem = noise_problem("handheld", 66, 9.0)
    solution = fit_reference_noise(problem, TRUE_LEVELS)
    posterior = covariance(solution)
    factors = whitened_factors(solution, posterior, IMU)
    stamps_ns, states, steps = problem.problem.stamps_ns, solution.states, 8
    windows = compose_windows(solution, posterior, factors, steps)
    k = 20
    bias = np.hstack([states.bias_gyro, states.bias_acc])[k : k + 1]
    ends_ns = stamps_ns[[k]], stamps_ns[[k + steps]]
    span = integrate_spans(problem.problem.imu, *ends_ns, bias)
    R, dt = states.Ts_w_b[k, :3, :3], float(span.dt[0])
    g_w = solution.shared.gravity_w
    p, v = states.Ts_w_b[:, :3, 3], states.v_w
    moved = p[k + steps] - p[k] - v[k] * dt - 0.5 * g_w * dt**2
    rotation = so3_log(span.gamma[0].T @ R.T @ states.Ts_w_b[k + steps, :3, :3])
    velocity = R.T @ (v[k + steps] - v[k] - g_w * dt) - span.beta[0]
    position = R.T @ moved - span.alpha[0]
    error, cov = windows.errors(factors.white)[k], windows.cov[k]
    # Frames differ by the rotation in between; lengths do not. Linear, so to a few percent.
    for block, direct in ((ROTATION, rotation), (VELOCITY, velocity), (POSITION, position)):
        assert np.linalg.norm(error[block]) == pytest.approx(np.linalg.norm(direct), rel=0.05)
    direct = walking_covariance(span, *TRUE_LEVELS[6:])[0]
    np.testing.assert_allclose(
        np.trace(cov[VELOCITY, VELOCITY]), np.trace(direct[VELOCITY, VELOCITY]), rtol=0.02
    )


@pytest.mark.dataset
@pytest.mark.slow
def test_noise_of_four_flights_is_consistent_on_another(data_root):
    euroc = data_root / "euroc"
    paths = [euroc / name for name in TRAINING]
    tests = [euroc / name for name in ("V1_02_medium", "MH_04_difficult")]
    measured = measure_noise(paths, None, test_paths=tests)
    assert measured.estimate.converged
    assert_consistent(measured)


@pytest.mark.dataset
@pytest.mark.slow
def test_noise_of_two_rooms_is_consistent_in_another(data_root):
    room1, room3, room5 = (data_root / "tumvi" / f"dataset-room{n}_512_16" for n in (1, 3, 5))
    assert_consistent(measure_noise([room3, room5], None, test_paths=[room1]))


def assert_consistent(measured):
    for check in measured.checks:
        for name, nees in check.measured.nees.items():
            assert nees is None or 0.6 < nees < 1.6, (check.horizon_s, name, nees)
        shown = [nees for nees in check.stated.nees.values() if nees is not None]
        assert min(shown) > 2.0
