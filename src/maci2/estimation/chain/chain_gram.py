"""Adding whitened residuals to normal equations, each column where its unknown is."""

import math

import numpy as np
from numba import njit

from maci2.estimation.chain.chain_arrays import CAUCHY, HUBER, Indices
from maci2.estimation.chain.chain_factors import CAMERA_COLUMNS, IMU_COLUMNS, POSITION_COLUMNS
from maci2.estimation.chain.chain_state import BORDER, STATE, Columns
from maci2.gaussian import Array


@njit(cache=True, fastmath={"contract"})
def accumulate(
    J: Array,
    rows: int,
    columns: int,
    W: Array,
    loss: int,
    limit: float,
    where: Indices,
    white: Array,
    H: Array,
) -> float:
    """H += w (W J)'(W J), residual included as the last column; returns the cost.

    W is lower triangular. `where` (columns + 1,) says where a column goes, -1 where nowhere.
    """
    width = columns + 1
    for i in range(rows):
        for c in range(width):
            white[i, c] = 0.0
        for j in range(i + 1):
            f = W[i, j]
            for c in range(width):
                white[i, c] += f * J[j, c]
    square = 0.0
    for i in range(rows):
        square += white[i, columns] ** 2
    cost, weight = square, 1.0
    if loss == HUBER and square > limit * limit:
        length = math.sqrt(square)
        cost, weight = limit * (2.0 * length - limit), limit / length
    elif loss == CAUCHY:
        cost = limit * limit * math.log1p(square / (limit * limit))
        weight = 1.0 / (1.0 + square / (limit * limit))
    line = np.empty(width)
    for i in range(width):
        a = where[i]
        if a < 0:
            continue
        for c in range(width):
            line[c] = 0.0
        for k in range(rows):
            f = weight * white[k, i]
            for c in range(width):
                line[c] += f * white[k, c]
        for c in range(width):
            if where[c] >= 0:
                H[a, where[c]] += line[c]
    return cost


@njit(cache=True)
def places(columns: Columns, which: int, last: int) -> Indices:
    """Where the columns of the IMU (0), camera (1), position (2), orientation (3) factor go."""
    b = 2 * STATE
    where = np.full(CAMERA_COLUMNS + 1, -1)
    states = 2 * STATE if which < 2 else STATE
    for i in range(states):
        where[i] = i
    border = np.full(BORDER, -1)
    for i in range(BORDER):
        if columns[i] >= 0:
            border[i] = b + columns[i]
    where[states], where[states + 1] = border[0], border[1]
    if which == 0:
        where[IMU_COLUMNS] = last
    elif which == 1:
        for i in range(6):
            where[32 + i] = border[2 + i]
        where[38], where[39], where[CAMERA_COLUMNS] = border[8], border[9], last
    else:
        clock = 16 if which == 2 else 18
        for i in range(6):
            where[17 + i] = border[10 + i]
        where[23], where[24] = border[clock], border[clock + 1]
        where[POSITION_COLUMNS] = last
    return where
