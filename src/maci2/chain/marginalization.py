"""Forgetting the oldest state of a chain: what it says about the next one and the constants stays.

A fixed-lag smoother is: solve, marginalize, drop the first timestamp, append a new one.
"""

from dataclasses import replace

import numpy as np

from maci2.chain.chain_arrays import GROUPS, NO_ROWS, Factors, Timed
from maci2.chain.chain_assembly import stack_priors
from maci2.chain.chain_equations import empty_system, linearize
from maci2.chain.chain_measurements import ChainProblem, GaussianPrior
from maci2.chain.chain_solver import ChainSolution
from maci2.chain.chain_state import BORDER, STATE, States
from maci2.chain.propagation import Spans
from maci2.gaussian import symmetrize
from maci2.types import Array


def marginalize_first(solution: ChainSolution) -> GaussianPrior:
    """The prior on state 1 and the border that all factors touching state 0 amount to.

    Its `index` is 0: that of the next state in the chain without the first. Linearized at the
    solution. The border must not change which constants are free.
    """
    states = States(*(values[:2] for values in solution.states))
    columns = solution.columns
    free = int(columns.max()) + 1
    system, costs = empty_system(2, free), np.zeros(GROUPS)
    linearize(
        _touching_first(solution.factors), states, solution.border, columns, system, costs, NO_ROWS
    )
    rest = STATE + free
    H = np.zeros((STATE, rest))
    H[:, :STATE], H[:, STATE:] = system.B[0], system.C[0]
    kept = np.zeros((rest, rest))
    kept[:STATE, :STATE], kept[:STATE, STATE:] = system.A[1], system.C[1]
    kept[STATE:, :STATE], kept[STATE:, STATE:] = system.C[1].T, system.D
    gain = np.linalg.solve(symmetrize(system.A[0]), np.column_stack([H, system.rhs[0]]))
    info = symmetrize(kept - H.T @ gain[:, :rest])
    eta = np.concatenate([system.rhs[1], system.rhs_border]) - H.T @ gain[:, rest]
    constant = float(costs.sum() - system.rhs[0] @ gain[:, rest])
    # A clock shared by positions and orientations is one unknown; it is kept as the position's.
    places = np.concatenate(
        [np.arange(STATE), STATE + np.array([list(columns).index(c) for c in range(free)], int)]
    )
    full_info = np.zeros((STATE + BORDER, STATE + BORDER))
    full_eta = np.zeros(STATE + BORDER)
    full_info[np.ix_(places, places)] = info
    full_eta[places] = eta
    next_state = States(*(values[1:2] for values in solution.states))
    return GaussianPrior(0, next_state, solution.border, full_info, full_eta, constant)


def without_first(problem: ChainProblem, solution: ChainSolution) -> ChainProblem:
    """The problem without its first state, with what that state said as a prior."""
    kept = [replace(p, index=p.index - 1) for p in problem.priors if p.index > 0]
    return replace(
        problem,
        stamps_ns=problem.stamps_ns[1:],
        camera=problem.camera and problem.camera.without_first(),
        priors=(marginalize_first(solution), *kept),
    )


def with_wandering_constants(prior: GaussianPrior, variances: Array) -> GaussianPrior:
    """The prior after its constants have wandered: `variances` (20,) are added to theirs.

    In the form of information, so that directions of which nothing is known stay unknown.
    """
    moved = STATE + np.flatnonzero(variances > 0.0)
    if not len(moved):
        return prior
    rows = prior.info[moved]
    gain = np.linalg.inv(np.diag(1.0 / variances[moved - STATE]) + rows[:, moved])
    info = symmetrize(prior.info - rows.T @ gain @ rows)
    # The Gaussian's least value is not changed by a wider one.
    eta = prior.eta - rows.T @ gain @ prior.eta[moved]
    constant = prior.constant - float(prior.eta[moved] @ gain @ prior.eta[moved])
    return replace(prior, info=info, eta=eta, constant=constant)


def solution_without_first(problem: ChainProblem, solution: ChainSolution) -> ChainSolution:
    """The solution of what `without_first` left, which is still its optimum."""
    ties = solution.factors.ties
    later, keep = slice(1, None), ties.camera_index > 0
    ties = ties._replace(
        spans=_cut(ties.spans, later),
        white=ties.white[1:],
        camera=ties.camera[keep],
        camera_index=ties.camera_index[keep] - 1,
        camera_white=ties.camera_white[keep],
        instant=_cut(ties.instant, later),
    )
    states = States(*(values[1:] for values in solution.states))
    factors = solution.factors._replace(ties=ties, priors=stack_priors(problem.priors))
    return replace(solution, states=states, factors=factors)


def _touching_first(factors: Factors) -> Factors:
    """Those of state 0, alone or with state 1."""
    ties = factors.ties
    motions = ties.camera_index == 0
    priors = factors.priors.at_state == 0
    return Factors(
        ties._replace(
            spans=_cut(ties.spans, slice(0, 1)),
            white=ties.white[:1],
            camera=ties.camera[motions],
            camera_index=ties.camera_index[motions],
            camera_white=ties.camera_white[motions],
        ),
        _timed(factors.positions),
        _timed(factors.orientations),
        type(factors.priors)(*(values[priors] for values in factors.priors)),
    )


def _cut(spans: Spans, part: slice) -> Spans:
    return Spans(*(values[part] for values in spans))


def _timed(timed: Timed) -> Timed:
    if not len(timed.at_state):
        return timed
    count = int(np.searchsorted(timed.at_state, 0, side="right"))
    part = slice(0, count)
    return timed._replace(
        at_state=timed.at_state[part],
        spans=_cut(timed.spans, part),
        anchor=timed.anchor[part],
        elapsed=timed.elapsed[part],
        value=timed.value[part],
        white=timed.white[part],
    )
