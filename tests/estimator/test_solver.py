"""Optimum and posterior of the problem, against exact problems, dense algebra and sampled noise."""

from dataclasses import replace

import numpy as np
import pytest

from capture_cases import captured_case, shared_errors, state_errors
from maci2.estimator.factors import (
    CAMERA,
    CAMERA_TAIL,
    CARRIED,
    ORIENTATIONS,
    POSITIONS,
    carry,
    factor,
)
from maci2.estimator.measurements import assemble, assemble_markers
from maci2.estimator.problem import (
    ORIENTATION_CLOCK,
    POSITION_CLOCK,
    Free,
    Loss,
    States,
    zero_velocity,
)
from maci2.estimator.smoother import without_first
from maci2.estimator.solver import (
    SolverOptions,
    covariance,
    normal_equations,
    solve,
)
from maci2.geometry import se3_exp, so3_exp
from maci2.geometry.gaussian import nees
from tracking_cases import chain_of, first_guess, simulated_ride


def exact(case):
    """The case with states that the IMU samples themselves give, and measurements to match."""
    n = len(case.states.v_w)
    bias_gyro = np.tile(case.states.bias_gyro[0], (n, 1))
    bias_acc = np.tile(case.states.bias_acc[0], (n, 1))
    states = States(case.states.Ts_w_b.copy(), case.states.v_w.copy(), bias_gyro, bias_acc)
    spans = assemble(case.problem, states, case.shared).spans
    spans = spans._replace(reading=np.zeros((n - 1, 6)))
    for k in range(n - 1):
        T, carried = states.Ts_w_b[k + 1], np.zeros((6, CARRIED))
        R = states.Ts_w_b[k, :3, :3].copy()
        carry(spans, k, case.problem.unknowns(states, case.shared), k, 0.0, T, carried)
        fall = case.shared.gravity_w * spans.dt[k]
        states.v_w[k + 1] = states.v_w[k] + fall + R @ spans.beta[k]
    measurements = assemble(case.problem, states, case.shared)
    markers = assemble_markers(case.problem, states, case.shared)
    unknowns, J = case.problem.unknowns(states, case.shared), np.zeros((15, 30 + CAMERA_TAIL))
    (stack,) = case.problem.camera
    camera, p = stack.Ts_ck_ck1.copy(), case.problem.positions.values.copy()
    Rs = case.problem.orientations.values.copy()
    for k in range(n - 1):
        factor(measurements, markers, CAMERA, k, unknowns, J)
        camera[k] = se3_exp(-J[:6, 30]) @ camera[k]
    assert len(markers.positions.at_state) == len(p)
    assert len(markers.orientations.at_state) == len(Rs)
    for i in range(len(p)):
        factor(measurements, markers, POSITIONS, i, unknowns, J)
        p[i] += J[:3, 15]
        factor(measurements, markers, ORIENTATIONS, i, unknowns, J)
        Rs[i] = Rs[i] @ so3_exp(J[:3, 15].copy())
    problem = replace(
        case.problem,
        camera=(replace(stack, Ts_ck_ck1=camera),),
        positions=replace(case.problem.positions, values=p),
        orientations=replace(case.problem.orientations, values=Rs),
        priors=(),
    )
    return replace(case, problem=problem, states=states)


def test_noiseless_measurements_give_back_all_states_and_parameters():
    case = exact(captured_case(seed=1, duration_s=8.0))
    solution = solve(
        case.problem, case.start, case.start_shared, SolverOptions(decrement=1e-24, max_rounds=8)
    )
    assert solution.cost < 1e-12
    assert np.abs(state_errors(solution.states, case.states)).max() < 1e-8
    assert np.abs(shared_errors(solution.shared, case.shared)).max() < 1e-8


@pytest.fixture(scope="module")
def solved():
    case = captured_case(seed=2, duration_s=6.0)
    solution = solve(case.problem, case.start, case.start_shared)
    return case, solution, covariance(solution)


def dense_information(solution):
    rows, shared, _ = normal_equations(solution)
    n, b = len(rows), len(shared)
    H = np.zeros((15 * n + b, 15 * n + b))
    H[15 * n :, 15 * n :] = shared[:, :b]
    for k in range(n):
        own = slice(15 * k, 15 * k + 15)
        H[own, own], H[own, 15 * n :] = rows[k, :, :15], rows[k, :, 31 : 31 + b]
        H[15 * n :, own] = rows[k, :, 31 : 31 + b].T
        if k < n - 1:
            later = slice(15 * k + 15, 15 * k + 30)
            H[own, later], H[later, own] = rows[k, :, 15:30], rows[k, :, 15:30].T
    return H


def test_posterior_blocks_equal_those_of_the_dense_inverse(solved):
    _, solution, posterior = solved
    H = dense_information(solution)
    scale = np.sqrt(np.diag(H))
    cov = np.linalg.inv(H / np.outer(scale, scale)) / np.outer(scale, scale)
    n, k = len(solution.states.v_w), 7
    std = np.sqrt(np.diag(cov))
    shared = np.arange(15 * n, len(H))
    at = np.concatenate([np.arange(15 * k, 15 * k + 30), shared])
    unit = np.outer(std[at], std[at])
    (joint,) = posterior.joints(np.array([k]), neighbours=True)
    np.testing.assert_allclose(joint / unit, cov[np.ix_(at, at)] / unit, atol=1e-6)
    assert posterior.shared.shape == (24, 24)


