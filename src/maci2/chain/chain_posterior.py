"""Posterior of a chain: marginals of states and border, joints of neighbours."""

from dataclasses import dataclass

import numpy as np

from maci2.chain.chain_arrays import GROUPS, NO_ROWS, FactorRows, Indices
from maci2.chain.chain_elimination import factor, inverse_blocks
from maci2.chain.chain_equations import empty_system, linearize
from maci2.chain.chain_solver import ChainSolution
from maci2.chain.chain_state import BORDER, STATE, Columns
from maci2.errors import MeasurementError
from maci2.estimation.normal_equations import System
from maci2.types import Array


@dataclass(frozen=True)
class ChainPosterior:
    """Covariances in the tangent order of `chain_state`."""

    states: Array
    """(n, 15, 15) of each state."""

    neighbours: Array
    """(n - 1, 15, 15) of state k (rows) with state k + 1 (columns)."""

    with_border: Array
    """(n, 15, b) of each state with the free constants."""

    free: Array
    """(b, b) of the free constants."""

    columns: Columns
    """(20,) place of each constant among the free ones, or -1."""

    @property
    def border(self) -> Array:
        """(20, 20) of all constants; zero rows for those that were not free."""
        cov = np.zeros((BORDER, BORDER))
        used = self.columns >= 0
        at = self.columns[used]
        cov[np.ix_(used, used)] = self.free[np.ix_(at, at)]
        return cov

    def joints(self, k: Indices, neighbours: bool) -> Array:
        """(m, 30 + b, 30 + b) of states k, states k + 1 and the free constants, or without
        neighbours (m, 15 + b, 15 + b)."""
        s, states = STATE, 2 * STATE if neighbours else STATE
        cov = np.empty((len(k), states + len(self.free), states + len(self.free)))
        cov[:, states:, states:] = self.free
        for at, index in ((0, k), (s, k + 1))[: states // s]:
            own = slice(at, at + s)
            cov[:, own, own], cov[:, own, states:] = self.states[index], self.with_border[index]
            cov[:, states:, own] = np.swapaxes(self.with_border[index], 1, 2)
        if neighbours:
            cov[:, :s, s:states] = self.neighbours[k]
            cov[:, s:states, :s] = np.swapaxes(self.neighbours[k], 1, 2)
        return cov


def normal_equations(solution: ChainSolution, kept: FactorRows = NO_ROWS) -> System:
    """Normal equations of the whole chain at the optimum; `kept` is filled with the rows of its
    factors."""
    system = empty_system(len(solution.states.v_w), int(solution.columns.max()) + 1)
    linearize(
        solution.factors,
        solution.states,
        solution.border,
        solution.columns,
        system,
        np.zeros(GROUPS),
        kept,
    )
    return system


def chain_posterior(solution: ChainSolution) -> ChainPosterior:
    """Covariance of states and constants at the optimum."""
    system = normal_equations(solution)
    if not factor(system, 0.0, system):
        raise MeasurementError(
            "the chain's normal equations are singular: some unknown is not determined by the "
            "measurements. Give it a prior, or take it as known."
        )
    states, neighbours, with_border, border = inverse_blocks(*system[:4])
    return ChainPosterior(states, neighbours, with_border, border, solution.columns)


def last_state_covariance(solution: ChainSolution) -> Array:
    """(15, 15) of the newest state, from the normal equations of the solver's last step."""
    A, _, C, D, _, _ = solution.factored
    if not solution.converged:
        return np.asarray(chain_posterior(solution).states[-1])
    alone = np.linalg.inv(A[-1])
    cov = alone.T @ alone
    if len(D):
        by_border = np.linalg.solve(D, (alone.T @ C[-1]).T)
        cov += by_border.T @ by_border
    return cov
