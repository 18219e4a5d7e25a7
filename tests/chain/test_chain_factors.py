"""Derivatives of every factor of a chain, by central differences along all unknowns."""

import numpy as np
import pytest

from capture_cases import captured_case
from helpers import REGIMES, numerical_jacobian, twist
from maci2.chain.chain_assembly import assemble
from maci2.chain.chain_equations import tie_factor, timed_factor
from maci2.chain.chain_factors import prior_factor
from maci2.chain.chain_gram import PAIR, ROOM, places
from maci2.chain.chain_state import States, make_border, retract
from maci2.chain.propagation import CARRIED
from maci2.lie import se3_exp

ALL = 2 * 15 + 20


@pytest.fixture(scope="module")
def case():
    return captured_case(seed=3, duration_s=1.2)


def scattered(case, regime):
    """Two neighbours, constants and measurements anywhere: residuals of every size."""
    rng = np.random.default_rng(5)
    n = len(case.states.v_w)
    states = States(
        np.array([se3_exp(twist(rng, *REGIMES[regime])) for _ in range(n)]),
        rng.standard_normal((n, 3)),
        case.states.bias_gyro + 0.01 * rng.standard_normal((n, 3)),
        case.states.bias_acc + 0.1 * rng.standard_normal((n, 3)),
    )
    border = make_border(
        se3_exp(twist(rng, *REGIMES[regime]))[:3, :3],
        se3_exp(twist(rng, *REGIMES[regime])),
        se3_exp(twist(rng, *REGIMES[regime])),
        9.81, 0.3, 0.012, 0.02, -0.015,
    )  # fmt: skip
    border.scalars[5:7] = 1e-3, -2e-3
    factors = assemble(case.problem, case.states, case.border)
    return states, border, factors


def moved(states, border, columns, k, delta):
    """States k and k + 1 and the border after a step (50,)."""
    dx = np.zeros((len(states.v_w), 15))
    dx[k], dx[k + 1] = delta[:15], delta[15:30]
    return retract(states, border, columns, dx, delta[30:])


def assert_derivatives(residual, J, rows, states, place):
    """The factor's columns, put where the unknowns are, equal central differences."""
    analytic = np.zeros((rows, ALL))
    analytic[:, :states] = J[:rows, :states]
    for column, unknown in place.T:
        analytic[:, unknown - PAIR + 30] += J[:rows, column]
    numeric = numerical_jacobian(residual, ALL)
    scale = max(1.0, np.abs(numeric).max())
    np.testing.assert_allclose(analytic, numeric, atol=1e-7 * scale)


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize(("motion", "rows"), [(-1, 15), (2, 6)])
def test_derivatives_of_imu_and_camera_ties(case, regime, motion, rows):
    states, border, factors = scattered(case, regime)
    columns, k = case.problem.unknowns.columns(), 2
    J, carried = np.zeros((15, ROOM)), np.zeros((2, 6, CARRIED))

    def residual(delta):
        x, b = moved(states, border, columns, k, delta)
        tie_factor(factors.ties, k, motion, x, b, carried, J)
        return J[:rows, 30].copy()

    residual(np.zeros(ALL))
    place = places(columns, 0 if motion < 0 else 1)
    assert_derivatives(residual, J.copy(), rows, 30, place)


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("kind", ["positions", "orientations"])
def test_derivatives_of_marker_measurements_with_their_clocks(case, regime, kind):
    states, border, factors = scattered(case, regime)
    columns = case.problem.unknowns.columns()
    timed = getattr(factors, kind)
    i = int(np.searchsorted(timed.at_state, 3))
    k = int(timed.at_state[i])
    J, carried, T = np.zeros((15, ROOM)), np.zeros((6, CARRIED)), np.zeros((4, 4))

    def residual(delta):
        x, b = moved(states, border, columns, k, delta)
        timed_factor(timed, i, x, b, T, carried, J)
        return J[:3, 15].copy()

    residual(np.zeros(ALL))
    place = places(columns, 2 if kind == "positions" else 3)
    assert_derivatives(residual, J.copy(), 3, 15, place)


@pytest.mark.parametrize("regime", REGIMES)
def test_derivatives_of_a_priors_coordinates(case, regime):
    states, border, _ = scattered(case, regime)
    columns = case.problem.unknowns.columns()
    mean = make_border(case.border.R_w_g, case.border.T_b_c, case.border.T_b_m)
    J, delta = np.zeros((35, 35)), np.zeros(35)

    def coordinates(step):
        x, b = moved(states, border, columns, 0, np.r_[step[:15], np.zeros(15), step[15:]])
        rest = np.concatenate([x.v_w[0], x.bias_gyro[0], x.bias_acc[0]])
        prior_factor(x.Ts_w_b[0], states.Ts_w_b[1], np.zeros(9), rest, b, mean, delta, J)
        return delta.copy()

    coordinates(np.zeros(35))
    analytic = J.copy()
    np.testing.assert_allclose(analytic, numerical_jacobian(coordinates, 35), atol=1e-7)


def test_all_residuals_vanish_at_the_truth_of_noiseless_measurements():
    case = captured_case(seed=4, duration_s=2.0, noise=0.0)
    factors = assemble(case.problem, case.states, case.border)
    J, carried, T = np.zeros((15, ROOM)), np.zeros((2, 6, CARRIED)), np.zeros((4, 4))
    for k in range(len(case.states.v_w) - 1):
        tie_factor(factors.ties, k, k, case.states, case.border, carried, J)
        # The rate is held for the 2 ms of the clock.
        assert np.abs(J[:6, 30]).max() < 1e-4
    for timed in (factors.positions, factors.orientations):
        for i in range(len(timed.at_state)):
            timed_factor(timed, i, case.states, case.border, T, carried[0], J)
            # White noise of the samples between a state and a measurement is left.
            assert np.abs(J[:3, 15]).max() < 5e-4
