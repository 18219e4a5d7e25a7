"""Whitened residuals and derivatives of a solved chain, one kind of measurement at a time."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maci2.chain.chain_arrays import FactorRows, Factors, Indices
from maci2.chain.chain_gram import RESIDUAL, SINGLE
from maci2.chain.chain_posterior import ChainPosterior, normal_equations
from maci2.chain.chain_solver import ChainSolution
from maci2.chain.chain_state import STATE
from maci2.types import Array

IMU, CAMERA, POSITIONS, ORIENTATIONS = range(4)
"""Kinds of measurement."""

AT_ONCE = 500
"""Factors whose covariances are in memory at once; 20 kB each."""


@dataclass(frozen=True)
class WhitenedFactors:
    """m measurements of one kind, each of states k and k + 1 and the free constants."""

    index: NDArray[np.int64]
    """(m,) k"""

    r: Array
    """(m, d) residuals in standard deviations, as a robust loss does not see them."""

    G: Array
    """(m, d, 30 + b) their derivatives; columns of state k, state k + 1, free constants."""

    projected: Array
    """(m, d, d) share of the residuals' covariance that the estimate follows: G P G'."""

    weighted: NDArray[np.bool_]
    """(m, d) False for residuals without weight (a gap of the IMU)."""


def whitened_factors(
    solution: ChainSolution, posterior: ChainPosterior, kind: int
) -> WhitenedFactors:
    """All measurements of a kind at the optimum."""
    W, index = _weights(solution.factors, kind)
    white = W @ _factor_rows(solution, kind, W)
    b = len(posterior.free)
    states = white.shape[2] - 1 - b
    r, G = white[:, :, states], np.zeros((*white.shape[:2], 2 * STATE + b))
    G[:, :, :states], G[:, :, 2 * STATE :] = white[:, :, :states], white[:, :, states + 1 :]
    projected = np.empty_like(W)
    for first in range(0, len(index), AT_ONCE):
        part = slice(first, first + AT_ONCE)
        own = np.delete(white[part], states, axis=2)
        cov = posterior.joints(index[part], neighbours=states > STATE)
        projected[part] = own @ cov @ np.swapaxes(own, 1, 2)
    weighted = np.diagonal(W, axis1=1, axis2=2) > 0.0
    return WhitenedFactors(index, r, G, projected, weighted)


def _weights(factors: Factors, kind: int) -> tuple[Array, Indices]:
    """(m, d, d) whitening matrices of a kind of measurement, and its states k."""
    ties = factors.ties
    if kind == IMU:
        return ties.white, np.arange(len(ties.white))
    if kind == CAMERA:
        return ties.camera_white[:, :6, :6], ties.camera_index
    timed = factors.positions if kind == POSITIONS else factors.orientations
    return timed.white, timed.at_state


def _factor_rows(solution: ChainSolution, kind: int, W: Array) -> Array:
    """(m, d, columns) derivatives and residuals; see `FactorRows`."""
    m, d, _ = W.shape
    free = int(solution.columns.max()) + 1
    rows = np.zeros((m, d, (SINGLE if d == 3 else RESIDUAL + 1) + free))
    nothing = np.zeros((0, 0, 0))
    normal_equations(solution, FactorRows(*(rows if k == kind else nothing for k in range(4))))
    return rows
