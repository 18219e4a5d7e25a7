"""Movements of a smoothed chain by errors of its relative poses, against dense equations."""

import numpy as np

from maci2.calibration_prior import CALIBRATED
from maci2.estimator.normal_equations import factorize
from maci2.estimator.residuals import solved_for
from maci2.estimator.solver import covariance, normal_equations
from tracking_cases import GOOD_NOISE, chain_of, first_guess, simulated_ride


def test_many_right_hand_sides_are_solved_as_dense_equations_are():
    ride = simulated_ride(50, duration_s=3.0, noise=GOOD_NOISE)
    solution = chain_of(ride, first_guess(ride), CALIBRATED)
    system, factored = normal_equations(solution), normal_equations(solution)
    assert factorize(factored, 0.0, factored)
    (rows, border, _), b = system, len(system.border)
    n = len(rows)
    H = np.zeros((15 * n + b, 15 * n + b))
    for k in range(n):
        own = slice(15 * k, 15 * k + 15)
        C = rows[k, :, 31 : 31 + b]
        H[own, own], H[own, 15 * n :], H[15 * n :, own] = rows[k, :, :15], C, C.T
        if k < n - 1:
            later = slice(15 * k + 15, 15 * k + 30)
            H[own, later], H[later, own] = rows[k, :, 15:30], rows[k, :, 15:30].T
    H[15 * n :, 15 * n :] = border[:, :b]
    rhs = np.random.default_rng(1).standard_normal((15 * n + b, 4)) * np.sqrt(np.diag(H))[:, None]
    expected = np.linalg.solve(H, rhs)
    found, shared = solved_for(factored, rhs[: 15 * n].reshape(n, 15, 4), rhs[15 * n :])
    posterior = covariance(solution)
    std = np.sqrt(np.diagonal(posterior.states, axis1=1, axis2=2))[:, :, None]
    states = expected[: 15 * n].reshape(n, 15, 4)
    np.testing.assert_allclose(found / std, states / std, atol=1e-6)
    std = np.sqrt(np.diag(posterior.free))[:, None]
    np.testing.assert_allclose(shared / std, expected[15 * n :] / std, atol=1e-6)
