"""Solution and inversion of block-arrow systems: a chain of keyframes and a border that they share.

    [ A_0  B_0            C_0 ]     A_k (9, 9)   keyframe k: pose and velocity
    [ B_0' A_1  B_1       C_1 ]     B_k (9, 9)   keyframe k with k + 1; the last is zero
    [      B_1' A_2  ..   C_2 ]     C_k (9, b)   keyframe k with the border
    [            ..   ..   :  ]     D   (b, b)   border: gravity, biases, extrinsics
    [ C_0' C_1' C_2' ..   D   ]

Cost is linear in the number of keyframes, for the solution and for the covariance blocks. Of the
symmetric A_k and D the lower triangles are read.
"""

import numpy as np

from maci2.compile import kernel
from maci2.estimation.small_cholesky import (
    BLOCK,
    back_eliminate,
    eliminate,
    forward_eliminate,
    gram,
    padded,
)
from maci2.types import Array

__all__ = ["BLOCK", "back_substitute", "factor", "inverse_blocks"]


@kernel
def factor(A: Array, B: Array, C: Array, D: Array, rhs: Array, rhs_border: Array) -> bool:
    """Eliminate the chain, then the border, in place; False if not positive definite.

    Afterwards A_k and D hold Cholesky factors L, and B_k, C_k, rhs_k hold L_k^-1 of what was left
    of them when keyframe k was eliminated.
    """
    n, border = A.shape[0], D.shape[0]
    rows = np.zeros((BLOCK, padded(2 * BLOCK + border + 1)))
    # What an elimination takes from all that follows: Y' Y, Y = L^-1 [B | C | rhs].
    Y = np.zeros((BLOCK, padded(BLOCK + border + 1)))
    taken = np.empty((Y.shape[1], Y.shape[1]))
    for k in range(n):
        _load(A, B, C, rhs, k, rows)
        if not eliminate(rows):
            return False
        _store(rows, A, B, C, rhs, k)
        for i in range(BLOCK):
            for c in range(BLOCK + border + 1):
                Y[i, c] = rows[i, BLOCK + c]
        gram(Y, taken)
        if k < n - 1:
            _take(taken, A, C, rhs, k + 1)
        for i in range(border):
            for j in range(border):
                D[i, j] -= taken[BLOCK + i, BLOCK + j]
            rhs_border[i] -= taken[BLOCK + i, BLOCK + border]
    rows = np.zeros((border, padded(border + 1)))
    for i in range(border):
        for j in range(border):
            rows[j, i] = D[i, j]
        rows[i, border] = rhs_border[i]
    if not eliminate(rows):
        return False
    for i in range(border):
        for j in range(border):
            D[i, j] = rows[j, i] if j <= i else 0.0
        rhs_border[i] = rows[i, border]
    return True


@kernel
def _load(A: Array, B: Array, C: Array, rhs: Array, k: int, rows: Array) -> None:
    """rows = [A_k | B_k | C_k | rhs_k]."""
    border = C.shape[2]
    for i in range(BLOCK):
        for j in range(BLOCK):
            rows[j, i] = A[k, i, j]
            rows[i, BLOCK + j] = B[k, i, j]
        for j in range(border):
            rows[i, 2 * BLOCK + j] = C[k, i, j]
        rows[i, 2 * BLOCK + border] = rhs[k, i]


@kernel
def _store(rows: Array, A: Array, B: Array, C: Array, rhs: Array, k: int) -> None:
    """Copy back from `rows`; A_k becomes lower triangular."""
    border = C.shape[2]
    for i in range(BLOCK):
        for j in range(BLOCK):
            A[k, i, j] = rows[j, i] if j <= i else 0.0
            B[k, i, j] = rows[i, BLOCK + j]
        for j in range(border):
            C[k, i, j] = rows[i, 2 * BLOCK + j]
        rhs[k, i] = rows[i, 2 * BLOCK + border]


