"""Least squares on a sphere: the secular equation against optimality, the polynomial and search."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from maci2_lab.baselines.alignment import nearest_on_sphere, solve_on_sphere

seeds = st.integers(0, 2**32 - 1)
norms = st.floats(1e-2, 1e3)
spreads = st.floats(0.0, 6.0)
"""Decades between the largest and the smallest eigenvalue."""


def a_problem(seed, spread):
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    S = Q @ np.diag(10.0 ** (-spread * np.sort(rng.uniform(size=3)))) @ Q.T
    return 0.5 * (S + S.T), rng.normal(size=3) * 10.0 ** rng.uniform(-3, 3)


def cost(S, r, g):
    return 0.5 * g @ S @ g - r @ g


def by_polynomial(S, r, norm):
    """As the originals do: the multiplier among the eigenvalues of a companion matrix.

    sum c_i^2 prod_j!=i (l_j + mu)^2 - norm^2 prod_j (l_j + mu)^2 = 0
    """
    values, Q = np.linalg.eigh(S)
    c = Q.T @ r
    squares = [np.polymul([1.0, value], [1.0, value]) for value in values]
    whole = np.polymul(np.polymul(squares[0], squares[1]), squares[2])
    polynomial = -(norm**2) * whole
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        polynomial = np.polyadd(polynomial, c[i] ** 2 * np.polymul(squares[j], squares[k]))
    monic = polynomial / polynomial[0]
    companion = np.diag(np.ones(5), -1)
    companion[:, -1] = -monic[:0:-1]
    roots = np.linalg.eigvals(companion)
    real = roots.real[np.abs(roots.imag) < 1e-6 * np.abs(roots).max()]
    candidates = [Q @ (c / (values + mu)) for mu in real]
    candidates = [g for g in candidates if abs(np.linalg.norm(g) / norm - 1.0) < 1e-2]
    return min(candidates, key=lambda g: cost(S, r, g))


@given(seeds, norms, spreads)
def test_the_answer_is_the_global_minimum(seed, norm, spread):
    S, r = a_problem(seed, spread)
    g = nearest_on_sphere(S, r, norm)
    assert np.linalg.norm(g) == pytest.approx(norm, rel=1e-12)
    # On a sphere: S g + mu g = r with S + mu I not negative is necessary and sufficient.
    mu = g @ (r - S @ g) / norm**2
    scale = np.linalg.norm(r) + np.linalg.norm(S) * norm
    np.testing.assert_allclose(S @ g + mu * g, r, atol=1e-9 * scale)
    assert mu >= -np.linalg.eigvalsh(S)[0] - 1e-9 * scale / norm


@given(seeds, st.floats(1.0, 100.0), st.floats(0.0, 2.0))
def test_the_answer_is_the_polynomials(seed, norm, spread):
    S, r = a_problem(seed, spread)
    r *= norm / np.linalg.norm(r)
    g, other = nearest_on_sphere(S, r, norm), by_polynomial(S, r, norm)
    size = norm**2
    assert cost(S, r, g) <= cost(S, r, other) + 1e-5 * size
    assert cost(S, r, g) == pytest.approx(cost(S, r, other), abs=1e-3 * size)


@pytest.mark.parametrize("seed", range(5))
def test_answer_and_polynomial_agree_in_every_digit_that_the_polynomial_has(seed):
    S, r = a_problem(seed, 1.0)
    r *= 9.0 / np.linalg.norm(r)
    np.testing.assert_allclose(nearest_on_sphere(S, r, 9.81), by_polynomial(S, r, 9.81), atol=1e-6)


def test_where_the_right_side_does_not_reach_the_lowest_direction_that_direction_fills_up():
    S, r = np.diag([1.0, 2.0, 4.0]), np.array([0.0, 0.5, 1.0])
    g = nearest_on_sphere(S, r, 9.81)
    np.testing.assert_allclose(g[1:], r[1:] / (np.diag(S)[1:] - 1.0))
    assert np.linalg.norm(g) == pytest.approx(9.81)


def test_without_a_right_side_the_answer_is_the_lowest_direction():
    g = nearest_on_sphere(np.diag([3.0, 1.0, 2.0]), np.zeros(3), 2.0)
    np.testing.assert_allclose(np.abs(g), [0.0, 2.0, 0.0], atol=1e-12)


@pytest.mark.parametrize("norm", [0.5, 5.0, 50.0])
def test_equal_eigenvalues_give_the_direction_of_the_right_side(norm):
    r = np.array([1.0, -2.0, 2.0])
    np.testing.assert_allclose(nearest_on_sphere(np.eye(3), r, norm), norm * r / 3.0)


@pytest.mark.parametrize("seed", range(4))
def test_with_other_unknowns_the_answer_is_that_of_a_constrained_search(seed):
    rng = np.random.default_rng(seed)
    J, y = rng.normal(size=(20, 8)), 4.0 * rng.normal(size=20)
    H, b = J.T @ J, J.T @ y
    x = solve_on_sphere(H, b, slice(2, 5), 3.0)
    constraint = {"type": "eq", "fun": lambda x: x[2:5] @ x[2:5] - 9.0}
    found = [
        minimize(
            lambda x: 0.5 * x @ H @ x - b @ x, start, jac=lambda x: H @ x - b,
            constraints=constraint, method="SLSQP", options={"ftol": 1e-14, "maxiter": 500},
        )
        for start in rng.normal(size=(8, 8))
    ]  # fmt: skip
    best = min((one for one in found if one.success), key=lambda one: one.fun)
    np.testing.assert_allclose(x, best.x, atol=1e-5)
