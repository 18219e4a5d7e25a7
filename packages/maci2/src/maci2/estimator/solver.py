"""Maximum a posteriori of the problem: Levenberg-Marquardt on its normal equations, integrated anew
where biases or clocks moved far, and the covariance at the optimum.

The paper transports each covariance to its residual, Sigma_r = J_l^-1(r) Sigma J_l^-T(r). Since
J_l(r) r = r (and J_r(r) r = r), that leaves the cost r' Sigma_r^-1 r unchanged, so residuals are
whitened by the measurements' own covariances and the cost is a sum of squares throughout.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from maci2.errors import MeasurementError
from maci2.estimator.factors import (
    CAMERA,
    CAMERA_TAIL,
    CARRIED,
    IMU,
    ORIENTATIONS,
    POSITIONS,
    PRIOR_TAIL,
    PRIORS,
    camera_factor,
    carry,
    factor,
    imu_factor,
    marker_factor,
    moved_clock,
    places,
    prior_factor,
    vertical_factor,
)
from maci2.estimator.measurements import (
    Markers,
    Measurements,
    StackedPriors,
    assemble,
    assemble_markers,
)
from maci2.estimator.normal_equations import (
    NO_LOSS,
    System,
    Work,
    add_factor,
    add_quadratic,
    back_substitute,
    empty_system,
    factorize,
    inverse_blocks,
    padded,
    whiten,
)
from maci2.estimator.problem import (
    CAMERA_CLOCK,
    MOTION,
    ORIENTATION_CLOCK,
    POSITION,
    POSITION_CLOCK,
    ROTATION,
    SHARED,
    STATE,
    Indices,
    Problem,
    Shared,
    States,
    Unknowns,
    retract,
)
from maci2.imu import NO_VERTICAL
from maci2.jit import kernel
from maci2.types import Array

LEAST_DAMPING = 1e-12
"""Initial damping, relative to the diagonal. The IMU connects keyframes so stiffly that 1e-6
already slows down weakly determined directions (a bias, a common motion of the window) and costs an
iteration or two."""

REFUSED_DAMPING = 1e-8
"""Smallest damping after a refused step."""

MOST_DAMPING = 1e12
"""Damping beyond which no step decreases the cost."""

DECREMENT = 1e-8
"""Predicted decrease of the cost at which an estimate stops: no unknown moves by more than 1e-4
standard deviations."""

SMALL = 1e6
"""Multiple of that decrease below which convergence is predicted by contraction."""

REANCHOR_ABOVE_S = 1e-4
"""Movement of a marker's clock [s] after which samples are integrated to the new instants."""


