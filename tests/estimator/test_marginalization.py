"""Fixed-lag smoothing: the newest marginal, integrated motion kept, parameters that wander."""

from dataclasses import replace

import numpy as np
import pytest

from capture_cases import captured_case
from maci2.estimator.measurements import assemble
from maci2.estimator.problem import SCALE, SHARED, STATE, GaussianPrior, States, shared_parameters
from maci2.estimator.smoother import with_wandering_parameters, without_first
from maci2.estimator.solver import covariance, last_state_covariance, solve
from tracking_cases import chain_of, first_guess, simulated_ride


@pytest.fixture(scope="module")
def solved():
    case = captured_case(seed=3, duration_s=3.0)
    return case, solve(case.problem, case.start, case.start_shared)


def test_the_newest_covariance_is_the_posteriors(solved):
    _, solution = solved
    expected = covariance(solution).states[-1]
    std = np.sqrt(np.diag(expected))
    found = last_state_covariance(solution)
    np.testing.assert_allclose(found / np.outer(std, std), expected / np.outer(std, std), atol=1e-4)


def test_motion_between_the_first_states_are_kept_and_the_rest_is_integrated(solved):
    case, solution = solved
    n = len(case.problem.stamps_ns) - 3
    shorter = replace(
        case.problem,
        stamps_ns=case.problem.stamps_ns[:n],
        camera=tuple(stack.part(0, n - 1) for stack in case.problem.camera),
    )
    states = solution.states
    before = assemble(shorter, States(*(values[:n] for values in states)), solution.shared)
    whole = assemble(case.problem, states, solution.shared)
    joined = assemble(case.problem, states, solution.shared, before)
    for one, other in zip(joined.spans, whole.spans, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
    np.testing.assert_allclose(joined.white, whole.white, rtol=1e-9)
    np.testing.assert_allclose(joined.instant.reading, whole.instant.reading)


def test_what_is_left_without_the_first_state_is_still_solved():
    ride = simulated_ride(3, duration_s=3.0)
    rest = without_first(chain_of(ride, first_guess(ride)))
    again = solve(rest.problem, rest.states, rest.shared)
    moved = again.states.v_w - rest.states.v_w
    std = np.sqrt(np.einsum("kii->ki", covariance(again).states))[:, 3:6]
    assert np.abs(moved / std).max() < 0.01


def test_wandering_adds_to_the_covariance_of_constants_and_keeps_the_mean():
    rng = np.random.default_rng(0)
    size = STATE + SHARED
    A = rng.standard_normal((size, size))
    cov = A @ A.T / size + 0.1 * np.eye(size)
    mean = rng.standard_normal(size)
    info = np.linalg.inv(cov)
    state = States(np.eye(4)[None], np.zeros((1, 3)), np.zeros((1, 3)), np.zeros((1, 3)))
    prior = GaussianPrior(0, state, shared_parameters(), info, info @ mean, 1.0)
    variances = np.zeros(SHARED)
    variances[SCALE], variances[SCALE + 1] = 0.3, 0.05
    wider = with_wandering_parameters(prior, variances)
    expected = cov + np.diag(np.concatenate([np.zeros(STATE), variances]))
    np.testing.assert_allclose(np.linalg.inv(wider.info), expected, atol=1e-9)
    np.testing.assert_allclose(np.linalg.solve(wider.info, wider.eta), mean, atol=1e-9)
    least = prior.constant - prior.eta @ np.linalg.solve(prior.info, prior.eta)
    wider_least = wider.constant - wider.eta @ np.linalg.solve(wider.info, wider.eta)
    assert wider_least == pytest.approx(least)


def test_constants_of_which_nothing_is_known_stay_unknown():
    state = States(np.eye(4)[None], np.zeros((1, 3)), np.zeros((1, 3)), np.zeros((1, 3)))
    info = np.zeros((STATE + SHARED, STATE + SHARED))
    info[0, 0] = 4.0
    variances = np.full(SHARED, 0.1)
    wider = with_wandering_parameters(GaussianPrior(0, state, shared_parameters(), info), variances)
    np.testing.assert_array_equal(wider.info, info)
