"""The joint optimization (Eq. 9): Levenberg-Marquardt on the chain of keyframes."""

from typing import NamedTuple

import numpy as np
from numba import njit

from maci2.estimation.arrow import BLOCK, back_substitute, factor, inverse_blocks
from maci2.estimation.linearize import System, linearize
from maci2.estimation.problem import (
    LEVER_ARM_STD,
    Measurements,
    Priors,
    Unknowns,
    Variables,
    gravity_basis,
    retract,
)
from maci2.gaussian import Array

__all__ = [
    "LEVER_ARM_STD",
    "Covariances",
    "Measurements",
    "Optimum",
    "Priors",
    "Unknowns",
    "Variables",
    "covariances",
    "gravity_basis",
    "levenberg_marquardt",
]

LEAST_DAMPING = 1e-12
"""Relative to the diagonal; where steps begin. The IMU ties keyframes so stiffly that 1e-6 already
holds back what is loose (a bias, a window moving as a whole) and costs an iteration or two."""

REFUSED_DAMPING = 1e-8
"""The least damping after a step that was refused."""

MOST_DAMPING = 1e12
"""Where even a step this short is refused, there is no way down."""

DECREMENT = 1e-8
"""Stop when a step promises to lower the cost by less: it then moves nothing by more than 1e-4
standard deviations."""


class Optimum(NamedTuple):
    """Where the optimization ended."""

    x: Variables
    cost: float
    iterations: int
    converged: bool


class Covariances(NamedTuple):
    """Of the unknowns, given the measurements."""

    keyframes: Array
    """(n, 9, 9) [xi, v]; the first pose's block is meaningless (gauge)."""
    border: Array
    """(15, 15) [gravity, gyro bias, acc bias, extrinsics] in the tangent space of `gravity_basis`;
    (9, 9) where the extrinsics are given."""
    positive: bool
    """The normal equations were positive definite; otherwise there are no covariances."""


@njit(cache=True)
def levenberg_marquardt(
    m: Measurements,
    priors: Priors,
    unknowns: Unknowns,
    x: Variables,
    max_iterations: int,
) -> Optimum:
    """Minimise the joint cost from x."""
    damping = LEAST_DAMPING
    iterations = 0
    system, cost = linearize(m, priors, unknowns, x)
    while iterations < max_iterations and damping < MOST_DAMPING:
        iterations += 1
        solved, dx, dx_border, decrement = _damped_step(system, damping)
        if solved:
            moved = retract(x, dx, dx_border, unknowns)
            if decrement < DECREMENT * max(1.0, 1e-6 * cost):
                return Optimum(moved, cost - decrement, iterations, True)
            # Steps are rarely refused, so the derivatives come along with the cost.
            moved_system, moved_cost = linearize(m, priors, unknowns, moved)
            if moved_cost <= cost:
                x, system, cost = moved, moved_system, moved_cost
                damping = max(0.3 * damping, LEAST_DAMPING)
                continue
        damping = max(10.0 * damping, REFUSED_DAMPING)
    return Optimum(x, cost, iterations, False)


@njit(cache=True)
def _damped_step(system: System, damping: float) -> tuple[bool, Array, Array, float]:
    """Whether there is a step, its parts, and by how much it should lower the cost."""
    A, B, C, D = system.A.copy(), system.B.copy(), system.C.copy(), system.D.copy()
    rhs, rhs_border = system.rhs.copy(), system.rhs_border.copy()
    for k in range(len(A)):
        for i in range(BLOCK):
            A[k, i, i] *= 1.0 + damping
    for i in range(len(D)):
        D[i, i] *= 1.0 + damping
    if not factor(A, B, C, D, rhs, rhs_border):
        return False, rhs, rhs_border, np.inf
    dx, dx_border = back_substitute(A, B, C, D, rhs, rhs_border)
    decrement = 0.0
    for k in range(len(dx)):
        for i in range(BLOCK):
            decrement += system.rhs[k, i] * dx[k, i]
    for i in range(len(D)):
        decrement += system.rhs_border[i] * dx_border[i]
    return True, dx, dx_border, decrement


@njit(cache=True)
def covariances(m: Measurements, priors: Priors, unknowns: Unknowns, x: Variables) -> Covariances:
    """The posterior at the optimum x."""
    system, _ = linearize(m, priors, unknowns, x)
    A, B, C, D, rhs, rhs_border = system
    if not factor(A, B, C, D, rhs, rhs_border):
        return Covariances(A, D, False)
    keyframes, border = inverse_blocks(A, B, C, D)
    return Covariances(keyframes, border, True)
