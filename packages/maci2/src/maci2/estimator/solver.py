"""Maximum a posteriori of the problem: Levenberg-Marquardt on its normal equations, integrated anew
where biases or clocks moved far, and the covariance at the optimum.

The paper transports each covariance to its residual, Sigma_r = J_l^-1(r) Sigma J_l^-T(r). Since
J_l(r) r = r (and J_r(r) r = r), that leaves the cost r' Sigma_r^-1 r unchanged, so residuals are
whitened by the measurements' own covariances and the cost is a sum of squares throughout.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from maci2.errors import MeasurementError
from maci2.estimator.factors import (
    CAMERA_TAIL,
    CARRIED,
    IMU_TAIL,
    camera_factor,
    carry,
    imu_factor,
    orientation_factor,
    position_factor,
    prior_coordinates,
    vertical_factor,
)
from maci2.estimator.measurements import (
    Markers,
    Measurements,
    StackedPriors,
    Timed,
    assemble,
    assemble_markers,
)
from maci2.estimator.normal_equations import (
    NO_LOSS,
    System,
    add_factor,
    back_substitute,
    empty_system,
    factorize,
    inverse_blocks,
    places,
)
from maci2.estimator.problem import (
    MOTION,
    POSITION,
    ROTATION,
    SHARED,
    STATE,
    Indices,
    Problem,
    Shared,
    States,
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

IMU, CAMERA, POSITIONS, ORIENTATIONS, PRIORS = range(5)
"""Kinds of measurement, whose costs are kept apart."""

OWN_IMU = 6 + np.array([21, 22, 23])
OWN_CAMERA = 6 + np.arange(3, 11)
OWN_POSITION = 6 + np.arange(11, 19)
OWN_ORIENTATION = 6 + np.array([*range(11, 17), 19, 20])
"""Shared parameters that each kind of factor depends on besides biases and gravity, as places in
`Free.columns`."""


@kernel
def camera_rows(
    measurements: Measurements, i: int, states: States, shared: Shared, s: int, J: Array
) -> None:
    """Rows of motion i: q relative poses of neighbouring states."""
    motions, instant = measurements.motions, measurements.instant
    k, count = motions.state[i], motions.span[i]
    with_clock = len(instant.dt) > 0
    Ts = np.empty((2 if with_clock else 0, 4, 4))
    carried = np.empty((2 if with_clock else 0, 6, CARRIED))
    for j in range(count):
        for end in range(len(carried)):
            at = k + j + end
            carry(instant, at, states, at, shared, shared.scalars[2], Ts[end], carried[end])
        poses = Ts if with_clock else states.Ts_w_b[k + j : k + j + 2]
        T_ck_ck1 = motions.Ts_ck_ck1[motions.at[i] + j]
        camera_factor(T_ck_ck1, poses, carried, shared, s, j, (count + 1) * s, J)


@kernel
def remaining(timed: Timed, i: int, shared: Shared) -> float:
    """Movement of the clock's offset since samples were integrated [s]."""
    clock = 3 if timed.value.shape[2] == 1 else 4
    return shared.scalars[clock] + shared.scalars[clock + 2] * timed.elapsed[i] - timed.anchor[i]


@kernel
def marker_rows(
    timed: Timed, i: int, states: States, shared: Shared, s: int, T: Array, carried: Array, J: Array
) -> None:
    """Rows of position or orientation i, by the shape of what was measured."""
    k = timed.at_state[i]
    carry(timed.spans, i, states, k, shared, remaining(timed, i, shared), T, carried)
    if timed.value.shape[2] == 1:
        position_factor(T, carried, shared, timed.value[i], timed.elapsed[i], s, J)
    else:
        orientation_factor(T, carried, shared, timed.value[i], timed.elapsed[i], s, J)


