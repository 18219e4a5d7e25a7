"""Whitened residuals of a solved problem, their derivatives, and the noise that they show.

A residual is smaller than its noise, since the estimate follows the noise. Of d residuals with
covariance W'W = cov^-1, the estimate takes trace(W J P J' W'), P the posterior: the rest is their
redundancy, and sum of squares over redundancy is the factor on the variance (maximum likelihood
with this correction, iterated): variance components.
"""

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from maci2.estimator.factors import CAMERA_TAIL, CARRIED, imu_factor
from maci2.estimator.measurements import Markers, Measurements
from maci2.estimator.normal_equations import System, places, robust
from maci2.estimator.problem import (
    Indices,
    MarkerOrientations,
    MarkerPositions,
    Problem,
    Shared,
    States,
)
from maci2.estimator.solver import (
    CAMERA,
    IMU,
    OWN_CAMERA,
    OWN_IMU,
    OWN_ORIENTATION,
    OWN_POSITION,
    POSITIONS,
    Covariance,
    Solution,
    SolverOptions,
    camera_rows,
    covariance,
    factorized,
    marker_rows,
    solve,
)
from maci2.geometry.gaussian import chi2_quantile
from maci2.jit import kernel
from maci2.types import Array

AT_ONCE = 500
"""Factors whose covariances are in memory at once; 20 kB each."""

FIXED = [0, 1, 2, 6, 7, 8]
"""Pose of the first state, which is no unknown where it is fixed."""

OUTLIER_LEVEL = 0.999
"""Residuals beyond this quantile of chi-square are not used to measure the noise."""

SETTLED = 0.01
"""Relative change of a variance below which noise levels are settled."""

LEAST_FACTOR = 1e-8
"""Measurements more exact than this share of the stated variance are taken as that exact."""

Measured = TypeVar("Measured", MarkerPositions, MarkerOrientations)


@dataclass(frozen=True)
class WhitenedFactors:
    """m measurements of one kind, each of states k and k + 1 and the free shared unknowns."""

    index: NDArray[np.int64]
    """(m,) k"""

    r: Array
    """(m, d) residuals in standard deviations, as a robust loss does not see them."""

    G: Array
    """(m, d, 2 s + b) their derivatives; columns of state k, state k + 1, free shared unknowns."""

    projected: Array
    """(m, d, d) share of the residuals' covariance that the estimate follows: G P G'."""

    weighted: NDArray[np.bool_]
    """(m, d) False for residuals without weight (a gap of the IMU)."""

    @property
    def redundancy(self) -> Array:
        """(m, d) share of each residual that the estimate did not follow; none without weight."""
        followed = np.diagonal(self.projected, axis1=1, axis2=2)
        return np.asarray(self.weighted - followed)


def whitened_factors(solution: Solution, posterior: Covariance, kind: int) -> WhitenedFactors:
    """All measurements of a kind at the optimum; motions of the camera span two keyframes."""
    W, index = _weights(solution, kind)
    s, b = solution.problem.state_size, solution.border
    count = 2 if kind in (IMU, CAMERA) else 1
    rows = np.zeros((*W.shape[:2], count * s + 1 + b))
    factor_rows(
        solution.measurements,
        solution.markers,
        kind,
        solution.states,
        solution.shared,
        solution.columns,
        s,
        rows,
    )
    white = W @ rows
    if solution.problem.first_pose_fixed:
        white[np.ix_(index == 0, range(white.shape[1]), FIXED)] = 0.0
    r, own = white[:, :, count * s], np.delete(white, count * s, axis=2)
    G = np.zeros((*W.shape[:2], 2 * s + b))
    G[:, :, : count * s], G[:, :, 2 * s :] = own[:, :, : count * s], own[:, :, count * s :]
    projected = np.empty_like(W)
    for first in range(0, len(index), AT_ONCE):
        part = slice(first, first + AT_ONCE)
        cov = posterior.joints(index[part], neighbours=count == 2)
        projected[part] = own[part] @ cov @ np.swapaxes(own[part], 1, 2)
    weighted = np.diagonal(W, axis1=1, axis2=2) > 0.0
    return WhitenedFactors(index, r, G, projected, weighted)


