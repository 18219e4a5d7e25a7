"""Normal equations of the problem: banded in the states, with a border of what they share.

    [ A_0  B_0,1 .. B_0,m          C_0 ]     A_k    (s, s)  state k, s = 15 or 9
    [      A_1  B_1,1 ..           C_1 ]     B_k,j  (s, s)  state k with state k + j
    [           A_2  ..            C_2 ]     C_k    (s, b)  state k with the shared parameters
    [                ..  ..         :  ]     D      (b, b)  shared parameters
    [                              D   ]

The bandwidth m follows from the factors: 1, unless a motion of the camera spans more keyframes.
Cost is linear in the number of states. Rows are short and contiguous, so that loops over them are
vectorized.
"""

import math
from typing import NamedTuple

import numpy as np

from maci2.estimator.problem import Indices
from maci2.jit import kernel
from maci2.types import Array

HUBER, CAUCHY = 1, 2
"""Kinds of robust loss; see `LossKind`."""

NO_LOSS = np.zeros(2)
"""Kind and limit of the loss of what counts by its square."""

LANES = 4
"""Multiple that rows are padded to, the width of a vector instruction."""


class System(NamedTuple):
    """Upper triangle of the normal equations."""

    rows: Array
    """(n, s, (1 + m) s + 1 + b, padded) [A | B_1 .. B_m | right-hand side | C] of each state."""
    border: Array
    """(b, b + 1, padded) [D | right-hand side]."""
    band: int
    """m"""


@kernel
def padded(columns: int) -> int:
    """Next multiple of `LANES`."""
    return (columns + LANES - 1) // LANES * LANES


@kernel
def empty_system(n: int, s: int, band: int, b: int) -> System:
    """Normal equations of n states with b shared unknowns, all zero."""
    rows = np.zeros((n, s, padded((1 + band) * s + 1 + b)))
    return System(rows, np.zeros((b, padded(b + 1))), band)


class Work(NamedTuple):
    """Room for one factor, with columns [states | r | shared unknowns]."""

    J: Array
    """Derivatives and residual."""
    X: Array
    """The same whitened."""
    H: Array
    """Square of these."""


@kernel
def robust(square: float, loss: Array) -> tuple[float, float]:
    """Cost and weight of a residual whose squared Mahalanobis norm is `square`; `loss` (2,) is
    which loss, and its limit."""
    limit = loss[1]
    if loss[0] == HUBER and square > limit * limit:
        length = math.sqrt(square)
        return limit * (2.0 * length - limit), limit / length
    if loss[0] == CAUCHY:
        ratio = square / (limit * limit)
        return limit * limit * math.log1p(ratio), 1.0 / (1.0 + ratio)
    return square, 1.0


@kernel(fastmath={"contract"})
def add_product(F: Array, X: Array, d: int, rows: int, columns: int, out: Array) -> None:
    """out += F' X in its first rows and columns; F and X have d rows, a multiple of three."""
    # Written out and from the first column on: a loop over the rows, or one that begins elsewhere,
    # is not always vectorised, and then takes four times as long.
    n = 0
    while n < d:
        if d - n == 3:
            for i in range(rows):
                e, f, g = F[n, i], F[n + 1, i], F[n + 2, i]
                for c in range(columns):
                    out[i, c] += e * X[n, c] + f * X[n + 1, c] + g * X[n + 2, c]
        elif d - n == 6:
            for i in range(rows):
                e, f, g = F[n, i], F[n + 1, i], F[n + 2, i]
                h, k, m = F[n + 3, i], F[n + 4, i], F[n + 5, i]
                for c in range(columns):
                    one = e * X[n, c] + f * X[n + 1, c] + g * X[n + 2, c]
                    out[i, c] += one + (h * X[n + 3, c] + k * X[n + 4, c] + m * X[n + 5, c])
        else:
            for i in range(rows):
                e, f, g = F[n, i], F[n + 1, i], F[n + 2, i]
                h, k, m = F[n + 3, i], F[n + 4, i], F[n + 5, i]
                o, p, q = F[n + 6, i], F[n + 7, i], F[n + 8, i]
                for c in range(columns):
                    one = e * X[n, c] + f * X[n + 1, c] + g * X[n + 2, c]
                    two = h * X[n + 3, c] + k * X[n + 4, c] + m * X[n + 5, c]
                    out[i, c] += one + two + (o * X[n + 6, c] + p * X[n + 7, c] + q * X[n + 8, c])
        n += min(d - n, 9)


@kernel
def _clear(out: Array, rows: int, columns: int) -> None:
    for i in range(rows):
        for c in range(columns):
            out[i, c] = 0.0


@kernel(forceinline=True)
def _gather(J: Array, d: int, r: int, place: Indices) -> None:
    """Move the columns of free shared unknowns next to the residual's, column r."""
    u = place.shape[1]
    if u > 0 and place[0, u - 1] != u:
        for i in range(d):
            for q in range(u):
                J[i, r + 1 + q] = J[i, r + place[0, q]]