@kernel
def linearize(
    measurements: Measurements,
    markers: Markers | None,
    states: States,
    shared: Shared,
    columns: Indices,
    first_pose_fixed: bool,
    system: System,
    costs: Array,
) -> None:
    """Fill `system` with the normal equations, `costs` (5,) with the cost of each kind."""
    s = system.rows.shape[1]
    motions, vertical = measurements.motions, measurements.vertical
    rows = max(s, motions.white.shape[1])
    width = (system.band + 1) * s + max(CAMERA_TAIL, IMU_TAIL)
    J, X, H = np.zeros((rows, width)), np.empty((rows, width)), np.empty((width, width))
    system.rows.fill(0.0)
    system.border.fill(0.0)
    costs.fill(0.0)
    place = places(columns, OWN_IMU, True)
    for k in range(len(measurements.white)):
        imu_factor(measurements.spans, k, states, shared, s, J)
        W = measurements.white[k]
        costs[IMU] += add_factor(J, W, s, k, 2, NO_LOSS, 0.0, place, X, H, system)
    place = places(columns, OWN_CAMERA, len(measurements.instant.dt) > 0)
    for i in range(len(motions.state)):
        camera_rows(measurements, i, states, shared, s, J)
        k, count, loss = motions.state[i], motions.span[i], motions.loss[i]
        W, kind = motions.white[i], int(loss[0])
        costs[CAMERA] += add_factor(
            J, W, 6 * count, k, count + 1, kind, loss[1], place, X, H, system
        )
    if markers is not None:
        _add_markers(markers, states, shared, columns, J, X, H, system, costs)
    if vertical.white.any():
        vertical_factor(vertical, states, shared, s, J)
        place = places(columns, OWN_IMU[:0], True)
        costs[PRIORS] += add_factor(J, np.eye(3), 3, 0, 1, NO_LOSS, 0.0, place, X, H, system)
    for i in range(len(measurements.priors.at_state)):
        costs[PRIORS] += _add_prior(measurements.priors, i, states, shared, columns, system)
    if first_pose_fixed:
        first = system.rows[0]
        for i in (0, 1, 2, 6, 7, 8):
            first[i].fill(0.0)
            first[:, i].fill(0.0)
            first[i, i] = 1.0


@kernel
def _add_markers(
    markers: Markers,
    states: States,
    shared: Shared,
    columns: Indices,
    J: Array,
    X: Array,
    H: Array,
    system: System,
    costs: Array,
) -> None:
    """Positions and orientations; an orientation at the instant of a position needs no state
    carried there again."""
    s = system.rows.shape[1]
    p, r = markers
    kind_p, kind_r = int(p.loss[0]), int(r.loss[0])
    to_p, to_r = places(columns, OWN_POSITION, True), places(columns, OWN_ORIENTATION, True)
    T, carried = np.zeros((4, 4)), np.zeros((6, CARRIED))
    at, done = 0, np.zeros(len(r.at_state), dtype=np.bool_)
    for i in range(len(p.at_state)):
        k = p.at_state[i]
        marker_rows(p, i, states, shared, s, T, carried, J)
        costs[POSITIONS] += add_factor(
            J, p.white[i], 3, k, 1, kind_p, p.loss[1], to_p, X, H, system
        )
        while at < len(r.at_state) and r.at_state[at] < k:
            at += 1
        is_same = at < len(r.at_state) and r.at_state[at] == k
        if is_same and r.spans.dt[at] == p.spans.dt[i]:
            is_same = remaining(p, i, shared) == remaining(r, at, shared)
            if is_same:
                orientation_factor(T, carried, shared, r.value[at], r.elapsed[at], s, J)
                costs[ORIENTATIONS] += add_factor(
                    J, r.white[at], 3, k, 1, kind_r, r.loss[1], to_r, X, H, system
                )
                done[at] = True
                at += 1
    for j in range(len(r.at_state)):
        if not done[j]:
            marker_rows(r, j, states, shared, s, T, carried, J)
            costs[ORIENTATIONS] += add_factor(
                J, r.white[j], 3, r.at_state[j], 1, kind_r, r.loss[1], to_r, X, H, system
            )


