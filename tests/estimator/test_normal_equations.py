"""The banded normal equations with their border, against dense algebra."""

import numpy as np
import pytest

from maci2.estimator.normal_equations import (
    HUBER,
    NO_LOSS,
    Work,
    add_factor,
    back_substitute,
    empty_system,
    factorize,
    inverse_blocks,
    padded,
)

SHARED = 11
"""Free shared unknowns."""


def system_of(n, s, band, seed):
    """Factors of all spans up to the bandwidth, added; and the same dense with its right side."""
    rng = np.random.default_rng(seed)
    size = n * s + SHARED
    dense, rhs = 0.1 * np.eye(size), np.zeros(size)
    system = empty_system(n, s, band, SHARED)
    for k in range(n):
        system.rows[k, :, :s] += 0.1 * np.eye(s)
    system.border[:, :SHARED] += 0.1 * np.eye(SHARED)
    place = np.array([1 + np.arange(SHARED), rng.permutation(SHARED)])
    for span in range(band + 1):
        for k in range(n - span):
            d, states = 6 * max(span, 2), (span + 1) * s
            width = padded(states + 1 + SHARED)
            J = rng.standard_normal((d, width))
            work = Work(J, np.empty((d, width)), np.empty((width, width)))
            W = np.tril(rng.standard_normal((d, d)))
            at = np.r_[k * s : k * s + states, n * s + place[1]]
            white = W @ J
            rows = np.hstack([white[:, :states], white[:, states + 1 : states + 1 + SHARED]])
            dense[np.ix_(at, at)] += rows.T @ rows
            rhs[at] -= rows.T @ white[:, states]
            cost = add_factor(work, W, d, k, span + 1, NO_LOSS, place, system)
            assert cost == pytest.approx(white[:, states] @ white[:, states])
    return system, dense, rhs


CASES = [(2, 9, 1), (3, 15, 1), (10, 9, 1), (3, 9, 3), (8, 9, 3), (7, 15, 2)]


@pytest.mark.parametrize(("n", "s", "band"), CASES)
def test_the_solution_equals_the_dense_one(n, s, band):
    system, dense, rhs = system_of(n, s, band, seed=n)
    assert factorize(system, 0.0, system)
    x, x_shared = back_substitute(system)
    expected = np.linalg.solve(dense, rhs)
    np.testing.assert_allclose(np.r_[x.ravel(), x_shared], expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(("n", "s", "band"), CASES)
def test_blocks_of_the_inverse_equal_the_dense_ones(n, s, band):
    system, dense, _ = system_of(n, s, band, seed=10 + n)
    inverse = np.linalg.inv(dense)
    assert factorize(system, 0.0, system)
    own, with_next, with_shared, shared = inverse_blocks(system)
    scale, border = np.abs(inverse).max(), slice(n * s, None)
    np.testing.assert_allclose(shared, inverse[border, border], atol=1e-11 * scale)
    for k in range(n):
        at = slice(k * s, k * s + s)
        np.testing.assert_allclose(own[k], inverse[at, at], atol=1e-11 * scale)
        np.testing.assert_array_equal(own[k], own[k].T)
        np.testing.assert_allclose(with_shared[k], inverse[at, border], atol=1e-11 * scale)
        if k < n - 1:
            later = slice(at.stop, at.stop + s)
            np.testing.assert_allclose(with_next[k], inverse[at, later], atol=1e-11 * scale)


def test_a_robust_factor_counts_linearly_beyond_its_limit():
    system = empty_system(1, 9, 1, 0)
    J, X, H = np.zeros((3, 12)), np.empty((3, 12)), np.empty((12, 12))
    J[:, :3], J[0, 9] = np.eye(3), 5.0
    place = np.empty((2, 0), dtype=np.int64)
    work, loss = Work(J, X, H), np.array([HUBER, 2.0])
    cost = add_factor(work, np.eye(3), 3, 0, 1, loss, place, system)
    assert cost == pytest.approx(2.0 * (2.0 * 5.0 - 2.0))
    np.testing.assert_allclose(system.rows[0, :3, :3], 0.4 * np.eye(3))
    assert system.rows[0, 0, 18] == pytest.approx(-0.4 * 5.0)


@pytest.mark.parametrize("where", ["first state", "last state", "border"])
def test_a_system_that_is_not_positive_definite_is_reported(where):
    system, _, _ = system_of(3, 9, 1, seed=20)
    block = {"first state": system.rows[0], "last state": system.rows[-1], "border": system.border}
    block[where][4, 4] = -1.0
    assert not factorize(system, 0.0, system)


def test_shared_unknowns_that_are_only_seen_together_are_reported():
    system, _, _ = system_of(3, 9, 1, seed=21)
    system.rows[:, :, 19:] = 0.0
    system.border[:] = 0.0
    system.border[:2, :2] = 1.0
    assert not factorize(system, 0.0, system)


def test_nan_is_reported():
    system, _, _ = system_of(3, 9, 1, seed=22)
    system.rows[1, 0, 0] = np.nan
    assert not factorize(system, 0.0, system)
