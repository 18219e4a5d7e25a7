"""Maximum a posteriori of a chain: Levenberg-Marquardt, integrated anew where biases moved far."""

from dataclasses import dataclass

import numpy as np

from maci2.chain.chain_arrays import GROUPS, NO_ROWS, Factors
from maci2.chain.chain_assembly import assemble
from maci2.chain.chain_elimination import back_substitute, factor
from maci2.chain.chain_equations import empty_system, linearize
from maci2.chain.chain_measurements import ChainProblem
from maci2.chain.chain_state import Border, Columns, States, retract
from maci2.estimation.normal_equations import System
from maci2.types import Array

LEAST_DAMPING = 1e-12
REFUSED_DAMPING = 1e-8
MOST_DAMPING = 1e12
"""Relative to the diagonal: where steps begin, the least after a refused step, and where the
search ends."""

DECREMENT = 1e-8
"""Stop when a step promises to lower the cost by less: it then moves nothing by more than 1e-4
standard deviations."""

REANCHOR_ABOVE_S = 1e-4
"""Movement of a clock [s] after which samples are integrated to the new instants."""


@dataclass(frozen=True)
class ChainConfig:
    """Choices of the chain's solver."""

    max_iterations: int = 50
    """Levenberg-Marquardt steps between two integrations."""

    max_rounds: int = 6
    """Integrations of the samples, each at the biases and clocks of the solution before."""

    decrement: float = DECREMENT
    """Promised decrease of the cost below which a round ends."""

    reintegrate_above: float = 1e-9
    """Second-order error of the bias correction [rad] above which samples are integrated anew."""


@dataclass(frozen=True)
class ChainSolution:
    """Where the optimization ended."""

    states: States
    border: Border
    factors: Factors
    """The measurements as last integrated; what a posterior or a marginalization needs."""

    columns: Columns
    """(20,) place of each constant among those that are free, or -1."""

    costs: Array
    """(5,) chi-square of IMU, camera, positions, orientations, priors; robust losses included."""

    iterations: int
    converged: bool
    factored: System
    """Normal equations of the last step as `factor` left them: linearized one step before the
    solution, which moves by less than the decrement allows."""

    @property
    def cost(self) -> float:
        return float(self.costs.sum())

    @property
    def dof(self) -> int:
        """Residuals less unknowns."""
        return degrees_of_freedom(self.factors, len(self.states.v_w), self.columns)


def solve_chain(
    problem: ChainProblem,
    states: States,
    border: Border,
    config: ChainConfig | None = None,
    before: ChainSolution | None = None,
) -> ChainSolution:
    """Minimise the chain's cost from an initial guess.

    `before` is a solution of the problem without its last states: samples that it has integrated
    are not integrated again unless their biases move.
    """
    config = config or ChainConfig()
    columns = problem.unknowns.columns()
    work = empty_system(len(states.v_w), int(columns.max()) + 1)
    factors = assemble(problem, states, border, None if before is None else before.factors)
    iterations, converged = 0, False
    for _ in range(config.max_rounds):
        states, border, costs, steps, converged = minimise(
            factors, states, border, columns, config, work
        )
        iterations += steps
        if not converged or not _moved_far(factors, states, border, config):
            break
        factors = assemble(problem, states, border)
    return ChainSolution(states, border, factors, columns, costs, iterations, converged, work)


def minimise(
    factors: Factors,
    states: States,
    border: Border,
    columns: Columns,
    config: ChainConfig,
    work: System | None = None,
) -> tuple[States, Border, Array, int, bool]:
    """Levenberg-Marquardt on given arrays: states, border, costs, iterations, whether converged.

    `work` is left with the factored normal equations of the last step.
    """
    free = int(columns.max()) + 1
    n = len(states.v_w)
    system = empty_system(n, free)
    work = empty_system(n, free) if work is None else work
    costs, moved_costs = np.zeros(GROUPS), np.zeros(GROUPS)
    linearize(factors, states, border, columns, system, costs, NO_ROWS)
    damping = LEAST_DAMPING
    for iteration in range(1, config.max_iterations + 1):
        if factor(system, damping, work):
            dx, dx_border = back_substitute(*work)
            moved, moved_border = retract(states, border, columns, dx, dx_border)
            decrement = float(np.vdot(system.rhs, dx) + system.rhs_border @ dx_border)
            cost = float(costs.sum())
            # Below this, rounding of the cost decides.
            rounding = 1e-13 * abs(cost)
            if decrement < max(config.decrement, rounding):
                return moved, moved_border, costs, iteration, True
            linearize(factors, moved, moved_border, columns, system, moved_costs, NO_ROWS)
            if moved_costs.sum() <= cost + rounding:
                states, border = moved, moved_border
                costs, moved_costs = moved_costs, costs
                damping = max(0.3 * damping, LEAST_DAMPING)
                continue
            # Refused steps are rare: back to where it was costs less than room for both.
            linearize(factors, states, border, columns, system, costs, NO_ROWS)
        damping = max(10.0 * damping, REFUSED_DAMPING)
        if damping > MOST_DAMPING:
            break
    return states, border, costs, iteration, False


def _moved_far(factors: Factors, states: States, border: Border, config: ChainConfig) -> bool:
    """Whether samples should be integrated anew."""
    spans = factors.ties.spans
    turn = np.linalg.norm(states.bias_gyro[:-1] - spans.bias[:, :3], axis=1) * spans.dt
    if (0.5 * turn**2 > config.reintegrate_above).any():
        return True
    for timed, clock in ((factors.positions, 3), (factors.orientations, 4)):
        offset = border.scalars[clock] + border.scalars[clock + 2] * timed.elapsed
        if len(offset) and np.abs(offset - timed.anchor).max() > REANCHOR_ABOVE_S:
            return True
    return False


def degrees_of_freedom(factors: Factors, n: int, columns: Columns) -> int:
    """Residuals and known directions of priors, less unknowns."""
    ties = factors.ties
    tied = np.where(ties.white[:, 0, 0] > 0.0, 15, 6).sum() if len(ties.white) else 0
    rows = int(tied) + 6 * len(ties.camera_index)
    rows += 3 * len(factors.positions.at_state) + 3 * len(factors.orientations.at_state)
    used = np.concatenate([np.ones(15, dtype=bool), columns >= 0])
    for info in factors.priors.info:
        free = info[np.ix_(used, used)]
        scale = np.sqrt(np.maximum(np.diag(free), 0.0))
        known = scale > 0.0
        unit = free[np.ix_(known, known)] / np.outer(scale[known], scale[known])
        rows += int(np.linalg.matrix_rank(unit, tol=1e-9, hermitian=True)) if known.any() else 0
    return rows - 15 * n - (int(columns.max()) + 1)