@kernel
def _room(measurements: Measurements, s: int) -> Work:
    """Room for the largest factor."""
    d = measurements.motions.white.shape[1]
    width = padded(max((d // 6 + 1) * s + CAMERA_TAIL, s + PRIOR_TAIL))
    rows = max(STATE + SHARED, d)
    return Work(np.empty((rows, width)), np.empty((rows, width)), np.empty((width, width)))


@kernel
def linearize(
    measurements: Measurements,
    markers: Markers | None,
    unknowns: Unknowns,
    system: System,
    costs: Array,
) -> None:
    """Fill `system` with the normal equations, `costs` (5,) with the cost of each kind."""
    work, columns, s = _room(measurements, unknowns.size), unknowns.columns, unknowns.size
    spans, motions, instant = measurements.spans, measurements.motions, measurements.instant
    system.rows.fill(0.0)
    system.border.fill(0.0)
    costs.fill(0.0)
    place = places(columns, IMU)
    for k in range(len(spans.dt)):
        imu_factor(spans, k, unknowns, work.J)
        W = measurements.white[k]
        costs[IMU] += add_factor(work, W, s, k, 2, NO_LOSS, place, system)
    place = places(columns, CAMERA, len(instant.dt) > 0)
    for i in range(len(motions.state)):
        camera_factor(motions, instant, i, unknowns, work.J)
        k, q, W, loss = motions.state[i], motions.span[i], motions.white[i], motions.loss[i]
        costs[CAMERA] += add_factor(work, W, 6 * q, k, q + 1, loss, place, system)
    if markers is not None:
        _add_markers(markers, unknowns, work, system, costs)
    if measurements.vertical.white.any():
        vertical_factor(measurements.vertical, unknowns, work.J)
        place = places(columns, IMU)
        costs[PRIORS] += add_factor(work, np.eye(3), 3, 0, 1, NO_LOSS, place, system)
    for i in range(len(measurements.priors.at_state)):
        costs[PRIORS] += _add_prior(measurements.priors, i, unknowns, work, system)
    if unknowns.first_pose_fixed:
        first = system.rows[0]
        for i in (0, 1, 2, 6, 7, 8):
            first[i].fill(0.0)
            first[:, i].fill(0.0)
            first[i, i] = 1.0


@kernel
def _add_markers(
    markers: Markers, unknowns: Unknowns, work: Work, system: System, costs: Array
) -> None:
    """Positions and orientations as they come: one at the instant of the one before needs no state
    carried there again."""
    p, r = markers
    to_p, to_r = places(unknowns.columns, POSITIONS), places(unknowns.columns, ORIENTATIONS)
    T_w_b, carried, last = np.empty((4, 4)), np.empty((6, CARRIED)), (-1, 0.0, 0.0)
    i, j, m, n = 0, 0, len(p.at_state), len(r.at_state)
    while i < m or j < n:
        is_position = j == n
        if i < m and j < n:
            earlier = p.spans.dt[i] <= r.spans.dt[j]
            is_position = p.at_state[i] < r.at_state[j] or (
                p.at_state[i] == r.at_state[j] and earlier
            )
        timed, at, place = (p, i, to_p) if is_position else (r, j, to_r)
        kind = POSITIONS if is_position else ORIENTATIONS
        k, moved = timed.at_state[at], moved_clock(timed, kind, at, unknowns.shared)
        if last != (k, timed.spans.dt[at], moved):
            carry(timed.spans, at, unknowns, k, moved, T_w_b, carried)
            last = (k, timed.spans.dt[at], moved)
        marker_factor(kind, timed.value[at], timed.elapsed[at], unknowns, T_w_b, carried, work.J)
        W, loss = timed.white[at], timed.loss[at]
        costs[kind] += add_factor(work, W, 3, k, 1, loss, place, system)
        i, j = (i + 1, j) if is_position else (i, j + 1)


@kernel
def _add_prior(
    priors: StackedPriors, i: int, unknowns: Unknowns, work: Work, system: System
) -> float:
    """Add prior i; returns its cost. What nothing is known of is left out."""
    J = work.J
    prior_factor(priors, i, unknowns, J)
    known, d = np.empty(STATE + SHARED, dtype=np.int64), 0
    for row in range(STATE + SHARED):
        if priors.info[i, row, row] > 0.0 or priors.eta[i, row] != 0.0:
            known[d] = row
            for c in range(unknowns.size + PRIOR_TAIL):
                J[d, c] = J[row, c]
            d += 1
    info, eta = np.zeros((d + 2, d + 2)), np.empty(d)
    for a in range(d):
        eta[a] = priors.eta[i, known[a]]
        for b in range(d):
            info[a, b] = priors.info[i, known[a], known[b]]
    place = places(unknowns.columns, PRIORS)
    value = add_quadratic(work, info, eta, d, priors.at_state[i], place, system)
    return value + priors.constant[i]


@kernel
def _decrement(system: System, dx: Array, dx_shared: Array) -> float:
    """Predicted decrease of the cost by a step."""
    decrement, tail, b = 0.0, (1 + system.band) * dx.shape[1], len(dx_shared)
    for k in range(len(dx)):
        for i in range(dx.shape[1]):
            decrement += system.rows[k, i, tail] * dx[k, i]
    for i in range(b):
        decrement += system.border[i, b] * dx_shared[i]
    return decrement


@kernel
def minimize(
    measurements: Measurements,
    markers: Markers | None,
    unknowns: Unknowns,
    max_iterations: int,
    least_decrement: float,
    work: System,
    costs: Array,
) -> tuple[Unknowns, int, bool, bool]:
    """Levenberg-Marquardt on given arrays: unknowns, iterations, whether it converged, and whether
    `work` holds the factors of undamped normal equations next to the optimum."""
    n, s, _ = work.rows.shape
    system, moved_costs = empty_system(n, s, work.band, len(work.border)), np.empty(5)
    linearize(measurements, markers, unknowns, system, costs)
    cost, damping, before, iterations, converged = costs.sum(), LEAST_DAMPING, 0.0, 0, False
    while not converged and iterations < max_iterations and damping < MOST_DAMPING:
        iterations += 1
        if factorize(system, damping, work):
            dx, dx_shared = back_substitute(work)
            moved = retract(unknowns, dx, dx_shared)
            decrement = _decrement(system, dx, dx_shared)
            # Steps without damping contract at a rate that two of them show.
            is_small = decrement < min(before, SMALL * least_decrement)
            rest = decrement * decrement / before if is_small else decrement
            # Below this, rounding of the cost decides.
            rounding = 1e-13 * abs(cost)
            if rest < max(least_decrement * max(1.0, 1e-6 * cost), rounding):
                unknowns, converged = moved, True
                if cost > decrement:
                    costs *= 1.0 - decrement / cost
                continue
            linearize(measurements, markers, moved, system, moved_costs)
            if moved_costs.sum() <= cost + rounding:
                before = decrement if damping == LEAST_DAMPING else 0.0
                unknowns = moved
                costs[:] = moved_costs
                cost = costs.sum()
                damping = max(0.3 * damping, LEAST_DAMPING)
                continue
            # Refused steps are rare: back to where it was costs less than room for both.
            linearize(measurements, markers, unknowns, system, moved_costs)
        damping = max(10.0 * damping, REFUSED_DAMPING)
        before = 0.0
    return unknowns, iterations, converged, converged and damping == LEAST_DAMPING


@dataclass(frozen=True)
class SolverOptions:
    """Choices of the optimization."""

    max_iterations: int = 50
    """Levenberg-Marquardt steps between two integrations."""

    max_rounds: int = 6
    """Integrations of the samples, each at the biases and clocks of the solution before."""

    decrement: float = DECREMENT
    """Predicted decrease of the cost at which a round ends."""

    reintegrate_above: float = 1e-9
    """Second-order error of the bias correction [rad] above which samples are integrated anew."""


DEFAULT_OPTIONS = SolverOptions()


@dataclass(frozen=True)
class Solution:
    """Optimum of a problem."""

    problem: Problem
    unknowns: Unknowns
    measurements: Measurements
    """The measurements as last integrated; what a covariance or a marginalization needs."""

    markers: Markers | None
    costs: Array
    """(5,) chi-square of IMU, camera, positions, orientations, priors; robust losses included."""

    iterations: int
    converged: bool
    solves: int
    """Runs of the optimizer."""

    factors: System | None
    """Normal equations of the last step as `factorize` left them: linearized one step before the
    solution, which moves by less than the decrement allows. None where the last step was damped."""

    @property
    def states(self) -> States:
        return self.unknowns.states

    @property
    def shared(self) -> Shared:
        return self.unknowns.shared

    @property
    def columns(self) -> Indices:
        """(30,) place of [biases, shared parameters] among those that are free and shared, or
        -1."""
        return self.unknowns.columns

    @property
    def cost(self) -> float:
        return float(self.costs.sum())

    @property
    def border(self) -> int:
        """Number of unknowns that the states share."""
        return int(self.columns.max()) + 1

    @cached_property
    def dof(self) -> int:
        """Residuals and known directions of priors, less unknowns."""
        problem, s = self.problem, self.problem.state_size
        motions, white = self.measurements.motions, self.measurements.white
        rows = int(np.where(white[:, 0, 0] > 0.0, s, s - MOTION).sum())
        rows += 6 * int(motions.span.sum())
        if self.markers is not None:
            rows += 3 * sum(len(timed.at_state) for timed in self.markers)
        rows += 0 if self.measurements.vertical is NO_VERTICAL else 2
        used = np.concatenate([np.ones(MOTION, dtype=bool), self.columns >= 0])
        used[MOTION:STATE] |= s == STATE
        rows += sum(_rank(info[np.ix_(used, used)]) for info in self.measurements.priors.info)
        gauge = 6 if problem.first_pose_fixed else 0
        return rows - (s * len(self.states.v_w) - gauge + self.border)


def _rank(info: Array) -> int:
    diagonal = np.diag(info)
    scale = np.sqrt(np.maximum(diagonal, 0.0))
    known = scale > 0.0
    if not (info - np.diag(diagonal)).any():
        return int(known.sum())
    unit = info[np.ix_(known, known)] / np.outer(scale[known], scale[known])
    return int(np.linalg.matrix_rank(unit, tol=1e-9, hermitian=True))


def evaluated(
    problem: Problem, states: States, shared: Shared, before: Measurements | None = None
) -> Solution:
    """Given unknowns as a solution: where an optimization begins, or for covariance and residuals.

    `before` are measurements of the problem without its last states: samples that were integrated
    there are not integrated again.
    """
    return Solution(
        problem,
        problem.unknowns(states, shared),
        assemble(problem, states, shared, before),
        assemble_markers(problem, states, shared),
        np.zeros(5),
        iterations=0,
        converged=True,
        solves=0,
        factors=None,
    )


def _empty_system(solution: Solution) -> System:
    n, s = len(solution.states.v_w), solution.problem.state_size
    return empty_system(n, s, bandwidth(solution.measurements), solution.border)


def optimized(start: Solution, options: SolverOptions = DEFAULT_OPTIONS) -> Solution:
    """One run of the optimizer, with the samples as they are integrated."""
    work, costs = _empty_system(start), np.empty(5)
    unknowns, steps, converged, is_fresh = minimize(
        start.measurements,
        start.markers,
        start.unknowns,
        options.max_iterations,
        options.decrement,
        work,
        costs,
    )
    return replace(
        start,
        unknowns=unknowns,
        costs=costs,
        iterations=start.iterations + steps,
        converged=converged,
        solves=start.solves + 1,
        factors=work if is_fresh else None,
    )


def solve(
    problem: Problem,
    states: States,
    shared: Shared,
    options: SolverOptions = DEFAULT_OPTIONS,
    before: Measurements | None = None,
) -> Solution:
    """Minimize the cost from an initial guess, again where samples have to be integrated anew; for
    `before` see `evaluated`."""
    solution = optimized(evaluated(problem, states, shared, before), options)
    while solution.converged and solution.solves < options.max_rounds:
        if not _moved_far(solution, options):
            break
        states, shared = solution.states, solution.shared
        again = replace(
            solution,
            measurements=assemble(problem, states, shared),
            markers=assemble_markers(problem, states, shared),
        )
        solution = optimized(again, options)
    return solution


def bandwidth(measurements: Measurements) -> int:
    """Number of states after each that a factor connects it to."""
    return int(max(measurements.motions.span.max(initial=1), 1))


def _moved_far(solution: Solution, options: SolverOptions) -> bool:
    """Whether samples should be integrated anew."""
    spans, scalars = solution.measurements.spans, solution.shared.scalars
    moved = solution.states.bias_gyro[:-1] - spans.bias[:, :3]
    turned = (moved * moved).sum(axis=1) * spans.dt**2
    if 0.5 * turned.max() > options.reintegrate_above:
        return True
    for timed, clock in zip(
        solution.markers or (), (POSITION_CLOCK, ORIENTATION_CLOCK), strict=False
    ):
        offset, drift = scalars[clock]
        clock_moved = np.abs(offset + drift * timed.elapsed - timed.anchor)
        if clock_moved.max(initial=0.0) > REANCHOR_ABOVE_S:
            return True
    return False


def normal_equations(solution: Solution, costs: Array | None = None) -> System:
    """Normal equations at the optimum; `costs` (5,) are filled where they are given."""
    system = _empty_system(solution)
    costs = np.zeros(5) if costs is None else costs
    linearize(solution.measurements, solution.markers, solution.unknowns, system, costs)
    return system


def factorized(solution: Solution) -> System:
    """Factors of the normal equations at the optimum."""
    system = normal_equations(solution)
    if not factorize(system, 0.0, system):
        raise MeasurementError(
            "the normal equations are singular: some unknown is not determined by the "
            "measurements. Give it a prior, or take it as known."
        )
    return system


class Covariance(NamedTuple):
    """Marginal covariances at the optimum, in the tangent order of the problem."""

    states: Array
    """(n, s, s) of each state."""

    neighbours: Array
    """(n - 1, s, s) of state k (rows) with state k + 1 (columns)."""

    with_shared: Array
    """(n, s, b) of each state with the free shared unknowns."""

    free: Array
    """(b, b) of the free shared unknowns."""

    columns: Indices
    """(30,) place of [biases, shared parameters] among the free ones, or -1."""

    @property
    def shared(self) -> Array:
        """(24, 24) of all shared parameters; zero rows for those that were not free."""
        return self._of(self.columns[6:])

    @property
    def biases(self) -> Array:
        """(6, 6) of shared biases; zero rows for those that were not free."""
        if self.columns[0] == 0 and self.columns[5] == 5:
            return self.free[:6, :6]
        return self._of(self.columns[:6])

    def of(self, place: slice) -> Array:
        """(d, d) of a block of shared parameters; zero rows for those that were not free."""
        return self._of(self.columns[6:][place])

    def _of(self, columns: Indices) -> Array:
        cov, used = np.zeros((len(columns), len(columns))), columns >= 0
        if not used.any():
            return cov
        cov[np.ix_(used, used)] = self.free[np.ix_(columns[used], columns[used])]
        return cov

    def joints(self, k: Indices, neighbours: bool) -> Array:
        """(m, 2 s + b, 2 s + b) of states k, states k + 1 and the free shared unknowns, or without
        neighbours (m, s + b, s + b)."""
        s = self.states.shape[1]
        states = 2 * s if neighbours else s
        cov = np.empty((len(k), states + len(self.free), states + len(self.free)))
        cov[:, states:, states:] = self.free
        for at, index in ((0, k), (s, k + 1))[: states // s]:
            own = slice(at, at + s)
            cov[:, own, own], cov[:, own, states:] = self.states[index], self.with_shared[index]
            cov[:, states:, own] = np.swapaxes(self.with_shared[index], 1, 2)
        if neighbours:
            cov[:, :s, s:states] = self.neighbours[k]
            cov[:, s:states, :s] = np.swapaxes(self.neighbours[k], 1, 2)
        return cov


def covariance(solution: Solution, exactly: bool = True) -> Covariance:
    """Covariance of states and shared parameters at the optimum.

    Without `exactly` from the normal equations of the solver's last step where that was undamped,
    which the solution is next to: a few microseconds less.
    """
    factors = None if exactly else solution.factors
    if factors is None:
        factors = factorized(solution)
    states, neighbours, with_shared, free = inverse_blocks(factors)
    if solution.problem.first_pose_fixed:
        for part in (ROTATION, POSITION):
            states[0, part], states[0, :, part] = 0.0, 0.0
            neighbours[0, part], with_shared[0, part] = 0.0, 0.0
    return Covariance(states, neighbours, with_shared, free, solution.columns)


@kernel
def at_camera(measurements: Measurements, unknowns: Unknowns) -> States:
    """The states at the camera's instants, where its clock has an offset left."""
    states, carried = unknowns.states, np.empty((6, CARRIED))
    Ts_w_b, v_w = np.empty_like(states.Ts_w_b), np.empty_like(states.v_w)
    clock_s = unknowns.shared.scalars[CAMERA_CLOCK]
    for k in range(len(v_w)):
        carry(measurements.instant, k, unknowns, k, clock_s, Ts_w_b[k], carried)
        for i in range(3):
            # The derivative of the position by the instant is the velocity there.
            v_w[k, i] = carried[3 + i, 18]
    return States(Ts_w_b, v_w, states.bias_gyro, states.bias_acc)


@kernel
def whitened_rows(
    measurements: Measurements, markers: Markers | None, kind: int, unknowns: Unknowns, out: Array
) -> None:
    """(m, d, columns) whitened rows of all factors of a kind, as a robust loss does not see them;
    columns are those of the states, the residual, and all free shared unknowns."""
    work, place = _room(measurements, unknowns.size), places(unknowns.columns, kind)
    for i in range(len(out)):
        count, d, W = factor(measurements, markers, kind, i, unknowns, work.J)
        r = count * unknowns.size
        whiten(work, W, d, r, place)
        for row in range(d):
            for c in range(r + 1):
                out[i, row, c] = work.X[row, c]
            for q in range(place.shape[1]):
                out[i, row, r + 1 + place[1, q]] = work.X[row, r + 1 + q]


@kernel
def camera_squares(measurements: Measurements, unknowns: Unknowns) -> Array:
    """(m,) squared Mahalanobis norms of motions, as a robust loss does not see them."""
    motions, work = measurements.motions, _room(measurements, unknowns.size)
    squares, place = np.empty(len(motions.state)), np.empty((2, 0), dtype=np.int64)
    for i in range(len(squares)):
        camera_factor(motions, measurements.instant, i, unknowns, work.J)
        r = (motions.span[i] + 1) * unknowns.size
        squares[i] = whiten(work, motions.white[i], 6 * motions.span[i], r, place)
    return squares


def last_state_covariance(solution: Solution) -> Array:
    """(s, s) of the newest state, from the normal equations of the solver's last step."""
    if solution.factors is None:
        return np.asarray(covariance(solution).states[-1])
    rows, border, band = solution.factors
    s, b, tail = rows.shape[1], len(border), (1 + band) * rows.shape[1] + 1
    root = np.zeros((s + b, s + b))
    root[:s, :s], root[:s, s:] = np.triu(rows[-1, :, :s]), rows[-1, :, tail : tail + b]
    root[s:, s:] = np.triu(border[:, :b])
    of_last = np.linalg.inv(root)[:s]
    return np.asarray(of_last @ of_last.T)
