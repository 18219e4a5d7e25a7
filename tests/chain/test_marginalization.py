"""What a smoother needs of a chain: the newest marginal, ties kept, constants that wander."""

from dataclasses import replace

import numpy as np
import pytest

from capture_cases import captured_case
from maci2.chain import (
    GaussianPrior,
    States,
    chain_posterior,
    last_state_covariance,
    make_border,
    solution_without_first,
    solve_chain,
    with_wandering_constants,
    without_first,
)
from maci2.chain.chain_assembly import assemble
from maci2.chain.chain_state import BORDER, SCALE, STATE


@pytest.fixture(scope="module")
def solved():
    case = captured_case(seed=3, duration_s=3.0)
    return case, solve_chain(case.problem, case.start, case.start_border)


def test_the_newest_covariance_is_the_posteriors(solved):
    _, solution = solved
    expected = chain_posterior(solution).states[-1]
    std = np.sqrt(np.diag(expected))
    found = last_state_covariance(solution)
    np.testing.assert_allclose(found / np.outer(std, std), expected / np.outer(std, std), atol=1e-4)


def test_ties_of_the_first_states_are_kept_and_the_rest_is_integrated(solved):
    case, solution = solved
    n = len(case.problem.stamps_ns) - 3
    camera = case.problem.camera
    shorter = replace(
        case.problem,
        stamps_ns=case.problem.stamps_ns[:n],
        camera=replace(
            camera,
            index=camera.index[camera.index < n - 1],
            Ts_ck_ck1=camera.Ts_ck_ck1[camera.index < n - 1],
            covs=camera.covs[camera.index < n - 1],
        ),
    )
    states = solution.states
    before = assemble(shorter, States(*(values[:n] for values in states)), solution.border)
    whole = assemble(case.problem, states, solution.border)
    joined = assemble(case.problem, states, solution.border, before)
    for one, other in zip(joined.ties.spans, whole.ties.spans, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
    np.testing.assert_allclose(joined.ties.white, whole.ties.white, rtol=1e-9)
    np.testing.assert_allclose(joined.ties.instant.reading, whole.ties.instant.reading)


def test_what_is_left_without_the_first_state_is_still_solved(solved):
    case, solution = solved
    problem = without_first(case.problem, solution)
    rest = solution_without_first(problem, solution)
    again = solve_chain(problem, rest.states, rest.border, before=None)
    moved = again.states.v_w - rest.states.v_w
    std = np.sqrt(np.einsum("kii->ki", chain_posterior(again).states))[:, 3:6]
    assert np.abs(moved / std).max() < 0.01


def test_wandering_adds_to_the_covariance_of_constants_and_keeps_the_mean():
    rng = np.random.default_rng(0)
    size = STATE + BORDER
    A = rng.standard_normal((size, size))
    cov = A @ A.T / size + 0.1 * np.eye(size)
    mean = rng.standard_normal(size)
    info = np.linalg.inv(cov)
    state = States(np.eye(4)[None], np.zeros((1, 3)), np.zeros((1, 3)), np.zeros((1, 3)))
    prior = GaussianPrior(0, state, make_border(), info, info @ mean, 1.0)
    variances = np.zeros(BORDER)
    variances[SCALE], variances[SCALE + 1] = 0.3, 0.05
    wider = with_wandering_constants(prior, variances)
    expected = cov + np.diag(np.concatenate([np.zeros(STATE), variances]))
    np.testing.assert_allclose(np.linalg.inv(wider.info), expected, atol=1e-9)
    np.testing.assert_allclose(np.linalg.solve(wider.info, wider.eta), mean, atol=1e-9)
    least = prior.constant - prior.eta @ np.linalg.solve(prior.info, prior.eta)
    wider_least = wider.constant - wider.eta @ np.linalg.solve(wider.info, wider.eta)
    assert wider_least == pytest.approx(least)


def test_constants_of_which_nothing_is_known_stay_unknown():
    state = States(np.eye(4)[None], np.zeros((1, 3)), np.zeros((1, 3)), np.zeros((1, 3)))
    info = np.zeros((STATE + BORDER, STATE + BORDER))
    info[0, 0] = 4.0
    variances = np.full(BORDER, 0.1)
    wider = with_wandering_constants(GaussianPrior(0, state, make_border(), info), variances)
    np.testing.assert_array_equal(wider.info, info)
