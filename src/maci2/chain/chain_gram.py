"""Adding whitened residuals to normal equations.

Factors of one state and of two neighbours have columns [state(s), residual, border]; their sums go
to H with rows and columns [state k, state k + 1, residual, -, free constants]. Loops over states
have a fixed length, which the compiler unrolls: three times as fast as the same loops in general.
"""

import math

import numpy as np

from maci2.chain.chain_arrays import CAUCHY, HUBER, Indices
from maci2.chain.chain_state import STATE, Columns
from maci2.compile import kernel
from maci2.types import Array

SINGLE, PAIR = STATE + 1, 2 * STATE + 2
"""Columns before those of the border; a pair's last one is empty."""

RESIDUAL = 2 * STATE
"""Column of the residual in H and in a pair's J; in a single's J it is `STATE`."""

ROOM = PAIR + 10
"""Columns that a factor needs at most."""


@kernel
def robust(square: float, loss: int, limit: float) -> tuple[float, float]:
    """Cost and weight of a residual whose squared Mahalanobis norm is `square`."""
    if loss == HUBER and square > limit * limit:
        length = math.sqrt(square)
        return limit * (2.0 * length - limit), limit / length
    if loss == CAUCHY:
        ratio = square / (limit * limit)
        return limit * limit * math.log1p(ratio), 1.0 / (1.0 + ratio)
    return square, 1.0


@kernel(fastmath={"contract"})
def add_pair(
    J: Array, W: Array, loss: int, limit: float, place: Indices, white: Array, H: Array
) -> float:
    """H += w (W J)'(W J) of 15 rows (fewer are filled up with zeros); returns the cost."""
    _whiten(W, J, white)
    square = 0.0
    for i in range(STATE):
        square += white[i, RESIDUAL] ** 2
    cost, weight = robust(square, loss, limit)
    if weight < 1.0:
        root = math.sqrt(weight)
        for i in range(STATE):
            for c in range(PAIR):
                white[i, c] *= root
    add_gram(white, PAIR, H)
    if place.shape[1] > 0:
        _add_border(J, W, STATE, 2 * STATE, math.sqrt(weight), place, white, H)
    return cost


@kernel(fastmath={"contract"})
def _whiten(W: Array, J: Array, out: Array) -> None:
    """out = W J, of 15 rows and a pair's columns."""
    # Written out, here and below: as a loop over the rows it is not always vectorised, and then
    # takes four times as long.
    for i in range(STATE):
        a, b, c, d, e = W[i, 0], W[i, 1], W[i, 2], W[i, 3], W[i, 4]
        f, g, h, m, n = W[i, 5], W[i, 6], W[i, 7], W[i, 8], W[i, 9]
        o, p, q, r, s = W[i, 10], W[i, 11], W[i, 12], W[i, 13], W[i, 14]
        for k in range(PAIR):
            first = a * J[0, k] + b * J[1, k] + c * J[2, k] + d * J[3, k] + e * J[4, k]
            second = f * J[5, k] + g * J[6, k] + h * J[7, k] + m * J[8, k] + n * J[9, k]
            third = o * J[10, k] + p * J[11, k] + q * J[12, k] + r * J[13, k] + s * J[14, k]
            out[i, k] = first + second + third


@kernel(fastmath={"contract"})
def add_gram(X: Array, columns: int, out: Array) -> None:
    """out += X' X, of 15 rows and the first columns."""
    for i in range(columns):
        a, b, c, d, e = X[0, i], X[1, i], X[2, i], X[3, i], X[4, i]
        f, g, h, m, n = X[5, i], X[6, i], X[7, i], X[8, i], X[9, i]
        o, p, q, r, s = X[10, i], X[11, i], X[12, i], X[13, i], X[14, i]
        for k in range(columns):
            first = a * X[0, k] + b * X[1, k] + c * X[2, k] + d * X[3, k] + e * X[4, k]
            second = f * X[5, k] + g * X[6, k] + h * X[7, k] + m * X[8, k] + n * X[9, k]
            third = o * X[10, k] + p * X[11, k] + q * X[12, k] + r * X[13, k] + s * X[14, k]
            out[i, k] += first + second + third


