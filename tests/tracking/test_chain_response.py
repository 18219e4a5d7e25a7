"""Movements of a smoothed chain by errors of its relative poses, against dense equations."""

import numpy as np

from maci2.chain import chain_posterior
from maci2.chain.chain_elimination import factor
from maci2.chain.chain_posterior import normal_equations
from maci2.tracking.calibration_spread import MEASURED
from maci2.tracking.chain_response import solved
from tracking_cases import GOOD_NOISE, chain_of, first_guess, simulated_ride


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
    expected = np.linalg.solve(H, rhs)
    found, border = solved(factored, rhs[: 15 * n].reshape(n, 15, 4), rhs[15 * n :])
    posterior = chain_posterior(solution)
    std = np.sqrt(np.diagonal(posterior.states, axis1=1, axis2=2))[:, :, None]
    states = expected[: 15 * n].reshape(n, 15, 4)
    np.testing.assert_allclose(found / std, states / std, atol=1e-6)
    std = np.sqrt(np.diag(posterior.free))[:, None]
    np.testing.assert_allclose(border / std, expected[15 * n :] / std, atol=1e-6)
