"""Forgetting the oldest state: its information about the next one and the shared parameters stays.

A fixed-lag smoother is: solve, marginalize, drop the first timestamp, append a new one.
"""

from dataclasses import replace

import numpy as np

from maci2.estimator.measurements import Markers, Measurements, Timed, cut, stack_priors
from maci2.estimator.normal_equations import empty_system
from maci2.estimator.problem import MOTION, SHARED, STATE, GaussianPrior, Problem
from maci2.estimator.solver import Solution, bandwidth, linearize
from maci2.gaussian import symmetrize
from maci2.types import Array


def marginalize_first(solution: Solution) -> GaussianPrior:
    """The prior on state 1 and the shared parameters that all factors touching state 0 amount to.

    Its `index` is 0: that of the next state in the problem without the first. Linearized at the
    solution. The free parameters must stay the same, and motions of the camera span two keyframes.
    """
    assert bandwidth(solution.measurements) == 1, "motions over more than two keyframes"
    s, b, columns = solution.problem.state_size, solution.border, solution.columns
    system, costs = empty_system(2, s, 1, b), np.zeros(5)
    linearize(
        _touching_first(solution.measurements),
        solution.markers and Markers(*(_timed(timed) for timed in solution.markers)),
        solution.states.part(slice(2)),
        solution.shared,
        columns,
        solution.problem.first_pose_fixed,
        system,
        costs,
    )
    first, second = system.rows
    tail = slice(2 * s + 1, 2 * s + 1 + b)
    rhs = np.concatenate([second[:, 2 * s], system.border[:, b]])
    H = np.hstack([first[:, s : 2 * s], first[:, tail]])
    kept = np.zeros((s + b, s + b))
    kept[:s, :s], kept[:s, s:] = second[:, :s], second[:, tail]
    kept[s:, :s], kept[s:, s:] = second[:, tail].T, system.border[:, :b]
    gain = np.linalg.solve(symmetrize(first[:, :s]), np.column_stack([H, first[:, 2 * s]]))
    info = symmetrize(kept - H.T @ gain[:, :-1])
    eta = rhs - H.T @ gain[:, -1]
    constant = float(costs.sum() - first[:, 2 * s] @ gain[:, -1])
    # A clock shared by positions and orientations is one unknown; it is kept as the position's.
    shared = [MOTION + list(columns).index(c) for c in range(b)]
    places = np.array([*range(s), *shared], dtype=int)
    full_info = np.zeros((STATE + SHARED, STATE + SHARED))
    full_eta = np.zeros(STATE + SHARED)
    full_info[np.ix_(places, places)] = info
    full_eta[places] = eta
    state = solution.states.part(slice(1, 2))
    return GaussianPrior(0, state, solution.shared, full_info, full_eta, constant)


def without_first(problem: Problem, solution: Solution) -> Problem:
    """The problem without its first state, whose information becomes a prior."""
    last = len(problem.stamps_ns) - 1
    kept = [replace(p, index=p.index - 1) for p in problem.priors if p.index > 0]
    return replace(
        problem,
        stamps_ns=problem.stamps_ns[1:],
        camera=tuple(stack.part(1, last) for stack in problem.camera),
        vertical=None,
        priors=(marginalize_first(solution), *kept),
    )


def with_wandering_parameters(prior: GaussianPrior, variances: Array) -> GaussianPrior:
    """The prior after its shared parameters have wandered: `variances` (24,) are added to theirs.

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


def solution_without_first(problem: Problem, solution: Solution) -> Solution:
    """The solution of what `without_first` left, which is still its optimum."""
    later, measurements = slice(1, None), solution.measurements
    motions = measurements.motions
    keep = motions.state > 0
    motions = type(motions)(
        motions.state[keep] - 1,
        motions.span[keep],
        np.cumsum(motions.span[keep]) - motions.span[keep],
        motions.Ts_ck_ck1[np.repeat(keep, motions.span)],
        motions.white[keep],
        motions.loss[keep],
    )
    measurements = measurements._replace(
        spans=cut(measurements.spans, later),
        white=measurements.white[1:],
        motions=motions,
        instant=cut(measurements.instant, later),
        priors=stack_priors(problem.priors),
    )
    return replace(
        solution, problem=problem, states=solution.states.part(later), measurements=measurements
    )


def _touching_first(measurements: Measurements) -> Measurements:
    """The measurements of state 0, alone or with state 1."""
    motions, first = measurements.motions, slice(0, 1)
    touching = motions.state == 0
    priors = measurements.priors
    of_first = priors.at_state == 0
    return measurements._replace(
        spans=cut(measurements.spans, first),
        white=measurements.white[first],
        motions=motions._replace(
            state=motions.state[touching],
            span=motions.span[touching],
            at=motions.at[touching],
            white=motions.white[touching],
            loss=motions.loss[touching],
        ),
        priors=type(priors)(
            priors.at_state[of_first],
            type(priors.states)(*(values[of_first] for values in priors.states)),
            *(values[of_first] for values in priors[2:]),
        ),
    )


def _timed(timed: Timed) -> Timed:
    if not len(timed.at_state):
        return timed
    part = slice(0, int(np.searchsorted(timed.at_state, 0, side="right")))
    return timed._replace(
        at_state=timed.at_state[part],
        spans=cut(timed.spans, part),
        anchor=timed.anchor[part],
        elapsed=timed.elapsed[part],
        value=timed.value[part],
        white=timed.white[part],
    )
