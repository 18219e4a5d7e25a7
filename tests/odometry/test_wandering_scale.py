"""A scale that wanders along a smoothed chain: its optimum by finite differences, its covariance by
samples."""

from dataclasses import replace

import numpy as np

from maci2.estimator.problem import SCALE
from maci2.estimator.solver import SolverOptions, solve
from maci2.geometry.gaussian import nees
from maci2.odometry.batch import (
    random_walk,
    solve_with_wandering_scale,
    stretched_motions,
)
from tracking_cases import chain_problem, first_guess, simulated_ride

WALK, STD_SCALE = 0.01, 0.02
EXACT = SolverOptions(decrement=1e-12)


def wandering_ride(seed: int, duration_s: float):
    """A ride whose relative poses have a scale drawn from the model, and the drawn scale."""
    ride = simulated_ride(seed, duration_s=duration_s)
    rng, vision = np.random.default_rng(seed), ride.vision
    steps = np.diff(vision.stamps_ns) / 1e9
    log_scale = STD_SCALE * rng.standard_normal() + np.cumsum(
        WALK * np.sqrt(steps) * rng.standard_normal(len(steps))
    )
    Ts = vision.Ts_ck_ck1.copy()
    Ts[:, :3, 3] *= np.exp(-log_scale)[:, None]
    return replace(ride, vision=replace(vision, Ts_ck_ck1=Ts, std_scale=STD_SCALE)), log_scale


def test_the_walks_information_is_that_of_its_increments():
    stamps_ns = np.arange(0, 8_200_000_000, 200_000_000)
    shares, info = random_walk(stamps_ns, WALK)
    knots_s = np.arange(2.0, 8.1, 2.0)
    expected = WALK**2 * np.minimum(knots_s[:, None], knots_s)
    np.testing.assert_allclose(np.linalg.inv(info), expected, rtol=1e-9)
    np.testing.assert_allclose(shares @ knots_s, np.arange(0.1, 8.0, 0.2), atol=1e-12)


def test_the_path_is_where_the_cost_of_chain_and_walk_is_least():
    ride, _ = wandering_ride(5, 8.0)
    guess = first_guess(ride)
    problem = chain_problem(ride, guess)
    found = solve_with_wandering_scale(problem, *guess, WALK, EXACT)
    shares, info = random_walk(problem.stamps_ns, WALK)
    path = found.log_scale - found.solution.shared.scalars[SCALE]
    w = np.linalg.lstsq(shares, path, rcond=None)[0]

    def cost(w):
        stretched = replace(problem, camera=(stretched_motions(problem.camera[0], shares @ w),))
        start = found.solution.states, found.solution.shared
        return solve(stretched, *start, EXACT).cost + w @ info @ w

    step = 2e-3
    for direction in np.eye(len(w)):
        ahead, here, behind = (cost(w + s * step * direction) for s in (1, 0, -1))
        curvature = (ahead - 2 * here + behind) / step**2
        # Distance to the minimum along this direction, in standard deviations.
        assert abs((ahead - behind) / (2 * step)) / np.sqrt(2 * curvature) < 0.01


def test_states_are_as_far_off_as_they_say_when_the_scale_wanders():
    squares = []
    for seed in range(12):
        ride, _ = wandering_ride(30 + seed, 12.0)
        guess = first_guess(ride)
        problem = chain_problem(ride, guess)
        found = solve_with_wandering_scale(problem, *guess, WALK, SolverOptions())
        Ts, truth = found.solution.states.Ts_w_b, ride.truth_at(problem.stamps_ns).Ts_w_b
        # The length of the way does not depend on where the worlds begin.
        at, end = 5, -1
        moved = Ts[at, :3, :3].T @ (Ts[end, :3, 3] - Ts[0, :3, 3])
        truly = truth[at, :3, :3].T @ (truth[end, :3, 3] - truth[0, :3, 3])
        cov = found.posterior.states[end][6:9, 6:9]
        squares.append(float(nees(moved - truly, cov_in(Ts[at], cov))) / 3.0)
    # Thirty-six squares: standard deviation of their mean 0.24.
    assert 0.4 < np.mean(squares) < 1.9, squares


def cov_in(T, cov):
    return T[:3, :3].T @ cov @ T[:3, :3]


def test_a_scale_that_does_not_wander_is_that_of_the_chain_itself():
    ride, _ = wandering_ride(7, 6.0)
    guess = first_guess(ride)
    problem = chain_problem(ride, guess)
    found = solve_with_wandering_scale(problem, *guess, 1e-6, SolverOptions())
    alone = solve(problem, *guess)
    np.testing.assert_allclose(found.log_scale, alone.shared.scalars[SCALE], atol=1e-6)
