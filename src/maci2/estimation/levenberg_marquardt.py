"""The joint optimization (Eq. 9): Levenberg-Marquardt on the chain of keyframes."""

from typing import NamedTuple

from maci2.compile import kernel
from maci2.estimation.block_arrow import BLOCK, back_substitute, factor, inverse_blocks
from maci2.estimation.normal_equations import System, empty_system, linearize
from maci2.estimation.problem import (
    LEVER_ARM_STD,
    Measurements,
    Priors,
    Unknowns,
    Variables,
    gravity_basis,
    retract,
)
from maci2.types import Array

__all__ = [
    "LEVER_ARM_STD",
    "Covariances",
    "Measurements",
    "Optimum",
    "Priors",
    "Unknowns",
    "Variables",
    "gravity_basis",
    "optimize",
]

LEAST_DAMPING = 1e-12
"""Relative to the diagonal; where steps begin. The IMU ties keyframes so stiffly that 1e-6 already
holds back what is loose (a bias, a window moving as a whole) and costs an iteration or two."""

REFUSED_DAMPING = 1e-8
"""The least damping after a step that was refused."""

MOST_DAMPING = 1e12
"""Where even a step this short is refused, there is no way down."""

DECREMENT = 1e-8
"""Decrease of the cost by a step that moves nothing by more than 1e-4 standard deviations: stop
when the next would promise less."""

SMALL = 0.01
"""Decrease of the cost by a step that moves nothing by more than a tenth of its standard deviation:
from there on steps contract as those before them did."""


class Optimum(NamedTuple):
    """Where the optimization ended."""

    x: Variables
    cost: float
    iterations: int
    converged: bool


class Covariances(NamedTuple):
    """Covariances of the unknowns, given the measurements."""

    keyframes: Array
    """(n, 9, 9) [xi, v]; the first pose's block is meaningless (gauge)."""
    border: Array
    """(17, 17) [gravity, gyro bias, acc bias, extrinsics, one over the scale, time offset] in the
    tangent space of `gravity_basis`; as far as the border of `Unknowns` reaches."""
    positive: bool
    """The normal equations were positive definite; otherwise there are no covariances."""


@kernel
def optimize(
    m: Measurements,
    priors: Priors,
    unknowns: Unknowns,
    x: Variables,
    max_iterations: int,
    with_covariances: bool,
) -> tuple[Optimum, Covariances]:
    """Minimise the joint cost from x; the posterior there, where it is asked for.

    One kernel, because both are made of the same parts: two would take twice the time to compile.
    """
    optimum = _levenberg_marquardt(m, priors, unknowns, x, max_iterations)
    system = empty_system(len(x.v_b), unknowns)
    if with_covariances:
        linearize(m, priors, unknowns, optimum.x, system)
        if factor(*system):
            keyframes, border = inverse_blocks(system.A, system.B, system.C, system.D)
            return optimum, Covariances(keyframes, border, True)
    return optimum, Covariances(system.A, system.D, False)


@kernel
def _levenberg_marquardt(
    m: Measurements,
    priors: Priors,
    unknowns: Unknowns,
    x: Variables,
    max_iterations: int,
) -> Optimum:
    """Minimise the joint cost from x."""
    n = len(x.v_b)
    system, moved_system = empty_system(n, unknowns), empty_system(n, unknowns)
    work = empty_system(n, unknowns)
    damping = LEAST_DAMPING
    cost = linearize(m, priors, unknowns, x, system)
    iterations, before = 0, 0.0
    while iterations < max_iterations and damping < MOST_DAMPING:
        iterations += 1
        _damp(system, damping, work)
        if factor(*work):
            dx, dx_border = back_substitute(*work)
            moved = retract(x, dx, dx_border, unknowns)
            decrement = _decrement(system, dx, dx_border)
            # Steps without damping contract at a rate that two of them show.
            left = decrement**2 / before if decrement < min(before, SMALL) else decrement
            if left < DECREMENT * max(1.0, 1e-6 * cost):
                return Optimum(moved, cost - decrement, iterations, True)
            # Steps are rarely refused, so the derivatives come along with the cost.
            moved_cost = linearize(m, priors, unknowns, moved, moved_system)
            if moved_cost <= cost:
                before = decrement if damping == LEAST_DAMPING else 0.0
                x, cost = moved, moved_cost
                system, moved_system = moved_system, system
                damping = max(0.3 * damping, LEAST_DAMPING)
                continue
        damping = max(10.0 * damping, REFUSED_DAMPING)
        before = 0.0
    return Optimum(x, cost, iterations, False)


@kernel
def _damp(system: System, damping: float, out: System) -> None:
    """out = the system with a heavier diagonal."""
    border = len(out.D)
    for k in range(len(out.A)):
        for i in range(BLOCK):
            for j in range(BLOCK):
                out.A[k, i, j] = system.A[k, i, j]
                out.B[k, i, j] = system.B[k, i, j]
            for j in range(border):
                out.C[k, i, j] = system.C[k, i, j]
            out.A[k, i, i] *= 1.0 + damping
            out.rhs[k, i] = system.rhs[k, i]
    for i in range(border):
        for j in range(border):
            out.D[i, j] = system.D[i, j]
        out.D[i, i] *= 1.0 + damping
        out.rhs_border[i] = system.rhs_border[i]


@kernel
def _decrement(system: System, dx: Array, dx_border: Array) -> float:
    """Decrease of the cost that a step should bring."""
    decrement = 0.0
    for k in range(len(dx)):
        for i in range(BLOCK):
            decrement += system.rhs[k, i] * dx[k, i]
    for i in range(len(dx_border)):
        decrement += system.rhs_border[i] * dx_border[i]
    return decrement
