"""Joint optimization (Eq. 9): Levenberg-Marquardt on the chain of keyframes."""

from typing import NamedTuple

import numpy as np

from maci2.compile import kernel
from maci2.estimation.block_arrow import back_substitute, factor, inverse_blocks
from maci2.estimation.normal_equations import GIVEN, System, empty_system, linearize
from maci2.estimation.problem import (
    Measurements,
    Priors,
    Unknowns,
    Variables,
    gravity_basis,
    retract,
)
from maci2.estimation.small_cholesky import BLOCK
from maci2.lie import se3_adj, se3_inv
from maci2.types import Array

__all__ = [
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
"""Initial damping, relative to the diagonal. The IMU connects keyframes so stiffly that 1e-6
already slows down weakly determined directions (a bias, a common motion of the window) and costs an
iteration or two."""

REFUSED_DAMPING = 1e-8
"""Smallest damping after a rejected step."""

MOST_DAMPING = 1e12
"""Damping beyond which no step decreases the cost."""

DECREMENT = 1e-8
"""Predicted decrease of the cost at which an estimate stops: no unknown moves by more than 1e-4
standard deviations."""

TEST_DECREMENT = 0.04
"""The same for solutions that only test stated constants: no unknown moves by more than a fifth of
a standard deviation."""

SMALL = 1e6
"""Multiple of that decrease below which convergence is predicted by contraction."""


class Optimum(NamedTuple):
    """Result of the optimization."""

    x: Variables
    cost: float
    iterations: int
    converged: bool


class Covariances(NamedTuple):
    """Covariances of the unknowns, given the measurements."""

    gravity_c0: Array
    """(3, 3) [(m/s^2)^2]"""
    Ts_c0_b: Array
    """(n, 6, 6), the first with the extrinsics, whose inverse it is (gauge)."""
    velocity_b: Array
    """(n, 3, 3)"""
    border: Array
    """(17, 17) [gravity, gyro bias, acc bias, extrinsics, one over the scale, time offset] in the
    tangent space of `gravity_basis`; as far as the border of `Unknowns` reaches."""
    positive: bool
    """Whether the normal equations were positive definite; otherwise there are no covariances."""


@kernel
def optimize(
    m: Measurements,
    priors: Priors,
    unknowns: Unknowns,
    x: Variables,
    max_iterations: int,
    least_decrement: float,
    with_covariances: bool,
) -> tuple[Optimum, Covariances]:
    """Minimize the joint cost from x, and compute the posterior there if requested."""
    n = len(x.v_b)
    system, moved_system = empty_system(n, unknowns), empty_system(n, unknowns)
    work = empty_system(n, unknowns)
    damping = LEAST_DAMPING
    cost = linearize(m, priors, unknowns, x, system)
    iterations, before, converged = 0, 0.0, False
    while not converged and iterations < max_iterations and damping < MOST_DAMPING:
        iterations += 1
        _damp(system, damping, work)
        if factor(*work):
            dx, dx_border = back_substitute(*work)
            moved = retract(x, dx, dx_border, unknowns)
            decrement = _decrement(system, dx, dx_border)
            # Steps without damping contract at a rate that two of them show.
            is_small = decrement < min(before, SMALL * least_decrement)
            left = decrement**2 / before if is_small else decrement
            least = least_decrement if damping == LEAST_DAMPING else DECREMENT
            if left < least * max(1.0, 1e-6 * cost):
                x, cost, converged = moved, cost - decrement, True
                continue
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
    optimum = Optimum(x, cost, iterations, converged)
    if with_covariances:
        # The last step is too short to change a covariance, and has left the factors of one.
        positive = converged and damping == LEAST_DAMPING
        if not positive:
            _damp(system, 0.0, work)
            positive = factor(*work)
        if positive:
            return optimum, _covariances(x, unknowns, work)
    return optimum, Covariances(work.D, work.A, work.A, work.D, False)


@kernel
def _covariances(x: Variables, unknowns: Unknowns, factors: System) -> Covariances:
    """Covariances from the factored normal equations."""
    keyframes, border = inverse_blocks(factors.A, factors.B, factors.C, factors.D)
    n = len(keyframes)
    gravity_c0, poses, velocities = np.empty((3, 3)), np.zeros((n, 6, 6)), np.empty((n, 3, 3))
    _congruent(gravity_basis(x.g_c0, unknowns.sphere), border, 0, gravity_c0)
    if unknowns.extrinsics:
        # The first pose is the inverse extrinsics: xi_0 = -Ad(T_c_b) xi_bc.
        _congruent(se3_adj(se3_inv(x.T_b_c)), border, GIVEN, poses[0])
    for k in range(n):
        for i in range(6):
            for j in range(6):
                if k > 0:
                    poses[k, i, j] = keyframes[k, i, j]
        for i in range(3):
            for j in range(3):
                velocities[k, i, j] = keyframes[k, 6 + i, 6 + j]
    return Covariances(gravity_c0, poses, velocities, border, True)


@kernel
def _congruent(A: Array, border: Array, first: int, out: Array) -> None:
    """out = A S A', S the square of the symmetric border that begins at `first`."""
    n = len(A)
    for i in range(n):
        for j in range(i + 1):
            total = 0.0
            for k in range(n):
                for m in range(n):
                    total += A[i, k] * border[first + k, first + m] * A[j, m]
            out[i, j] = out[j, i] = total


@kernel
def _damp(system: System, damping: float, out: System) -> None:
    """out = the system with a damped diagonal."""
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
    """Predicted decrease of the cost by a step."""
    decrement = 0.0
    for k in range(len(dx)):
        for i in range(BLOCK):
            decrement += system.rhs[k, i] * dx[k, i]
    for i in range(len(dx_border)):
        decrement += system.rhs_border[i] * dx_border[i]
    return decrement
