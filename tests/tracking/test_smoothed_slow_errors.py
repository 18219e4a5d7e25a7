"""What slow errors of vision add to a chain smoothed as a whole: against dense and sampled ones."""

import numpy as np
import pytest

from maci2.chain import CameraMotions, ChainProblem, chain_posterior, solve_chain
from maci2.chain.chain_elimination import factor
from maci2.chain.chain_posterior import normal_equations
from maci2.estimation import initialize
from maci2.gaussian import nees
from maci2.lie.stacks import so3_log_stack
from maci2.tracking.calibration_spread import KNOWN, MEASURED
from maci2.tracking.first_window import bias_prior, gauge_prior, world_states
from maci2.tracking.slow_errors import TIME_CONSTANT_S
from maci2.tracking.smoothed_slow_errors import smoothed_slow_covariance, solved, wobble_paths
from tracking_cases import GOOD_NOISE, simulated_ride, wobbling


def first_guess(ride):
    return world_states(initialize(ride.imu, ride.vision, ride.T_b_c), ride.T_b_c)


def chain_of(ride, guess, calibration=KNOWN):
    """The ride's chain, solved; its world begins with the guess."""
    vision, (states, border) = ride.vision, guess
    priors = (
        gauge_prior(states, border),
        bias_prior(ride.imu.bias_prior, states, border),
        calibration.prior(ride.T_b_c, 0.0),
    )
    camera = CameraMotions(np.arange(len(vision) - 1), vision.Ts_ck_ck1, vision.covs_T_ck_ck1)
    problem = ChainProblem(
        ride.imu, vision.stamps_ns, *ride.walks, calibration.unknowns(0.0), camera, priors=priors
    )
    return solve_chain(problem, states, border)


def test_many_right_hand_sides_are_solved_as_dense_equations_are():
    ride = simulated_ride(50, duration_s=3.0, noise=GOOD_NOISE)
    solution = chain_of(ride, first_guess(ride), MEASURED)
    system, factored = normal_equations(solution), normal_equations(solution)
    assert factor(factored, 0.0, factored)
    n, b = len(system.A), len(system.D)
    H = np.zeros((15 * n + b, 15 * n + b))
    for k in range(n):
        own = slice(15 * k, 15 * k + 15)
        H[own, own], H[own, 15 * n :] = system.A[k], system.C[k]
        H[15 * n :, own] = system.C[k].T
        if k < n - 1:
            later = slice(15 * k + 15, 15 * k + 30)
            H[own, later], H[later, own] = system.B[k], system.B[k].T
    H[15 * n :, 15 * n :] = system.D
    rhs = np.random.default_rng(1).standard_normal((15 * n + b, 4)) * np.sqrt(np.diag(H))[:, None]
    expected = np.linalg.solve(H, rhs)[: 15 * n].reshape(n, 15, 4)
    found = solved(factored, rhs[: 15 * n].reshape(n, 15, 4), rhs[15 * n :])
    std = np.sqrt(np.diagonal(chain_posterior(solution).states, axis1=1, axis2=2))[:, :, None]
    np.testing.assert_allclose(found / std, expected / std, atol=1e-6)


def test_paths_are_correlated_as_the_process_is():
    stamps_ns = np.array([0, 200, 1000, 4000, 4200]) * 1_000_000
    paths = wobble_paths(stamps_ns, 20_000, np.random.default_rng(2))[:, 1]
    x = np.abs(stamps_ns[:, None] - stamps_ns) / 1e9 / TIME_CONSTANT_S
    np.testing.assert_allclose(paths @ paths.T / 20_000, (1.0 + x) * np.exp(-x), atol=0.04)


@pytest.mark.parametrize("at", [5, 20, -1])
def test_what_a_slow_error_does_to_the_chain_has_the_covariance_that_is_added(at):
    std_deg, squares = 0.01, []
    for seed in range(8):
        ride = simulated_ride(60 + seed, duration_s=8.0, noise=GOOD_NOISE)
        guess = first_guess(ride)
        solution, moved = chain_of(ride, guess), chain_of(wobbling(ride, std_deg, seed), guess)
        unit = smoothed_slow_covariance(solution, chain_posterior(solution), ride.vision.stamps_ns)
        cov = np.deg2rad(std_deg) ** 2 * unit[at]
        before, after = solution.states, moved.states
        turned = np.swapaxes(before.Ts_w_b[:, :3, :3], 1, 2) @ after.Ts_w_b[:, :3, :3]
        parts = (
            (so3_log_stack(turned)[at], slice(0, 3)),
            ((after.v_w - before.v_w)[at], slice(3, 6)),
            ((after.bias_gyro - before.bias_gyro)[at], slice(9, 12)),
            ((after.bias_acc - before.bias_acc)[at], slice(12, 15)),
        )
        squares.append([float(nees(apart, cov[own, own])) / 3.0 for apart, own in parts])
    # Twenty-four squares of standard normal numbers each: standard deviation of their mean 0.29.
    mean = np.mean(squares, axis=0)
    assert ((mean > 0.35) & (mean < 2.0)).all(), mean