@kernel(fastmath={"contract"}, forceinline=True)
def whiten(work: Work, W: Array, d: int, r: int, place: Indices) -> float:
    """Fill d rows of X with W J, in columns [states | r | free shared unknowns], where r is the
    residual's column; returns the residual's squared norm.

    d is a multiple of three. `place` (2, u) are the columns of free shared unknowns, counted from
    the residual's, and these unknowns.
    """
    J, X, _ = work
    columns, square = r + 1 + place.shape[1], 0.0
    _gather(J, d, r, place)
    _clear(X, d, columns)
    add_product(W.T, J, d, d, columns, X)
    for i in range(d):
        square += X[i, r] * X[i, r]
    return square


@kernel(fastmath={"contract"})
def add_factor(
    work: Work, W: Array, d: int, k: int, count: int, loss: Array, place: Indices, system: System
) -> float:
    """Add w (W J)'(W J) of the d rows in J to states k .. k + count - 1 and to the border; returns
    the cost. See `whiten` for d and `place`, `robust` for the loss."""
    r = count * system.rows.shape[1]
    columns = r + 1 + place.shape[1]
    cost, weight = robust(whiten(work, W, d, r, place), loss)
    _, X, H = work
    if weight < 1.0:
        root = math.sqrt(weight)
        for i in range(d):
            for c in range(columns):
                X[i, c] *= root
    for i in range(d):
        X[i, r] = -X[i, r]
    _clear(H, columns, columns)
    add_product(X, X, d, columns, columns, H)
    _add_square(H, k, count, place, system)
    return cost


@kernel(fastmath={"contract"})
def add_quadratic(
    work: Work, info: Array, eta: Array, d: int, k: int, place: Indices, system: System
) -> float:
    """Add the quadratic form x' info x - 2 eta' x of the d coordinates x whose values and
    derivatives are in J to state k and to the border; returns its value."""
    J, X, H = work
    r = system.rows.shape[1]
    columns, rows = r + 1 + place.shape[1], (d + 2) // 3 * 3
    _gather(J, d, r, place)
    for i in range(d, rows):
        for c in range(columns):
            J[i, c] = 0.0
    _clear(X, rows, columns)
    add_product(info, J, rows, d, columns, X)
    _clear(H, columns, columns)
    add_product(J, X, rows, columns, columns, H)
    value = float(H[r, r])
    for c in range(columns):
        H[c, r] = -H[c, r]
        for i in range(d):
            H[c, r] += J[i, c] * eta[i]
    for i in range(d):
        value -= 2.0 * J[i, r] * eta[i]
    _add_square(H, k, 1, place, system)
    return value


@kernel(fastmath={"contract"}, forceinline=True)
def _add_square(H: Array, k: int, count: int, place: Indices, system: System) -> None:
    """Add the square H of columns [states | r | free shared unknowns] to the normal equations."""
    s, u, b = system.rows.shape[1], place.shape[1], len(system.border)
    r, tail = count * s, (1 + system.band) * s
    # Mostly these are neighbours in the border, too.
    to = tail + 1 + place[1, 0] if u > 0 else 0
    in_order = True
    for q in range(1, u):
        in_order = in_order and place[1, q] == place[1, 0] + q
    # Indexed at once: a view of a row costs as much as the sums of the row.
    rows = system.rows
    for j in range(count):
        for i in range(s):
            p = j * s + i
            for c in range(r - j * s):
                rows[k + j, i, c] += H[p, j * s + c]
            rows[k + j, i, tail] += H[p, r]
            if in_order:
                for q in range(u):
                    rows[k + j, i, to + q] += H[p, r + 1 + q]
            else:
                for q in range(u):
                    rows[k + j, i, tail + 1 + place[1, q]] += H[p, r + 1 + q]
    for i in range(u):
        row, sums = system.border[place[1, i]], H[r + 1 + i]
        row[b] += sums[r]
        for q in range(u):
            row[place[1, q]] += sums[r + 1 + q]


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


@kernel(fastmath={"contract"})
def factorize(system: System, damping: float, out: System) -> bool:
    """Eliminate the states in order, then the border; False where not positive definite.

    The diagonal is made heavier by `damping`, relative to itself. Afterwards the rows of `out` hold
    [L^T | L^-1 (B | rhs | C)] of what was left of them when a state was eliminated, and its border
    [L^T | L^-1 rhs].
    """
    n, s, width = system.rows.shape
    band, b = system.band, len(system.border)
    tail = (1 + band) * s
    for k in range(n):
        for i in range(s):
            for c in range(width):
                out.rows[k, i, c] = system.rows[k, i, c]
            out.rows[k, i, i] += damping * system.rows[k, i, i]
    for i in range(b):
        for c in range(system.border.shape[1]):
            out.border[i, c] = system.border[i, c]
        out.border[i, i] += damping * system.border[i, i]
    rest, rows = width - s, out.rows
    Y, taken = np.empty((s, rest)), np.empty((rest, rest))
    for k in range(n):
        if not eliminate(out.rows[k]):
            return False
        for i in range(s):
            for c in range(rest):
                Y[i, c] = rows[k, i, s + c]
        _clear(taken, rest, rest)
        add_product(Y, Y, s, rest, rest, taken)
        for j in range(min(band, n - 1 - k)):
            for i in range(s):
                p = j * s + i
                for c in range((band - j) * s):
                    rows[k + 1 + j, i, c] -= taken[p, j * s + c]
                for c in range(tail, width):
                    rows[k + 1 + j, i, c] -= taken[p, c - s]
        for i in range(b):
            row, sums = out.border[i], taken[tail - s + 1 + i]
            row[b] -= sums[tail - s]
            for c in range(b):
                row[c] -= sums[tail - s + 1 + c]
    return b == 0 or eliminate(out.border)


