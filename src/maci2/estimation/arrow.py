"""Solving and inverting block-arrow systems: a chain of keyframes and a border they all share.

    [ A_0  B_0            C_0 ]     A_k (9, 9)   keyframe k: pose and velocity
    [ B_0' A_1  B_1       C_1 ]     B_k (9, 9)   keyframe k with k + 1; the last is zero
    [      B_1' A_2  ..   C_2 ]     C_k (9, b)   keyframe k with the border
    [            ..   ..   :  ]     D   (b, b)   border: gravity, biases, extrinsics
    [ C_0' C_1' C_2' ..   D   ]

Cost is linear in the number of keyframes, for the solution and for the covariance blocks.
"""

import math

import numpy as np
from numba import njit

from maci2.gaussian import Array

BLOCK = 9


@njit(cache=True, error_model="numpy")
def _cholesky(A: Array) -> bool:
    """A = L L^T in place, lower triangle; False where A is not positive definite."""
    n = A.shape[0]
    for j in range(n):
        d = A[j, j]
        for k in range(j):
            d -= A[j, k] * A[j, k]
        if not d > 0.0:
            return False
        d = math.sqrt(d)
        A[j, j] = d
        for i in range(j + 1, n):
            s = A[i, j]
            for k in range(j):
                s -= A[i, k] * A[j, k]
            A[i, j] = s / d
    return True


@njit(cache=True, error_model="numpy")
def _forward(L: Array, X: Array) -> None:
    """X <- L^-1 X."""
    n, columns = X.shape
    for i in range(n):
        for k in range(i):
            f = L[i, k]
            for c in range(columns):
                X[i, c] -= f * X[k, c]
        d = 1.0 / L[i, i]
        for c in range(columns):
            X[i, c] *= d


@njit(cache=True, error_model="numpy")
def _backward(L: Array, X: Array) -> None:
    """X <- L^-T X."""
    n, columns = X.shape
    for i in range(n - 1, -1, -1):
        d = 1.0 / L[i, i]
        for c in range(columns):
            X[i, c] *= d
        for k in range(i):
            f = L[i, k]
            for c in range(columns):
                X[k, c] -= f * X[i, c]


@njit(cache=True)
def _subtract_product(Y: Array, first: int, Z: Array, out: Array) -> None:
    """out -= Y[:, first : first + rows]^T Z."""
    rows, columns = out.shape
    for k in range(Y.shape[0]):
        for i in range(rows):
            f = Y[k, first + i]
            for c in range(columns):
                out[i, c] -= f * Z[k, c]


@njit(cache=True)
def factor(A: Array, B: Array, C: Array, D: Array, rhs: Array, rhs_border: Array) -> bool:
    """Eliminate the chain, then the border, in place; False where not positive definite.

    Afterwards A_k and D hold Cholesky factors L, and B_k, C_k, rhs_k hold L_k^-1 of what was left of
    them when keyframe k was eliminated.
    """
    n = A.shape[0]
    border = D.shape[0]
    Y = np.empty((BLOCK, BLOCK + border + 1))
    right, shifted = np.empty((BLOCK, border + 1)), np.empty((BLOCK, border + 1))
    corner = np.empty((border, border + 1))
    corner[:, :border] = D
    corner[:, border] = rhs_border
    for k in range(n):
        if not _cholesky(A[k]):
            return False
        Y[:, :BLOCK] = B[k]
        Y[:, BLOCK : BLOCK + border] = C[k]
        Y[:, BLOCK + border] = rhs[k]
        _forward(A[k], Y)
        B[k] = Y[:, :BLOCK]
        C[k] = Y[:, BLOCK : BLOCK + border]
        rhs[k] = Y[:, BLOCK + border]
        right[:] = Y[:, BLOCK:]
        _subtract_product(Y, BLOCK, right, corner)
        if k < n - 1:
            _subtract_product(Y, 0, B[k], A[k + 1])
            shifted[:] = 0.0
            _subtract_product(Y, 0, right, shifted)
            C[k + 1] += shifted[:, :border]
            rhs[k + 1] += shifted[:, border]
    D[:] = corner[:, :border]
    rhs_border[:] = corner[:, border]
    if not _cholesky(D):
        return False
    column = rhs_border.copy().reshape(border, 1)
    _forward(D, column)
    rhs_border[:] = column[:, 0]
    return True


@njit(cache=True)
def back_substitute(
    A: Array, B: Array, C: Array, D: Array, rhs: Array, rhs_border: Array
) -> tuple[Array, Array]:
    """Solution (n, 9), (b,) from what `factor` left."""
    n = A.shape[0]
    x = np.empty((n, BLOCK))
    border = rhs_border.copy().reshape(-1, 1)
    _backward(D, border)
    x_border = border[:, 0].copy()
    for k in range(n - 1, -1, -1):
        y = np.empty((BLOCK, 1))
        for i in range(BLOCK):
            s = rhs[k, i]
            for c in range(len(x_border)):
                s -= C[k, i, c] * x_border[c]
            if k < n - 1:
                for c in range(BLOCK):
                    s -= B[k, i, c] * x[k + 1, c]
            y[i, 0] = s
        _backward(A[k], y)
        x[k] = y[:, 0]
    return x, x_border


@njit(cache=True)
def inverse_blocks(A: Array, B: Array, C: Array, D: Array) -> tuple[Array, Array]:
    """Diagonal blocks (n, 9, 9) and (b, b) of the inverse, from what `factor` left."""
    n = A.shape[0]
    border = D.shape[0]
    inverse_D = np.eye(border)
    _forward(D, inverse_D)
    _backward(D, inverse_D)
    inverse_A = np.empty((n, BLOCK, BLOCK))
    # Inverse over keyframe k + 1 and the border, which keyframe k leans on.
    size = BLOCK + border
    later = np.zeros((size, size))
    later[BLOCK:, BLOCK:] = inverse_D
    for k in range(n - 1, -1, -1):
        own = np.eye(BLOCK)
        _forward(A[k], own)
        _backward(A[k], own)
        gain = np.zeros((BLOCK, size))
        gain[:, :BLOCK] = B[k]
        gain[:, BLOCK:] = C[k]
        _backward(A[k], gain)
        cross = -(gain @ later)
        own -= cross @ gain.T
        inverse_A[k] = 0.5 * (own + own.T)
        later[:BLOCK, :BLOCK] = inverse_A[k]
        later[:BLOCK, BLOCK:] = cross[:, BLOCK:]
        later[BLOCK:, :BLOCK] = cross[:, BLOCK:].T
    return inverse_A, inverse_D