@kernel
def _add_prior(
    priors: StackedPriors,
    i: int,
    states: States,
    shared: Shared,
    columns: Indices,
    system: System,
) -> float:
    """Add one prior: cost delta' info delta - 2 eta' delta + constant."""
    size, s, k, b = STATE + SHARED, system.rows.shape[1], priors.at_state[i], len(system.border)
    delta, J = np.empty(size), np.empty((size, size))
    mean = Shared(priors.R_w_g[i], priors.T_b_c[i], priors.T_b_m[i], priors.scalars[i])
    prior_coordinates(states, k, shared, priors.states, i, mean, delta, J)
    cost, info = priors.constant[i], priors.info[i]
    known = np.empty(size, dtype=np.int64)
    used = 0
    for n in range(size):
        if info[n, n] > 0.0 or priors.eta[i, n] != 0.0:
            known[used] = n
            used += 1
    known = known[:used]
    rhs, by_column = np.zeros(size), np.zeros((size, size))
    for a in known:
        slope = 0.0
        for other in known:
            slope += info[a, other] * delta[other]
        cost += delta[a] * (slope - 2.0 * priors.eta[i, a])
        for c in range(size):
            if J[a, c] != 0.0:
                rhs[c] += J[a, c] * (priors.eta[i, a] - slope)
                for other in known:
                    by_column[other, c] += info[other, a] * J[a, c]
    tail = (1 + system.band) * s
    for c in range(size):
        # Coordinates of states beyond their own unknowns are shared biases.
        to_c = c if c < s else columns[c - MOTION]
        if to_c < 0:
            continue
        if c < s:
            system.rows[k, c, tail] += rhs[c]
        else:
            system.border[to_c, b] += rhs[c]
        for a in known:
            f = by_column[a, c]
            if f == 0.0:
                continue
            for e in range(size):
                if J[a, e] == 0.0:
                    continue
                to_e = e if e < s else columns[e - MOTION]
                if to_e < 0:
                    continue
                if c < s and e < s:
                    system.rows[k, c, e] += J[a, e] * f
                elif c < s:
                    system.rows[k, c, tail + 1 + to_e] += J[a, e] * f
                elif e >= s:
                    system.border[to_c, to_e] += J[a, e] * f
    return cost


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
    states: States,
    shared: Shared,
    columns: Indices,
    first_pose_fixed: bool,
    max_iterations: int,
    least_decrement: float,
    work: System,
    costs: Array,
) -> tuple[States, Shared, int, bool, bool]:
    """Levenberg-Marquardt on given arrays: states, shared parameters, iterations, whether it
    converged, and whether `work` holds the factors of undamped normal equations next to the
    optimum."""
    n, s, _ = work.rows.shape
    system = empty_system(n, s, work.band, len(work.border))
    moved_costs = np.empty(5)
    linearize(measurements, markers, states, shared, columns, first_pose_fixed, system, costs)
    cost, damping, before, iterations, converged = costs.sum(), LEAST_DAMPING, 0.0, 0, False
    while not converged and iterations < max_iterations and damping < MOST_DAMPING:
        iterations += 1
        if factorize(system, damping, work):
            dx, dx_shared = back_substitute(work)
            moved, moved_shared = retract(states, shared, columns, dx, dx_shared)
            decrement = _decrement(system, dx, dx_shared)
            # Steps without damping contract at a rate that two of them show.
            is_small = decrement < min(before, SMALL * least_decrement)
            rest = decrement * decrement / before if is_small else decrement
            # Below this, rounding of the cost decides.
            rounding = 1e-13 * abs(cost)
            if rest < max(least_decrement * max(1.0, 1e-6 * cost), rounding):
                states, shared, converged = moved, moved_shared, True
                if cost > decrement:
                    costs *= 1.0 - decrement / cost
                continue
            linearize(
                measurements, markers, moved, moved_shared, columns, first_pose_fixed, system,
                moved_costs,
            )  # fmt: skip
            if moved_costs.sum() <= cost + rounding:
                before = decrement if damping == LEAST_DAMPING else 0.0
                states, shared = moved, moved_shared
                costs[:] = moved_costs
                cost = costs.sum()
                damping = max(0.3 * damping, LEAST_DAMPING)
                continue
            # Refused steps are rare: back to where it was costs less than room for both.
            linearize(
                measurements, markers, states, shared, columns, first_pose_fixed, system,
                moved_costs,
            )  # fmt: skip
        damping = max(10.0 * damping, REFUSED_DAMPING)
        before = 0.0
    return states, shared, iterations, converged, converged and damping == LEAST_DAMPING


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
    states: States
    shared: Shared
    measurements: Measurements
    """The measurements as last integrated; what a covariance or a marginalization needs."""

    markers: Markers | None
    columns: Indices
    """(30,) place of [biases, shared parameters] among those that are free and shared, or -1."""

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
        states,
        shared,
        assemble(problem, states, shared, before),
        assemble_markers(problem, states, shared),
        problem.free.columns(problem.state_size == MOTION),
        np.zeros(5),
        iterations=0,
        converged=True,
        solves=0,
        factors=None,
    )


