"""What slow errors of visual orientation add to covariances of a chain that is smoothed as a whole.

The process is that of `slow_errors`. A chain's estimate is linear in its measurements about the
solution, so an error w(t) moves it by H^-1 J' W' W d, where H are its normal equations, W J the
whitened rows of relative poses and d what w makes of each of them. Paths of w are drawn and solved
for all at once, at a cost linear in the chain's length; the spread of the solutions is the answer.
"""

import numpy as np

from maci2.chain import ChainPosterior, ChainSolution
from maci2.chain.chain_elimination import factor
from maci2.chain.chain_gram import robust
from maci2.chain.chain_posterior import normal_equations
from maci2.chain.chain_state import STATE
from maci2.chain.whitened_factors import CAMERA, whitened_factors
from maci2.estimation.normal_equations import System
from maci2.lie import se3_adj, se3_inv
from maci2.tracking.slow_errors import TIME_CONSTANT_S, wobble_step
from maci2.types import NS, Array, Stamps

PATHS, AT_ONCE = 400, 100
"""Paths that are drawn, and how many are in memory together: variances are told to 7 % and need
12 kB a state."""


def smoothed_slow_covariance(
    solution: ChainSolution, posterior: ChainPosterior, stamps_ns: Stamps, seed: int = 0
) -> Array:
    """(n, 15, 15) covariance that a w of one radian adds to each state."""
    system = normal_equations(solution)
    if not factor(system, 0.0, system):
        raise np.linalg.LinAlgError("normal equations of a solved chain are singular")
    rows = _weighted_rows(solution, posterior)
    rng, total = np.random.default_rng(seed), np.zeros((len(stamps_ns), STATE, STATE))
    for _ in range(PATHS // AT_ONCE):
        paths = wobble_paths(stamps_ns, AT_ONCE, rng)
        moved = solved(system, *_right_hand_sides(solution, rows, paths))
        total += moved @ np.swapaxes(moved, 1, 2)
    return total / PATHS


def wobble_paths(stamps_ns: Stamps, count: int, rng: np.random.Generator) -> Array:
    """(n, 3, count) paths of w at timestamps, of variance one."""
    wobble = rng.standard_normal((6, count))
    wobble[3:] /= TIME_CONSTANT_S
    paths = [wobble[:3]]
    for dt in np.diff(stamps_ns) / NS:
        by_wobble, noise = wobble_step(float(dt))
        # Of steps that are short against the process, rounding leaves the noise semidefinite.
        values, vectors = np.linalg.eigh(noise)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        wobble = by_wobble @ wobble + root @ rng.standard_normal((6, count))
        paths.append(wobble[:3])
    return np.array(paths)


def _weighted_rows(solution: ChainSolution, posterior: ChainPosterior) -> Array:
    """(m, 6, 30 + b) whitened rows of relative poses as their loss weighs them."""
    factors = whitened_factors(solution, posterior, CAMERA)
    kind, limit = solution.factors.ties.camera_loss
    squares = np.sum(factors.r**2, axis=1)
    weights = np.array([robust(float(square), int(kind), float(limit))[1] for square in squares])
    return weights[:, None, None] * factors.G


def _right_hand_sides(solution: ChainSolution, rows: Array, paths: Array) -> tuple[Array, Array]:
    """(n, 15, count) and (b, count) gradients that paths of w make."""
    ties, T_b_c = solution.factors.ties, solution.border.T_b_c
    k, white = ties.camera_index, ties.camera_white[:, :6, :6]
    by_wobble = se3_adj(se3_inv(np.ascontiguousarray(T_b_c)))[:, 3:6]
    after = np.array([se3_adj(np.ascontiguousarray(T)) @ by_wobble for T in ties.camera])
    moved = white @ (after @ paths[k + 1] - by_wobble @ paths[k])
    gradients = np.swapaxes(rows, 1, 2) @ moved
    rhs = np.zeros((len(paths), STATE, paths.shape[2]))
    np.add.at(rhs, k, gradients[:, :STATE])
    np.add.at(rhs, k + 1, gradients[:, STATE : 2 * STATE])
    return rhs, gradients[:, 2 * STATE :].sum(axis=0)


def solved(system: System, rhs: Array, rhs_border: Array) -> Array:
    """(n, 15, m) states that solve a factored system for m right-hand sides."""
    A, B, C, D, _, _ = system
    inverse, x = np.linalg.inv(A), np.empty_like(rhs)
    last = len(x) - 1
    for k in range(last + 1):
        x[k] = inverse[k] @ (rhs[k] - (B[k - 1].T @ x[k - 1] if k else 0.0))
    border = rhs_border - np.einsum("kib,kim->bm", C, x)
    if len(D):
        border = np.linalg.solve(D.T, np.linalg.solve(D, border))
    for k in range(last, -1, -1):
        rest = x[k] - C[k] @ border
        x[k] = inverse[k].T @ (rest - B[k] @ x[k + 1] if k < last else rest)
    return x
