"""How the estimate of a chain that is smoothed as a whole moves with its relative poses.

About the solution the estimate is linear in its measurements: errors d of the whitened relative
poses move states and constants by H^-1 J' d, where H are the chain's normal equations and J the
whitened rows as the loss weighs them. Many such errors are solved for at once, at a cost linear in
the chain's length.
"""

import numpy as np

from maci2.chain import ChainPosterior, ChainSolution
from maci2.chain.chain_elimination import factor
from maci2.chain.chain_gram import robust
from maci2.chain.chain_posterior import normal_equations
from maci2.chain.chain_state import STATE
from maci2.chain.whitened_factors import CAMERA, whitened_factors
from maci2.estimation.normal_equations import System
from maci2.types import Array


class ChainResponse:
    """A solved chain, ready to be asked what errors of its relative poses do to it."""

    def __init__(self, solution: ChainSolution, posterior: ChainPosterior) -> None:
        self._system = normal_equations(solution)
        if not factor(self._system, 0.0, self._system):
            raise np.linalg.LinAlgError("normal equations of a solved chain are singular")
        factors = whitened_factors(solution, posterior, CAMERA)
        kind, limit = solution.factors.ties.camera_loss
        squares = np.sum(factors.r**2, axis=1)
        self._index = factors.index
        self.r = factors.r  # (m, 6) whitened residuals of relative poses
        self.rows = factors.G  # (m, 6, 30 + b) their derivatives
        self.weights = np.array([robust(float(s), int(kind), float(limit))[1] for s in squares])

    def gradients(self, errors: Array) -> tuple[Array, Array]:
        """(n, 15, count) and (b, count) of the cost by states and constants, that whitened errors
        (m, 6, count) of relative poses make."""
        by_unknowns = np.swapaxes(self.weights[:, None, None] * self.rows, 1, 2) @ errors
        rhs = np.zeros((len(self._system.A), STATE, errors.shape[2]))
        np.add.at(rhs, self._index, by_unknowns[:, :STATE])
        np.add.at(rhs, self._index + 1, by_unknowns[:, STATE : 2 * STATE])
        return rhs, by_unknowns[:, 2 * STATE :].sum(axis=0)

    def solved(self, rhs: Array, rhs_border: Array) -> tuple[Array, Array]:
        """(n, 15, count) and (b, count) movements of states and constants by gradients."""
        return solved(self._system, rhs, rhs_border)


def solved(system: System, rhs: Array, rhs_border: Array) -> tuple[Array, Array]:
    """States (n, 15, m) and constants (b, m) that solve a factored system for m right-hand
    sides."""
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
    return x, border
