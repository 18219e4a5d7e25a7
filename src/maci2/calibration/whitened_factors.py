"""Whitened residuals and derivatives of a solved chain, one kind of measurement at a time."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maci2.chain import ChainPosterior, ChainSolution
from maci2.chain.chain_equations import tie_factor, timed_factor
from maci2.chain.chain_gram import PAIR, ROOM
from maci2.chain.chain_gram import places as border_places
from maci2.chain.chain_state import STATE
from maci2.chain.propagation import CARRIED
from maci2.types import Array

IMU, CAMERA, POSITIONS, ORIENTATIONS = range(4)
"""Kinds of measurement."""

_ROWS = {IMU: 15, CAMERA: 6, POSITIONS: 3, ORIENTATIONS: 3}


@dataclass(frozen=True)
class WhitenedFactors:
    """m measurements of one kind, each of states k and k + 1 and the free constants."""

    index: NDArray[np.int64]
    """(m,) k"""

    r: Array
    """(m, d) residuals in standard deviations."""

    G: Array
    """(m, d, 30 + b) their derivatives; columns of state k, state k + 1, free constants."""

    projected: Array
    """(m, d, d) share of the residuals' covariance that the estimate follows: G P G'."""


def whitened_factors(
    solution: ChainSolution, posterior: ChainPosterior, kind: int
) -> WhitenedFactors:
    """All measurements of a kind at the optimum; none has a robust loss."""
    factors, rows = solution.factors, _ROWS[kind]
    ties = factors.ties
    timed = factors.positions if kind == POSITIONS else factors.orientations
    single = kind in (POSITIONS, ORIENTATIONS)
    index = {IMU: np.arange(len(ties.white)), CAMERA: ties.camera_index}.get(kind, timed.at_state)
    b = len(posterior.free)
    place = border_places(solution.columns, kind)
    states = STATE if single else 2 * STATE
    r, G = np.zeros((len(index), rows)), np.zeros((len(index), rows, 2 * STATE + b))
    J, T, carried = np.zeros((STATE, ROOM)), np.zeros((4, 4)), np.zeros((2, 6, CARRIED))
    for i, k in enumerate(index):
        if single:
            timed_factor(timed, i, solution.states, solution.border, T, carried[0], J)
            W = timed.white[i]
        else:
            motion = -1 if kind == IMU else i
            tie_factor(ties, k, motion, solution.states, solution.border, carried, J)
            W = ties.white[i] if kind == IMU else ties.camera_white[i]
        white = W[:rows, :rows] @ J[:rows]
        r[i], G[i, :, :states] = white[:, states], white[:, :states]
        G[i, :, 2 * STATE + place[1] - PAIR] = white[:, place[0]].T
    P = _joint_covariances(posterior)[index]
    return WhitenedFactors(index, r, G, G @ P @ np.swapaxes(G, 1, 2))


def _joint_covariances(posterior: ChainPosterior) -> Array:
    """(n, 30 + b, 30 + b) of state k, state k + 1 and the free constants; after the last state
    comes nothing."""
    n, s, b = len(posterior.states), STATE, len(posterior.free)
    P = np.zeros((n, 2 * s + b, 2 * s + b))
    P[:, :s, :s], P[:-1, s : 2 * s, s : 2 * s] = posterior.states, posterior.states[1:]
    P[:-1, :s, s : 2 * s] = posterior.neighbours
    P[:-1, s : 2 * s, :s] = np.swapaxes(posterior.neighbours, 1, 2)
    P[:, :s, 2 * s :], P[:-1, s : 2 * s, 2 * s :] = posterior.with_border, posterior.with_border[1:]
    P[:, 2 * s :, :s] = np.swapaxes(posterior.with_border, 1, 2)
    P[:-1, 2 * s :, s : 2 * s] = np.swapaxes(posterior.with_border[1:], 1, 2)
    P[:, 2 * s :, 2 * s :] = posterior.free
    return P