@kernel
def _take(taken: Array, A: Array, C: Array, rhs: Array, k: int) -> None:
    """Subtract the contribution of the eliminated keyframe k - 1 from keyframe k."""
    border = C.shape[2]
    for i in range(BLOCK):
        for j in range(BLOCK):
            A[k, i, j] -= taken[i, j]
        for j in range(border):
            C[k, i, j] -= taken[i, BLOCK + j]
        rhs[k, i] -= taken[i, BLOCK + border]


@kernel
def back_substitute(
    A: Array, B: Array, C: Array, D: Array, rhs: Array, rhs_border: Array
) -> tuple[Array, Array]:
    """Solution (n, 9), (b,) from the result of `factor`."""
    n, border = A.shape[0], D.shape[0]
    x, x_border = rhs.copy(), rhs_border.copy()
    for i in range(border - 1, -1, -1):
        x_border[i] /= D[i, i]
        for j in range(i):
            x_border[j] -= D[i, j] * x_border[i]
    for k in range(n - 1, -1, -1):
        for i in range(BLOCK):
            for c in range(border):
                x[k, i] -= C[k, i, c] * x_border[c]
            if k < n - 1:
                for c in range(BLOCK):
                    x[k, i] -= B[k, i, c] * x[k + 1, c]
        for i in range(BLOCK - 1, -1, -1):
            x[k, i] /= A[k, i, i]
            for j in range(i):
                x[k, j] -= A[k, i, j] * x[k, i]
    return x, x_border


@kernel
def inverse_blocks(A: Array, B: Array, C: Array, D: Array) -> tuple[Array, Array]:
    """Diagonal blocks (n, 9, 9) and (b, b) of the inverse, from the result of `factor`."""
    n, border = A.shape[0], D.shape[0]
    inverse_A, inverse_D = np.empty((n, BLOCK, BLOCK)), np.eye(border)
    forward_eliminate(D, inverse_D)
    back_eliminate(D, inverse_D)
    # Inverse over keyframe k + 1 and the border, which keyframe k leans on.
    size = BLOCK + border
    later = np.zeros((size, padded(size)))
    for i in range(border):
        for j in range(border):
            later[BLOCK + i, BLOCK + j] = inverse_D[i, j]
    root, rows = np.empty((BLOCK, padded(BLOCK))), np.zeros((BLOCK, padded(BLOCK + size)))
    for k in range(n - 1, -1, -1):
        for i in range(BLOCK):
            for c in range(root.shape[1]):
                root[i, c] = 1.0 if c == i else 0.0
        forward_eliminate(A[k], root)
        for i in range(BLOCK):
            for c in range(BLOCK):
                rows[i, c] = root[i, c]
                rows[i, BLOCK + c] = B[k, i, c]
            for c in range(border):
                rows[i, 2 * BLOCK + c] = C[k, i, c]
        back_eliminate(A[k], rows)
        _lean(rows, later)
        for i in range(BLOCK):
            for j in range(BLOCK):
                inverse_A[k, i, j] = later[i, j]
    return inverse_A, inverse_D


@kernel(fastmath={"contract"})
def _lean(rows: Array, later: Array) -> None:
    """Replace keyframe k + 1 by keyframe k in `later`, given rows = [own | gain].

    Its block is own + gain later gain', and -gain later is what ties it to the border.
    """
    size, columns = later.shape
    cross = np.zeros((BLOCK, columns))
    for i in range(BLOCK):
        for k in range(size):
            f = rows[i, BLOCK + k]
            for c in range(columns):
                cross[i, c] -= f * later[k, c]
    for i in range(BLOCK):
        for j in range(i + 1):
            total = rows[i, j]
            for c in range(size):
                total -= cross[i, c] * rows[j, BLOCK + c]
            later[i, j] = later[j, i] = total
        for c in range(BLOCK, size):
            later[i, c] = later[c, i] = cross[i, c]
