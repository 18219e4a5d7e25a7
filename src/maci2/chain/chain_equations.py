"""Normal equations of a chain: block tridiagonal in the states, with a border of shared constants.

The blocks are those of `block_arrow`, with 15 unknowns per state and as many in the border as are
free.
"""

import numpy as np

from maci2.chain.chain_arrays import (
    CAMERA_GROUP,
    IMU_GROUP,
    NO_LOSS,
    ORIENTATION_GROUP,
    POSITION_GROUP,
    PRIOR_GROUP,
    FactorRows,
    Factors,
    Indices,
    StackedPriors,
    Ties,
    Timed,
)
from maci2.chain.chain_factors import (
    camera_factor,
    imu_factor,
    orientation_factor,
    position_factor,
    prior_factor,
)
from maci2.chain.chain_gram import (
    PAIR,
    RESIDUAL,
    ROOM,
    add_pair,
    add_single,
    keep_rows,
    places,
)
from maci2.chain.chain_state import BORDER, STATE, Border, Columns, States
from maci2.chain.propagation import CARRIED, carry
from maci2.compile import kernel
from maci2.estimation.normal_equations import System
from maci2.types import Array


def empty_system(n: int, border: int) -> System:
    return System(
        np.empty((n, STATE, STATE)),
        np.empty((n, STATE, STATE)),
        np.empty((n, STATE, border)),
        np.empty((border, border)),
        np.empty((n, STATE)),
        np.empty(border),
    )


@kernel
def _remaining(timed: Timed, i: int, border: Border) -> float:
    """What the clock's offset has moved since samples were integrated [s]."""
    clock = 3 if timed.value.shape[2] == 1 else 4
    return border.scalars[clock] + border.scalars[clock + 2] * timed.elapsed[i] - timed.anchor[i]


@kernel
def timed_factor(
    timed: Timed, i: int, states: States, border: Border, T: Array, carried: Array, J: Array
) -> None:
    """Position or orientation i, by the shape of what was measured."""
    k, position = timed.at_state[i], timed.value.shape[2] == 1
    s = _remaining(timed, i, border)
    carry(timed.spans, i, states, k, border, s, T, carried)
    if position:
        position_factor(T, carried, border, timed.value[i], timed.elapsed[i], J)
    else:
        orientation_factor(T, carried, border, timed.value[i], timed.elapsed[i], J)


@kernel
def tie_factor(
    ties: Ties, k: int, motion: int, states: States, border: Border, carried: Array, J: Array
) -> None:
    """IMU factor of states k and k + 1, or their camera factor with relative pose `motion`."""
    if motion < 0:
        imu_factor(ties.spans, k, states, border, J)
        return
    s = border.scalars[2]
    Ts = np.empty((2, 4, 4))
    for end in range(2):
        carry(ties.instant, k + end, states, k + end, border, s, Ts[end], carried[end])
    camera_factor(ties.camera[motion], Ts[0], carried[0], Ts[1], carried[1], border, J)


@kernel
def linearize(
    factors: Factors,
    states: States,
    border: Border,
    columns: Columns,
    system: System,
    costs: Array,
    kept: FactorRows,
) -> None:
    """Fill `system` with the normal equations, `costs` (5,) with the cost of each kind, and `kept`
    with the rows of each factor where it has room for them."""
    ties, priors = factors.ties, factors.priors
    n, b = len(states.v_w), len(system.D)
    J, white = np.zeros((STATE, ROOM)), np.zeros((STATE, ROOM))
    T, carried = np.zeros((4, 4)), np.zeros((2, 6, CARRIED))
    H = np.zeros((PAIR + b, PAIR + b))
    to_imu, to_camera = places(columns, 0), places(columns, 1)
    to_position, to_orientation = places(columns, 2), places(columns, 3)
    costs.fill(0.0)
    at_camera, at_position, at_orientation = 0, 0, 0
    for k in range(n):
        if k < n - 1:
            tie_factor(ties, k, -1, states, border, carried, J)
            costs[IMU_GROUP] += add_pair(J, ties.white[k], NO_LOSS, 0.0, to_imu, white, H)
            keep_rows(J, to_imu, k, kept.imu)
        while at_camera < len(ties.camera_index) and ties.camera_index[at_camera] == k:
            tie_factor(ties, k, at_camera, states, border, carried, J)
            W, loss = ties.camera_white[at_camera], ties.camera_loss
            costs[CAMERA_GROUP] += add_pair(J, W, int(loss[0]), loss[1], to_camera, white, H)
            keep_rows(J, to_camera, at_camera, kept.camera)
            at_camera += 1
        at_position, at_orientation = _add_timed(
            factors, k, at_position, at_orientation, states, border, to_position, to_orientation,
            T, carried[0], J, white, H, costs, kept,
        )  # fmt: skip
        _hand_over(H, k, system)
    for i in range(b):
        for j in range(b):
            system.D[i, j] = H[PAIR + i, PAIR + j]
        system.rhs_border[i] = -H[PAIR + i, RESIDUAL]
    for i in range(len(priors.at_state)):
        costs[PRIOR_GROUP] += _add_prior(priors, i, states, border, columns, system)