@kernel
def back_substitute(factors: System) -> tuple[Array, Array]:
    """Solution (n, s), (b,) from what `factorize` left."""
    rows, border, band = factors
    n, s, _ = rows.shape
    b, tail = len(border), (1 + band) * s
    x, x_shared = np.zeros((n + band, s)), np.empty(b)
    for i in range(b - 1, -1, -1):
        total = border[i, b]
        for j in range(i + 1, b):
            total -= border[i, j] * x_shared[j]
        x_shared[i] = total / border[i, i]
    flat = x.ravel()
    for k in range(n - 1, -1, -1):
        for i in range(s - 1, -1, -1):
            row = rows[k, i]
            total = row[tail]
            for c in range(b):
                total -= row[tail + 1 + c] * x_shared[c]
            for c in range(i + 1, tail):
                total -= row[c] * flat[k * s + c]
            flat[k * s + i] = total / row[i]
    return x[:n], x_shared


@kernel
def back_eliminate(L_t: Array, X: Array) -> None:
    """X <- L^-T X, given L^T in the upper triangle."""
    n, columns = X.shape
    for i in range(n - 1, -1, -1):
        d = 1.0 / L_t[i, i]
        for c in range(columns):
            X[i, c] *= d
        for k in range(i):
            f = L_t[k, i]
            for c in range(columns):
                X[k, c] -= f * X[i, c]


@kernel
def _inverse(L_t: Array, n: int, X: Array) -> None:
    """X = (L L^T)^-1 in its first n columns."""
    X.fill(0.0)
    for i in range(n):
        X[i, i] = 1.0
    # L is lower triangular: L^-1 row by row.
    for i in range(n):
        for k in range(i):
            f = L_t[k, i]
            for c in range(k + 1):
                X[i, c] -= f * X[k, c]
        d = 1.0 / L_t[i, i]
        for c in range(i + 1):
            X[i, c] *= d
    back_eliminate(L_t, X)


@kernel(fastmath={"contract"})
def inverse_blocks(factors: System) -> tuple[Array, Array, Array, Array]:
    """Blocks of the inverse, from what `factorize` left.

    Of each state (n, s, s), of each with the next (n - 1, s, s), of each with the border (n, s, b),
    and of the border (b, b).
    """
    rows, L_border, band = factors
    n, s, _ = rows.shape
    b, tail = len(L_border), (1 + band) * s
    own, with_next = np.empty((n, s, s)), np.empty((n - 1, s, s))
    with_border, border = np.empty((n, s, b)), np.empty((b, b))
    _inverse(L_border, b, border)
    # Covariance of the states k + 1 .. k + m and of the border, on which state k depends.
    near = band * s
    size = near + b
    columns = padded(size)
    later, cross = np.zeros((size, columns)), np.empty((s, columns))
    alone, gain = np.empty((s, s)), np.zeros((s, columns))
    for i in range(b):
        for j in range(b):
            later[near + i, near + j] = border[i, j]
    for k in range(n - 1, -1, -1):
        for i in range(s):
            for c in range(near):
                gain[i, c] = rows[k, i, s + c]
            for c in range(b):
                gain[i, near + c] = rows[k, i, tail + 1 + c]
        _inverse(rows[k], s, alone)
        back_eliminate(rows[k], gain)
        for i in range(s):
            for c in range(columns):
                cross[i, c] = 0.0
            for m in range(size):
                f = gain[i, m]
                for c in range(columns):
                    cross[i, c] -= f * later[m, c]
        for i in range(s):
            for c in range(b):
                with_border[k, i, c] = cross[i, near + c]
            for j in range(i + 1):
                total = alone[i, j]
                for c in range(size):
                    total -= cross[i, c] * gain[j, c]
                own[k, i, j] = own[k, j, i] = total
            if k < n - 1:
                for c in range(s):
                    with_next[k, i, c] = cross[i, c]
        _shift(later, near, s)
        for i in range(s):
            for c in range(s):
                later[i, c] = own[k, i, c]
            for c in range(near - s):
                later[i, s + c] = later[s + c, i] = cross[i, c]
            for c in range(near, size):
                later[i, c] = later[c, i] = cross[i, c]
    return own, with_next, with_border, border


@kernel
def _shift(later: Array, near: int, s: int) -> None:
    """Move the covariance of states k + 1 .. k + m - 1 to where that of k + 2 .. k + m was, which
    drops the last."""
    for i in range(near - 1, s - 1, -1):
        for c in range(near - 1, s - 1, -1):
            later[i, c] = later[i - s, c - s]
        for c in range(near, later.shape[0]):
            later[i, c] = later[c, i] = later[i - s, c]


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
