"""Small dense symmetric systems, in loops that the compiler vectorizes.

Rows are short and contiguous, so elimination works on rows: [A | X] becomes [L^T | L^-1 X].
"""

import math

import numpy as np

from maci2.compile import kernel
from maci2.types import Array

BLOCK = 9
"""Number of unknowns of a keyframe (pose and velocity), and of residuals of one IMU measurement."""

LANES = 4
"""Multiple that rows are padded to, the width of a vector instruction."""


@kernel
def padded(columns: int) -> int:
    """Next multiple of `LANES`."""
    return (columns + LANES - 1) // LANES * LANES


@kernel(fastmath={"contract"})
def eliminate(rows: Array) -> bool:
    """Replace [A | X] by [L^T | L^-1 X], A = L L^T; False if A is not positive definite.

    Reads A's upper triangle. What is below the diagonal afterwards has no meaning.
    """
    n, columns = rows.shape
    for j in range(n):
        if not rows[j, j] > 0.0:
            return False
        d = 1.0 / math.sqrt(rows[j, j])
        for c in range(columns):
            rows[j, c] *= d
        for i in range(j + 1, n):
            f = rows[j, i]
            for c in range(columns):
                rows[i, c] -= f * rows[j, c]
    return True


@kernel
def forward_eliminate(L: Array, X: Array) -> None:
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


@kernel
def back_eliminate(L: Array, X: Array) -> None:
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


@kernel(fastmath={"contract"})
def gram(X: Array, out: Array) -> None:
    """out = X^T X, of nine rows."""
    # Written out: a loop over the rows costs half as much again.
    for i in range(X.shape[1]):
        a, b, c = X[0, i], X[1, i], X[2, i]
        d, e, f = X[3, i], X[4, i], X[5, i]
        g, h, m = X[6, i], X[7, i], X[8, i]
        for k in range(X.shape[1]):
            first = a * X[0, k] + b * X[1, k] + c * X[2, k]
            second = d * X[3, k] + e * X[4, k] + f * X[5, k]
            out[i, k] = first + second + (g * X[6, k] + h * X[7, k] + m * X[8, k])


@kernel(fastmath={"contract"})
def whiten(W: Array, X: Array, out: Array) -> None:
    """out = W X, W (9, 9)."""
    for i in range(BLOCK):
        a, b, c = W[i, 0], W[i, 1], W[i, 2]
        d, e, f = W[i, 3], W[i, 4], W[i, 5]
        g, h, m = W[i, 6], W[i, 7], W[i, 8]
        for k in range(X.shape[1]):
            first = a * X[0, k] + b * X[1, k] + c * X[2, k]
            second = d * X[3, k] + e * X[4, k] + f * X[5, k]
            out[i, k] = first + second + (g * X[6, k] + h * X[7, k] + m * X[8, k])


@kernel
def inverse_spd(A: Array, n: int) -> Array:
    """Inverse of the upper left (n, n) of A, symmetric positive definite; NaN if it is not."""
    rows = np.zeros((n, 2 * n))
    for i in range(n):
        for j in range(n):
            rows[i, j] = A[i, j]
        rows[i, n + i] = 1.0
    inverse = np.full((n, n), np.nan)
    if eliminate(rows):
        for i in range(n):
            for j in range(n):
                inverse[i, j] = 0.0
                for k in range(n):
                    inverse[i, j] += rows[k, n + i] * rows[k, n + j]
    return inverse
