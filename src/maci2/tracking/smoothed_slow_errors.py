"""What slow errors of visual orientation add to covariances of a chain that is smoothed as a whole.

The process is that of `slow_errors`. Paths of w are drawn, and the chain's response to what each
makes of the relative poses is solved for; the spread of the responses is the answer.
"""

import numpy as np

from maci2.chain import ChainPosterior, ChainSolution
from maci2.chain.chain_state import STATE
from maci2.lie import se3_adj, se3_inv
from maci2.tracking.chain_response import ChainResponse
from maci2.tracking.slow_errors import TIME_CONSTANT_S, wobble_step
from maci2.types import NS, Array, Stamps

PATHS, AT_ONCE = 400, 100
"""Paths that are drawn, and how many are in memory together: variances are told to 7 % and need
12 kB a state."""


def smoothed_slow_covariance(
    solution: ChainSolution, posterior: ChainPosterior, stamps_ns: Stamps, seed: int = 0
) -> Array:
    """(n, 15, 15) covariance that a w of one radian adds to each state."""
    response = ChainResponse(solution, posterior)
    rng, total = np.random.default_rng(seed), np.zeros((len(stamps_ns), STATE, STATE))
    for _ in range(PATHS // AT_ONCE):
        errors = _whitened_errors(solution, wobble_paths(stamps_ns, AT_ONCE, rng))
        moved, _ = response.solved(*response.gradients(errors))
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


def _whitened_errors(solution: ChainSolution, paths: Array) -> Array:
    """(m, 6, count) what paths of w make of each relative pose, in standard deviations."""
    ties, T_b_c = solution.factors.ties, solution.border.T_b_c
    k, white = ties.camera_index, ties.camera_white[:, :6, :6]
    by_wobble = se3_adj(se3_inv(np.ascontiguousarray(T_b_c)))[:, 3:6]
    after = np.array([se3_adj(np.ascontiguousarray(T)) @ by_wobble for T in ties.camera])
    return np.asarray(white @ (after @ paths[k + 1] - by_wobble @ paths[k]))
