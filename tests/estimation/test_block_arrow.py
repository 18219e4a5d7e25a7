"""The block-arrow solver against dense algebra."""

import numpy as np
import pytest

from maci2.estimation.block_arrow import back_substitute, factor, inverse_blocks
from maci2.estimation.small_cholesky import BLOCK

BORDER = 15


def arrow(n, seed):
    """Blocks A, B, C, D, rhs, rhs_border of a positive definite system, and the same dense."""
    rng = np.random.default_rng(seed)
    size = BLOCK * n + BORDER
    dense = np.zeros((size, size))
    shared = np.arange(BLOCK * n, size)
    for k in range(n - 1):
        # Each step sees two keyframes and the border, as residuals do.
        seen = np.r_[BLOCK * k : BLOCK * (k + 2), shared]
        J = rng.standard_normal((20, len(seen)))
        dense[np.ix_(seen, seen)] += J.T @ J
    dense += 0.1 * np.eye(size)
    rhs = rng.standard_normal(size)
    A, B, C = np.zeros((n, BLOCK, BLOCK)), np.zeros((n, BLOCK, BLOCK)), np.zeros((n, BLOCK, BORDER))
    for k in range(n):
        own = slice(BLOCK * k, BLOCK * (k + 1))
        A[k], C[k] = dense[own, own], dense[own, BLOCK * n :]
        if k < n - 1:
            B[k] = dense[own, BLOCK * (k + 1) : BLOCK * (k + 2)]
    D = dense[BLOCK * n :, BLOCK * n :].copy()
    rhs_keyframes, rhs_border = rhs[: BLOCK * n].reshape(n, BLOCK).copy(), rhs[BLOCK * n :].copy()
    return (A, B, C, D, rhs_keyframes, rhs_border), dense, rhs


@pytest.mark.parametrize("n", [2, 3, 10])
def test_the_solution_equals_the_dense_one(n):
    blocks, dense, rhs = arrow(n, seed=n)
    assert factor(*blocks)
    x, x_border = back_substitute(*blocks)
    np.testing.assert_allclose(
        np.concatenate([x.ravel(), x_border]), np.linalg.solve(dense, rhs), rtol=1e-9, atol=1e-11
    )


@pytest.mark.parametrize("n", [2, 3, 10])
def test_the_diagonal_blocks_of_the_inverse_equal_the_dense_ones(n):
    blocks, dense, _ = arrow(n, seed=10 + n)
    inverse = np.linalg.inv(dense)
    assert factor(*blocks)
    inverse_A, inverse_D = inverse_blocks(*blocks[:4])
    scale = np.abs(inverse).max()
    np.testing.assert_allclose(inverse_D, inverse[BLOCK * n :, BLOCK * n :], atol=1e-11 * scale)
    for k in range(n):
        own = slice(BLOCK * k, BLOCK * (k + 1))
        np.testing.assert_allclose(inverse_A[k], inverse[own, own], atol=1e-11 * scale)
        np.testing.assert_array_equal(inverse_A[k], inverse_A[k].T)


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("where", ["first keyframe", "last keyframe", "border"])
def test_a_system_that_is_not_positive_definite_is_reported(n, where):
    (A, B, C, D, rhs, rhs_border), _, _ = arrow(n, seed=20)
    block = {"first keyframe": A[0], "last keyframe": A[-1], "border": D}[where]
    block[4, 4] = -1.0
    assert not factor(A, B, C, D, rhs, rhs_border)


def test_a_border_whose_unknowns_are_only_seen_together_is_reported():
    (A, B, C, D, rhs, rhs_border), _, _ = arrow(3, seed=21)
    D[:] = 0.0
    C[:] = 0.0
    D[:2, :2] = 1.0
    assert not factor(A, B, C, D, rhs, rhs_border)


def test_nan_is_reported():
    (A, B, C, D, rhs, rhs_border), _, _ = arrow(3, seed=22)
    A[1, 0, 0] = np.nan
    assert not factor(A, B, C, D, rhs, rhs_border)