def _weights(solution: Solution, kind: int) -> tuple[Array, Indices]:
    """(m, d, d) whitening matrices of a kind of measurement, and its states k."""
    measurements, markers = solution.measurements, solution.markers
    if kind == IMU:
        return measurements.white, np.arange(len(measurements.white))
    if kind == CAMERA:
        assert (measurements.motions.span == 1).all(), "motions over more than two keyframes"
        return measurements.motions.white, measurements.motions.state
    if markers is None:
        return np.zeros((0, 3, 3)), np.zeros(0, dtype=np.int64)
    timed = markers.positions if kind == POSITIONS else markers.orientations
    return timed.white, timed.at_state


@kernel
def factor_rows(
    measurements: Measurements,
    markers: Markers | None,
    kind: int,
    states: States,
    shared: Shared,
    columns: Indices,
    s: int,
    out: Array,
) -> None:
    """(m, d, columns) derivatives and residuals of each factor: of its states, its residual, and of
    all free shared unknowns."""
    J = np.zeros((15, 2 * s + CAMERA_TAIL))
    if kind == IMU:
        own, count = OWN_IMU, 2
    elif kind == CAMERA:
        own, count = OWN_CAMERA, 2
    elif kind == POSITIONS:
        own, count = OWN_POSITION, 1
    else:
        own, count = OWN_ORIENTATION, 1
    place, r = places(columns, own, True), count * s
    for i in range(len(out)):
        if kind == IMU:
            imu_factor(measurements.spans, i, states, shared, s, J)
        elif kind == CAMERA:
            camera_rows(measurements, i, states, shared, s, J)
        elif markers is not None:
            T, carried = np.empty((4, 4)), np.empty((6, CARRIED))
            timed = markers.positions if kind == POSITIONS else markers.orientations
            marker_rows(timed, i, states, shared, s, T, carried, J)
        for row in range(out.shape[1]):
            for c in range(r + 1):
                out[i, row, c] = J[row, c]
            for q in range(place.shape[1]):
                out[i, row, r + 1 + place[1, q]] = J[row, r + place[0, q]]


@dataclass(frozen=True)
class Residuals:
    """Whitened residuals of one kind of measurement."""

    white: Array
    """(m, d) in standard deviations of the stated noise, as a robust loss does not see them."""

    redundancy: Array
    """(m, d) share of each that the estimate did not follow."""

    @property
    def squares(self) -> Array:
        return np.asarray(np.sum(self.white**2, axis=1))

    @property
    def outliers(self) -> NDArray[np.bool_]:
        """(m,) beyond what noise explains."""
        return np.asarray(self.squares > chi2_quantile(self.white.shape[1], OUTLIER_LEVEL))

    @property
    def variance_factor(self) -> float:
        """Variance that the residuals show, over the stated one; NaN without redundancy."""
        return self.variance_factor_of(slice(None))

    def variance_factor_of(self, columns: slice | list[int]) -> float:
        """Variance factor of some of the d."""
        inside = ~self.outliers
        redundancy = float(self.redundancy[inside][:, columns].sum())
        squares = float(np.sum(self.white[inside][:, columns] ** 2))
        return squares / redundancy if redundancy > 1.0 else np.nan


@dataclass(frozen=True)
class ResidualsByKind:
    """Residuals of every kind, at the optimum."""

    imu: Residuals
    camera: Residuals
    positions: Residuals
    orientations: Residuals


def residuals_of(solution: Solution, posterior: Covariance) -> ResidualsByKind:
    """Whitened residuals and their redundancies."""
    kinds = (whitened_factors(solution, posterior, kind) for kind in range(4))
    return ResidualsByKind(*(Residuals(each.r, each.redundancy) for each in kinds))


ROUGHLY = SolverOptions(decrement=1e-2)
"""Enough for noise levels: a step that lowers the cost by less moves nothing by more than 0.1
standard deviations. Robust losses take twenty steps more from there to the last digit."""


@dataclass(frozen=True)
class NoiseSolution:
    """A problem solved together with the noise of its marker measurements."""

    solution: Solution
    posterior: Covariance
    residuals: ResidualsByKind
    problem: Problem
    """The problem with the estimated noise."""

    position_factor: float
    """Variance of positions over the one stated; 1 where there are none."""

    orientation_factor: float
    """Variance of orientations over the one stated."""


