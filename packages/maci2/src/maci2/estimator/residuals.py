"""Whitened residuals of a solved problem, their derivatives, and how the estimate answers to them.

A residual is smaller than its noise, since the estimate follows the noise. Of d residuals with
covariance W'W = cov^-1, the estimate takes trace(W J P J' W'), P the posterior: the rest is their
redundancy.
"""

from dataclasses import dataclass

import numpy as np

from maci2.estimator.factors import CAMERA, IMU, POSITIONS
from maci2.estimator.measurements import NO_MARKERS
from maci2.estimator.normal_equations import System, robust
from maci2.estimator.problem import Indices
from maci2.estimator.solver import Covariance, Solution, factorized, whitened_rows
from maci2.types import Array

AT_ONCE = 500
"""Factors whose covariances are in memory at once; 20 kB each."""

FIXED = [0, 1, 2, 6, 7, 8]
"""Pose of the first state, which is no unknown where it is fixed."""


@dataclass(frozen=True)
class WhitenedFactors:
    """m measurements of one kind, each of states k and k + 1 and the free shared unknowns."""

    white: Array
    """(m, d) residuals in standard deviations of the stated noise, as a robust loss does not see
    them."""

    redundancy: Array
    """(m, d) share of each that the estimate did not follow; none without weight (a gap of the
    IMU)."""

    index: Indices
    """(m,) k"""

    G: Array
    """(m, d, 2 s + b) derivatives of the residuals; columns of state k, state k + 1, free shared
    unknowns."""

    projected: Array
    """(m, d, d) share of the residuals' covariance that the estimate follows: G P G'."""


def whitened_factors(solution: Solution, posterior: Covariance, kind: int) -> WhitenedFactors:
    """All measurements of a kind at the optimum; motions of the camera span two keyframes."""
    W, index = _weights(solution, kind)
    s, b = solution.problem.state_size, solution.border
    count = 2 if kind in (IMU, CAMERA) else 1
    white = np.zeros((*W.shape[:2], count * s + 1 + b))
    whitened_rows(solution.measurements, solution.markers, kind, solution.unknowns, white)
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
    weighted, followed = (np.diagonal(each, axis1=1, axis2=2) for each in (W, projected))
    return WhitenedFactors(r, np.asarray((weighted > 0.0) - followed), index, G, projected)


def _weights(solution: Solution, kind: int) -> tuple[Array, Indices]:
    """(m, d, d) whitening matrices of a kind of measurement, and its states k."""
    measurements, markers = solution.measurements, solution.markers
    if kind == IMU:
        return measurements.white, np.arange(len(measurements.white))
    if kind == CAMERA:
        assert (measurements.motions.span == 1).all(), "motions over more than two keyframes"
        return measurements.motions.white, measurements.motions.state
    timed = (markers or NO_MARKERS)[kind - POSITIONS]
    return timed.white, timed.at_state


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
        self._index = factors.index
        self.r = factors.white  # (m, 6) whitened residuals of relative poses
        self.rows = factors.G  # (m, 6, 2 s + b) their derivatives
        losses = solution.measurements.motions.loss
        weighed = zip(np.sum(factors.white**2, axis=1), losses, strict=True)
        self.weights = np.array([robust(square, loss)[1] for square, loss in weighed])

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
