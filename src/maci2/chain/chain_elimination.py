"""Solving and inverting the normal equations of a chain at a cost linear in its length.

`block_arrow` does the same for the nine unknowns of a keyframe, with loops of that fixed size.
"""

import numpy as np

from maci2.chain.chain_gram import add_gram
from maci2.compile import kernel
from maci2.estimation.normal_equations import System
from maci2.estimation.small_cholesky import back_eliminate, eliminate, forward_eliminate, padded
from maci2.types import Array


@kernel(fastmath={"contract"})
def factor(system: System, damping: float, out: System) -> bool:
    """Eliminate the states in order, then the border; False where not positive definite.

    The diagonal is made heavier by `damping`, relative to itself. Afterwards A_k and D of `out`
    hold Cholesky factors L, and B_k, C_k, rhs_k hold L_k^-1 of what was left of them when state k
    was eliminated. `out` may be `system`.
    """
    A, B, C, D, rhs, rhs_border = system
    n, s, b = A.shape[0], A.shape[1], D.shape[0]
    right = s + b + 1
    rows, X = np.zeros((s, padded(s + right))), np.empty((s, right))
    # What earlier states take off state k, and all of them off the border.
    taken = np.zeros((right, right))
    for k in range(n):
        for i in range(s):
            for j in range(s):
                rows[i, j], rows[i, s + j] = A[k, i, j] - taken[i, j], B[k, i, j]
            rows[i, i] += damping * A[k, i, i]
            for j in range(b):
                rows[i, 2 * s + j] = C[k, i, j] - taken[i, s + j]
            rows[i, 2 * s + b] = rhs[k, i] - taken[i, s + b]
            taken[i].fill(0.0)
        if not eliminate(rows):
            return False
        for i in range(s):
            for j in range(right):
                X[i, j] = rows[i, s + j]
            for j in range(s):
                out.A[k, i, j] = rows[j, i] if j <= i else 0.0
                out.B[k, i, j] = X[i, j]
            for j in range(b):
                out.C[k, i, j] = X[i, s + j]
            out.rhs[k, i] = X[i, s + b]
        add_gram(X, right, taken)
    if b == 0:
        return True
    rows = np.zeros((b, padded(b + 1)))
    for i in range(b):
        for j in range(b):
            rows[i, j] = D[i, j] - taken[s + i, s + j]
        rows[i, i] += damping * D[i, i]
        rows[i, b] = rhs_border[i] - taken[s + i, s + b]
    if not eliminate(rows):
        return False
    for i in range(b):
        for j in range(b):
            out.D[i, j] = rows[j, i] if j <= i else 0.0
        out.rhs_border[i] = rows[i, b]
    return True


@kernel
def back_substitute(
    A: Array, B: Array, C: Array, D: Array, rhs: Array, rhs_border: Array
) -> tuple[Array, Array]:
    """Solution (n, 15), (b,) from what `factor` left."""
    n, s, b = A.shape[0], A.shape[1], D.shape[0]
    x, x_border = rhs.copy(), rhs_border.copy()
    for i in range(b - 1, -1, -1):
        x_border[i] /= D[i, i]
        for j in range(i):
            x_border[j] -= D[i, j] * x_border[i]
    for k in range(n - 1, -1, -1):
        for i in range(s):
            for c in range(b):
                x[k, i] -= C[k, i, c] * x_border[c]
            if k < n - 1:
                for c in range(s):
                    x[k, i] -= B[k, i, c] * x[k + 1, c]
        for i in range(s - 1, -1, -1):
            x[k, i] /= A[k, i, i]
            for j in range(i):
                x[k, j] -= A[k, i, j] * x[k, i]
    return x, x_border


@kernel(fastmath={"contract"})
def inverse_blocks(A: Array, B: Array, C: Array, D: Array) -> tuple[Array, Array, Array, Array]:
    """Blocks of the inverse, from what `factor` left.

    Of each state (n, 15, 15), of each with the next (n - 1, 15, 15), of each with the border
    (n, 15, b), and of the border (b, b).
    """
    n, s, b = A.shape[0], A.shape[1], D.shape[0]
    own, with_next = np.empty((n, s, s)), np.empty((max(n - 1, 0), s, s))
    with_border, border = np.empty((n, s, b)), np.eye(b)
    forward_eliminate(D, border)
    back_eliminate(D, border)
    # Covariance of state k + 1 and the border, on which state k depends.
    size = s + b
    later = np.zeros((size, size))
    for i in range(b):
        for j in range(b):
            later[s + i, s + j] = border[i, j]
    alone, gain, cross = np.empty((s, s)), np.empty((s, size)), np.empty((s, size))
    for k in range(n - 1, -1, -1):
        for i in range(s):
            for c in range(s):
                alone[i, c] = 1.0 if c == i else 0.0
                gain[i, c] = B[k, i, c]
            for c in range(b):
                gain[i, s + c] = C[k, i, c]
        forward_eliminate(A[k], alone)
        back_eliminate(A[k], alone)
        back_eliminate(A[k], gain)
        for i in range(s):
            for c in range(size):
                cross[i, c] = 0.0
            for m in range(size):
                f = gain[i, m]
                for c in range(size):
                    cross[i, c] -= f * later[m, c]
        for i in range(s):
            for c in range(b):
                with_border[k, i, c] = later[i, s + c] = later[s + c, i] = cross[i, s + c]
            for j in range(i + 1):
                total = alone[i, j]
                for c in range(size):
                    total -= cross[i, c] * gain[j, c]
                own[k, i, j] = own[k, j, i] = later[i, j] = later[j, i] = total
            if k < n - 1:
                for c in range(s):
                    with_next[k, i, c] = cross[i, c]
    return own, with_next, with_border, border