def test_degrees_of_freedom_and_chi_square_agree(solved):
    _, solution, _ = solved
    assert abs(solution.cost / solution.dof - 1.0) < 5.0 * np.sqrt(2.0 / solution.dof)


def test_marginalizing_states_one_by_one_keeps_the_estimate_and_its_covariance():
    ride = simulated_ride(3, duration_s=4.0)
    solution = chain_of(ride, first_guess(ride))
    posterior, rest = covariance(solution), solution
    for _ in range(5):
        rest = without_first(solve(rest.problem, rest.states, rest.shared))
    shorter = solve(rest.problem, rest.states, rest.shared)
    errors = state_errors(shorter.states, States(*(values[5:] for values in solution.states)))
    std = np.sqrt(np.einsum("kii->ki", posterior.states))
    # Linearized once and for all, the prior is not quite the measurements that it stands for.
    assert np.abs(errors / std[5:]).max() < 0.01
    ratio = np.einsum("kii->ki", covariance(shorter).states) / std[5:] ** 2
    np.testing.assert_allclose(ratio, 1.0, atol=0.01)
    assert shorter.cost == pytest.approx(solution.cost, rel=1e-3)


def test_robust_loss_withstands_gross_outliers_that_a_square_does_not():
    case = captured_case(seed=5, duration_s=6.0)
    p_w_m = case.problem.positions.values.copy()
    p_w_m[::7] += 0.3
    errors = {}
    for kind in ("none", "huber", "cauchy"):
        positions = replace(case.problem.positions, values=p_w_m, loss=Loss(kind, 3.0))
        solution = solve(replace(case.problem, positions=positions), case.start, case.start_shared)
        errors[kind] = np.abs(state_errors(solution.states, case.states)[:, 6:9]).max()
    assert errors["none"] > 0.02
    assert errors["huber"] < 0.5 * errors["none"]
    assert errors["cauchy"] < 0.005


def test_zero_velocity_brings_the_velocity_of_a_state_and_leaves_its_biases():
    case = captured_case(seed=6, duration_s=2.0)
    prior = zero_velocity(4, 1e-6, case.shared)
    problem = replace(case.problem, priors=(*case.problem.priors, prior))
    solution = solve(problem, case.start, case.start_shared)
    np.testing.assert_allclose(solution.states.v_w[4], 0.0, atol=1e-4)
    assert not prior.info[9:15].any()


def test_across_a_gap_of_the_imu_only_biases_are_connected():
    case = captured_case(seed=7, duration_s=4.0)
    imu = case.problem.imu
    keep = np.ones(len(imu.stamps_ns), dtype=bool)
    keep[300:340] = False
    thinned = replace(
        imu,
        stamps_ns=imu.stamps_ns[keep],
        gyro=imu.gyro[keep],
        acc=imu.acc[keep],
        var_gyro=imu.var_gyro[keep],
        var_acc=imu.var_acc[keep],
    )
    solution = solve(replace(case.problem, imu=thinned), case.start, case.start_shared)
    unconnected = ~(solution.measurements.white[:, 0, 0] > 0.0)
    assert 1 <= unconnected.sum() <= 4
    full = solve(case.problem, case.start, case.start_shared)
    assert full.dof - solution.dof == 9 * unconnected.sum()


def test_a_shared_clock_moves_both_offsets_alike():
    case = captured_case(seed=9, duration_s=4.0)
    free = Free(True, False, *[True] * 7, shared_clock=True)
    solution = solve(replace(case.problem, free=free), case.start, case.start_shared)
    clock = solution.shared.scalars[POSITION_CLOCK]
    np.testing.assert_array_equal(clock, solution.shared.scalars[ORIENTATION_CLOCK])
    assert clock[0] != 0.0


def consistency(seeds, duration_s, every=20):
    """NEES per degree of freedom of states and shared, mean over recordings."""
    of_states, of_shared = [], []
    for seed in seeds:
        case = captured_case(seed, duration_s, every)
        solution = solve(case.problem, case.start, case.start_shared)
        assert solution.converged
        posterior = covariance(solution)
        errors = state_errors(solution.states, case.states)
        of_states.append(nees(errors, posterior.states).mean() / 15.0)
        free = posterior.columns[6:] >= 0
        error = shared_errors(solution.shared, case.shared)[free]
        of_shared.append(nees(error, posterior.free) / 20.0)
    return np.mean(of_states), np.mean(of_shared)


def test_posterior_is_consistent_on_a_few_simulated_recordings():
    of_states, of_shared = consistency(range(20, 32), 8.0)
    # Twelve recordings: the mean of shared parameters has a standard deviation of 0.09.
    assert 0.7 < of_shared < 1.3
    assert 0.75 < of_states < 1.25


@pytest.mark.soak
def test_posterior_is_consistent_on_200_recordings_of_a_minute():
    of_states, of_shared = consistency(range(1000, 1200), 60.0)
    assert 0.9 < of_states < 1.1
    assert 0.9 < of_shared < 1.1