@kernel
def _add_timed(
    factors: Factors,
    k: int,
    at_position: int,
    at_orientation: int,
    states: States,
    border: Border,
    to_position: Indices,
    to_orientation: Indices,
    T: Array,
    carried: Array,
    J: Array,
    white: Array,
    H: Array,
    costs: Array,
    kept: FactorRows,
) -> tuple[int, int]:
    """Positions and orientations of state k; returns where those of the next state begin.

    An orientation of the very instant of a position needs no state carried there again.
    """
    p, r = factors.positions, factors.orientations
    loss_p, loss_r = int(p.loss[0]), int(r.loss[0])
    while at_position < len(p.at_state) and p.at_state[at_position] == k:
        i, j = at_position, at_orientation
        timed_factor(p, i, states, border, T, carried, J)
        costs[POSITION_GROUP] += add_single(J, p.white[i], loss_p, p.loss[1], to_position, white, H)
        keep_rows(J, to_position, i, kept.positions)
        at_position += 1
        same = j < len(r.at_state) and r.at_state[j] == k and r.spans.dt[j] == p.spans.dt[i]
        if same and _remaining(p, i, border) == _remaining(r, j, border):
            orientation_factor(T, carried, border, r.value[j], r.elapsed[j], J)
            costs[ORIENTATION_GROUP] += add_single(
                J, r.white[j], loss_r, r.loss[1], to_orientation, white, H
            )
            keep_rows(J, to_orientation, j, kept.orientations)
            at_orientation += 1
    while at_orientation < len(r.at_state) and r.at_state[at_orientation] == k:
        j = at_orientation
        timed_factor(r, j, states, border, T, carried, J)
        costs[ORIENTATION_GROUP] += add_single(
            J, r.white[j], loss_r, r.loss[1], to_orientation, white, H
        )
        keep_rows(J, to_orientation, j, kept.orientations)
        at_orientation += 1
    return at_position, at_orientation


@kernel
def _hand_over(H: Array, k: int, system: System) -> None:
    """Write the sums of state k, which are complete, and move those of the next to their place."""
    A, B, C, D, rhs, _ = system
    for i in range(STATE):
        for j in range(STATE):
            A[k, i, j], B[k, i, j] = H[i, j], H[i, STATE + j]
            H[i, j], H[i, STATE + j] = H[STATE + i, STATE + j], 0.0
        rhs[k, i] = -H[i, RESIDUAL]
        H[i, RESIDUAL] = H[STATE + i, RESIDUAL]
        for j in range(len(D)):
            C[k, i, j] = H[PAIR + j, i]
            H[PAIR + j, i], H[PAIR + j, STATE + i] = H[PAIR + j, STATE + i], 0.0
        H[STATE + i].fill(0.0)


@kernel
def _add_congruent(J: Array, info: Array, out: Array) -> None:
    """out += J' info J, for a J that is mostly zero."""
    size = len(J)
    by_column = np.zeros((size, size))
    for n in range(size):
        for c in range(size):
            if J[n, c] != 0.0:
                for i in range(size):
                    by_column[i, c] += info[i, n] * J[n, c]
    for n in range(size):
        for a in range(size):
            if J[n, a] != 0.0:
                for c in range(size):
                    out[a, c] += J[n, a] * by_column[n, c]


@kernel
def _add_prior(
    priors: StackedPriors,
    i: int,
    states: States,
    border: Border,
    columns: Columns,
    system: System,
) -> float:
    """Add one prior: cost delta' info delta - 2 eta' delta + constant."""
    size, k = STATE + BORDER, priors.at_state[i]
    delta, J = np.empty(size), np.empty((size, size))
    mean = Border(priors.R_w_g[i], priors.T_b_c[i], priors.T_b_m[i], priors.scalars[i])
    rest = np.empty(9)
    for j in range(3):
        rest[j] = states.v_w[k, j]
        rest[3 + j], rest[6 + j] = states.bias_gyro[k, j], states.bias_acc[k, j]
    prior_factor(states.Ts_w_b[k], priors.Ts_w_b[i], priors.rest[i], rest, border, mean, delta, J)
    cost = priors.constant[i]
    info, rhs = np.zeros((size, size)), np.zeros(size)
    for j in range(size):
        slope = 0.0
        for n in range(size):
            slope += priors.info[i, j, n] * delta[n]
        cost += delta[j] * (slope - 2.0 * priors.eta[i, j])
        for n in range(size):
            rhs[n] += J[j, n] * (priors.eta[i, j] - slope)
    _add_congruent(J, priors.info[i], info)
    A, _, C, D, rhs_states, rhs_border = system
    for a in range(size):
        to_a = a if a < STATE else columns[a - STATE]
        if to_a < 0:
            continue
        if a < STATE:
            rhs_states[k, a] += rhs[a]
        else:
            rhs_border[to_a] += rhs[a]
        for c in range(size):
            to_c = c if c < STATE else columns[c - STATE]
            if to_c < 0:
                continue
            if a < STATE and c < STATE:
                A[k, a, c] += info[a, c]
            elif a < STATE:
                C[k, a, to_c] += info[a, c]
            elif c >= STATE:
                D[to_a, to_c] += info[a, c]
    return cost