def optimized(start: Solution, options: SolverOptions = DEFAULT_OPTIONS) -> Solution:
    """One run of the optimizer, with the samples as they are integrated."""
    problem, costs = start.problem, np.empty(5)
    work = empty_system(
        len(start.states.v_w), problem.state_size, bandwidth(start.measurements), start.border
    )
    states, shared, steps, converged, is_fresh = minimize(
        start.measurements,
        start.markers,
        start.states,
        start.shared,
        start.columns,
        problem.first_pose_fixed,
        options.max_iterations,
        options.decrement,
        work,
        costs,
    )
    return replace(
        start,
        states=states,
        shared=shared,
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
    spans, states, scalars = solution.measurements.spans, solution.states, solution.shared.scalars
    moved = states.bias_gyro[:-1] - spans.bias[:, :3]
    turned = (moved * moved).sum(axis=1) * spans.dt**2
    if 0.5 * turned.max() > options.reintegrate_above:
        return True
    for timed, clock in zip(solution.markers or (), (3, 4), strict=False):
        offset = scalars[clock] + scalars[clock + 2] * timed.elapsed
        if len(offset) and np.abs(offset - timed.anchor).max() > REANCHOR_ABOVE_S:
            return True
    return False


def normal_equations(solution: Solution, costs: Array | None = None) -> System:
    """Normal equations at the optimum; `costs` (5,) are filled where they are given."""
    system = empty_system(
        len(solution.states.v_w),
        solution.problem.state_size,
        bandwidth(solution.measurements),
        solution.border,
    )
    linearize(
        solution.measurements,
        solution.markers,
        solution.states,
        solution.shared,
        solution.columns,
        solution.problem.first_pose_fixed,
        system,
        np.zeros(5) if costs is None else costs,
    )
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


@dataclass(frozen=True)
class Covariance:
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
def at_camera(measurements: Measurements, states: States, shared: Shared) -> States:
    """The states at the camera's instants, where its clock has an offset left."""
    n, spans = len(states.v_w), measurements.instant
    clock_s, carried = shared.scalars[2], np.empty((6, CARRIED))
    Ts_w_b, v_w = np.empty((n, 4, 4)), np.empty((n, 3))
    for k in range(n):
        carry(spans, k, states, k, shared, clock_s, Ts_w_b[k], carried)
        for i in range(3):
            # The derivative of the position by the instant is the velocity there.
            v_w[k, i] = carried[3 + i, 18]
    return States(Ts_w_b, v_w, states.bias_gyro, states.bias_acc)


@kernel
def camera_squares(measurements: Measurements, states: States, shared: Shared, s: int) -> Array:
    """(m,) squared Mahalanobis norms of motions, as a robust loss does not see them."""
    motions = measurements.motions
    d = motions.white.shape[1]
    squares, J = np.zeros(len(motions.state)), np.empty((d, (d // 6 + 1) * s + CAMERA_TAIL))
    for i in range(len(squares)):
        camera_rows(measurements, i, states, shared, s, J)
        r = (motions.span[i] + 1) * s
        for row in range(6 * motions.span[i]):
            white = 0.0
            for n in range(row + 1):
                white += motions.white[i, row, n] * J[n, r]
            squares[i] += white * white
    return squares


def last_state_covariance(solution: Solution) -> Array:
    """(s, s) of the newest state, from the normal equations of the solver's last step."""
    if solution.factors is None:
        return np.asarray(covariance(solution).states[-1])
    rows, border, band = solution.factors
    s, b = rows.shape[1], len(border)
    alone = np.linalg.inv(np.triu(rows[-1, :, :s]))
    cov = alone @ alone.T
    if b:
        tail = (1 + band) * s + 1
        by_shared = np.linalg.solve(
            np.triu(border[:, :b]).T, (alone @ rows[-1, :, tail : tail + b]).T
        )
        cov += by_shared.T @ by_shared
    return np.asarray(cov)