def solve_with_noise(
    problem: Problem,
    states: States,
    shared: Shared,
    options: SolverOptions = ROUGHLY,
    max_rounds: int = 12,
    least_factor: float = LEAST_FACTOR,
) -> NoiseSolution:
    """Alternate between the problem and the noise levels of marker positions and orientations.

    `least_factor`: smallest variance to end at, over the one stated.
    """
    position_factor = orientation_factor = 1.0
    for _ in range(max_rounds):
        solution = solve(problem, states, shared, options)
        posterior = covariance(solution)
        residuals = residuals_of(solution, posterior)
        states, shared = solution.states, solution.shared
        by_position = _factor(residuals.positions, least_factor / position_factor)
        by_orientation = _factor(residuals.orientations, least_factor / orientation_factor)
        if max(abs(np.log(by_position)), abs(np.log(by_orientation))) < SETTLED:
            break
        position_factor *= by_position
        orientation_factor *= by_orientation
        problem = replace(
            problem,
            positions=_scaled(problem.positions, by_position),
            orientations=_scaled(problem.orientations, by_orientation),
        )
    return NoiseSolution(
        solution, posterior, residuals, problem, position_factor, orientation_factor
    )


def _factor(residuals: Residuals, least: float) -> float:
    """Factor to apply next; 1 where the residuals do not determine it."""
    factor = residuals.variance_factor
    if len(residuals.white) and residuals.outliers.mean() > 0.5:
        # Far too small a noise makes everything an outlier: grow first.
        factor = float(np.median(residuals.squares)) / residuals.white.shape[1]
    return max(factor, least) if np.isfinite(factor) else 1.0


def _scaled(measured: Measured | None, factor: float) -> Measured | None:
    return None if measured is None else replace(measured, covs=factor * measured.covs)


class Response:
    """Response of a smoothed estimate to errors of its relative poses.

    About the solution the estimate is linear in its measurements: errors d of the whitened relative
    poses move states and shared unknowns by H^-1 J' d, where H are the normal equations and J the
    whitened rows as the loss weighs them. Many such errors are solved for at once, at a cost linear
    in the number of states.
    """

    def __init__(self, solution: Solution, posterior: Covariance) -> None:
        self._system = factorized(solution)
        factors = whitened_factors(solution, posterior, CAMERA)
        loss = solution.measurements.motions.loss
        squares = np.sum(factors.r**2, axis=1)
        self._index = factors.index
        self.r = factors.r  # (m, 6) whitened residuals of relative poses
        self.rows = factors.G  # (m, 6, 2 s + b) their derivatives
        self.weights = np.array(
            [
                robust(float(q), int(k), float(limit))[1]
                for q, (k, limit) in zip(squares, loss, strict=True)
            ]
        )

    def gradients(self, errors: Array) -> tuple[Array, Array]:
        """(n, s, count) and (b, count) of the cost by states and shared unknowns, that whitened
        errors (m, 6, count) of relative poses make."""
        by_unknowns = np.swapaxes(self.weights[:, None, None] * self.rows, 1, 2) @ errors
        n, s, _ = self._system.rows.shape
        rhs = np.zeros((n, s, errors.shape[2]))
        np.add.at(rhs, self._index, by_unknowns[:, :s])
        np.add.at(rhs, self._index + 1, by_unknowns[:, s : 2 * s])
        return rhs, by_unknowns[:, 2 * s :].sum(axis=0)

    def solved(self, rhs: Array, rhs_shared: Array) -> tuple[Array, Array]:
        """(n, s, count) and (b, count) movements of states and shared unknowns by gradients."""
        return solved_for(self._system, rhs, rhs_shared)


def solved_for(system: System, rhs: Array, rhs_shared: Array) -> tuple[Array, Array]:
    """States (n, s, m) and shared unknowns (b, m) that solve factorized normal equations of
    bandwidth one for m right-hand sides."""
    assert system.band == 1, "motions over more than two keyframes"
    s, b = system.rows.shape[1], len(system.border)
    A, B = np.triu(system.rows[:, :, :s]), system.rows[:, :, s : 2 * s]
    C, D = system.rows[:, :, 2 * s + 1 : 2 * s + 1 + b], np.triu(system.border[:, :b])
    inverse, x = np.linalg.inv(A), np.empty_like(rhs)
    last = len(x) - 1
    for k in range(last + 1):
        x[k] = inverse[k].T @ (rhs[k] - (B[k - 1].T @ x[k - 1] if k else 0.0))
    shared = rhs_shared - np.einsum("kib,kim->bm", C, x)
    if b:
        shared = np.linalg.solve(D, np.linalg.solve(D.T, shared))
    for k in range(last, -1, -1):
        rest = x[k] - C[k] @ shared
        x[k] = inverse[k] @ (rest - B[k] @ x[k + 1] if k < last else rest)
    return x, shared