@kernel(fastmath={"contract"})
def add_single(
    J: Array, W: Array, loss: int, limit: float, place: Indices, white: Array, H: Array
) -> float:
    """The same of 3 rows and one state."""
    for i in range(3):
        for c in range(SINGLE):
            white[i, c] = W[i, 0] * J[0, c] + W[i, 1] * J[1, c] + W[i, 2] * J[2, c]
    square = white[0, STATE] ** 2 + white[1, STATE] ** 2 + white[2, STATE] ** 2
    cost, weight = robust(square, loss, limit)
    if weight < 1.0:
        root = math.sqrt(weight)
        for i in range(3):
            for c in range(SINGLE):
                white[i, c] *= root
    for i in range(STATE):
        for c in range(STATE):
            H[i, c] += (
                white[0, i] * white[0, c] + white[1, i] * white[1, c] + white[2, i] * white[2, c]
            )
        for k in range(3):
            H[i, RESIDUAL] += white[k, i] * white[k, STATE]
    if place.shape[1] > 0:
        _add_border(J, W, 3, STATE, math.sqrt(weight), place, white, H)
    return cost


@kernel(fastmath={"contract"})
def _add_border(
    J: Array, W: Array, rows: int, states: int, root: float, place: Indices, white: Array, H: Array
) -> None:
    """Rows of H that belong to free constants; `white` holds the states' columns already."""
    count = place.shape[1]
    for k in range(rows):
        for q in range(count):
            total = 0.0
            for j in range(k + 1):
                total += W[k, j] * J[j, place[0, q]]
            white[k, PAIR + q] = root * total
    for q in range(count):
        row = H[place[1, q]]
        for k in range(rows):
            f = white[k, PAIR + q]
            for c in range(states):
                row[c] += f * white[k, c]
            row[RESIDUAL] += f * white[k, states]
            for r in range(count):
                row[place[1, r]] += f * white[k, PAIR + r]


@kernel
def keep_rows(J: Array, place: Indices, index: int, kept: Array) -> None:
    """Copy a factor's rows, its constants' columns in the order of all that are free."""
    if len(kept) == 0:
        return
    rows = kept.shape[1]
    states = STATE if rows == 3 else 2 * STATE
    for r in range(rows):
        for c in range(states + 1):
            kept[index, r, c] = J[r, c]
        for q in range(place.shape[1]):
            kept[index, r, states + 1 + place[1, q] - PAIR] = J[r, place[0, q]]


@kernel
def places(columns: Columns, which: int) -> Indices:
    """(2, m) columns of free constants in the factor of the IMU (0), camera (1), position (2) or
    orientation (3), and where in H they go."""
    to = np.empty(ROOM, dtype=np.int64)
    for i in range(ROOM):
        to[i] = -1
    first = PAIR if which < 2 else SINGLE
    _to_border(columns, 0, 2, to, first)
    if which == 1:
        _to_border(columns, 2, 8, to, first + 2)
    elif which > 1:
        _to_border(columns, 10, 6, to, first + 2)
        _to_border(columns, 16 if which == 2 else 18, 2, to, first + 8)
    used = 0
    for i in range(ROOM):
        used += to[i] >= 0
    place = np.empty((2, used), dtype=np.int64)
    at = 0
    for i in range(ROOM):
        if to[i] >= 0:
            place[0, at], place[1, at] = i, to[i]
            at += 1
    return place


@kernel
def _to_border(columns: Columns, first: int, count: int, to: Indices, at: int) -> None:
    """Border unknowns `first`... of a factor are its columns `at`...; -1 where not free."""
    for i in range(count):
        if columns[first + i] >= 0:
            to[at + i] = PAIR + columns[first + i]
