"""Likelihood of noise levels, states integrated out: its slope and curvature.

The covariance of an IMU factor is a sum of parts, one for each noise level theta_i (a squared
density). With y the measurements, C their covariance and Q = C^-1 - C^-1 J P J' C^-1 (P the
posterior of all states), the slope of the logarithm of the likelihood is

    1/2 (y' Q V_i Q y - trace(Q V_i))                           V_i = dC / dtheta_i

and its average information 1/2 y' Q V_i Q V_j Q y, which needs one more solution of the chain's
normal equations for each noise level and no finite differences (restricted maximum likelihood).
"""

from dataclasses import dataclass, replace

import numpy as np

from maci2.estimator.factors import CAMERA, IMU, ORIENTATIONS, POSITIONS
from maci2.estimator.measurements import integrate_spans, walking_covariance
from maci2.estimator.normal_equations import System, back_substitute, factorize
from maci2.estimator.problem import STATE, Problem
from maci2.estimator.residuals import WhitenedFactors, whitened_factors
from maci2.estimator.solver import Solution, covariance, normal_equations
from maci2.types import Array

WHITE, WALKS = 6, 2
IMU_LEVELS = WHITE + WALKS
"""White noise of each axis (gyroscope, accelerometer), then the two random walks."""


@dataclass(frozen=True)
class Slope:
    """Slope of one recording's likelihood by the logarithms of its noise levels: those of the IMU,
    then one factor for each kind of other measurement."""

    score: Array
    """(p,) slope of the log-likelihood."""

    information: Array
    """(p, p) average information."""


KINDS = {"camera": CAMERA, "positions": POSITIONS, "orientations": ORIENTATIONS}
"""Measurements besides the IMU's that a problem may have."""


def other_kinds(problem: Problem) -> dict[str, int]:
    """Kinds of measurement besides the IMU, by the names of their fields."""
    return {name: kind for name, kind in KINDS.items() if getattr(problem, name)}


def likelihood_slope(solution: Solution, levels: Array) -> Slope:
    """Slope and information at the optimum of the states; `levels` (8,) are squared densities and
    walks of the IMU."""
    posterior = covariance(solution)
    imu = whitened_factors(solution, posterior, IMU)
    W = solution.measurements.white
    parts = [
        level * W @ V @ np.swapaxes(W, 1, 2)
        for level, V in zip(levels, _covariance_parts(solution), strict=True)
    ]
    factors = [(imu, part) for part in parts]
    for kind in other_kinds(solution.problem).values():
        other = whitened_factors(solution, posterior, kind)
        factors.append(
            (other, np.broadcast_to(np.eye(other.white.shape[1]), other.projected.shape))
        )
    system = normal_equations(solution)
    q = [np.einsum("kij,kj->ki", part, rows.white) for rows, part in factors]
    score, information = np.empty(len(factors)), np.empty((len(factors), len(factors)))
    for j, (rows_j, part) in enumerate(factors):
        left_over = np.eye(rows_j.white.shape[1]) - rows_j.projected
        expected = float(np.einsum("kij,kji->", part, left_over))
        score[j] = 0.5 * (float(np.vdot(rows_j.white, q[j])) - expected)
        left = moved_by(rows_j, q[j], system)
        for i, (rows_i, _) in enumerate(factors):
            # q of another kind of measurement is zero in these rows.
            same = q[j] if rows_i is rows_j else 0.0
            information[i, j] = 0.5 * float(np.sum(q[i] * (same - predicted_by(rows_i, left))))
    return Slope(score, 0.5 * (information + information.T))


def _covariance_parts(solution: Solution) -> list[Array]:
    """(m, 15, 15) covariance of the IMU factors for a unit of each squared density or walk."""
    problem, spans = solution.problem, solution.measurements.spans
    imu, stamps_ns = problem.imu, problem.stamps_ns
    rate_hz = 1e9 / float(np.median(np.diff(imu.stamps_ns)))
    parts = []
    for axis in range(WHITE):
        unit = np.zeros((len(imu.stamps_ns), WHITE))
        unit[:, axis] = rate_hz
        alone = replace(imu, var_gyro=unit[:, :3], var_acc=unit[:, 3:], cov_0=np.zeros((9, 9)))
        cov = np.zeros((len(spans.dt), STATE, STATE))
        cov[:, :9, :9] = integrate_spans(alone, stamps_ns[:-1], stamps_ns[1:], spans.bias).cov
        parts.append(cov)
    none = spans._replace(cov=np.zeros_like(spans.cov))
    return [*parts, walking_covariance(none, 1.0, 0.0), walking_covariance(none, 0.0, 1.0)]


def moved_by(rows: WhitenedFactors, q: Array, system: System) -> tuple[Array, Array]:
    """Change of the estimate if the whitened measurements were q."""
    n, b = len(system.rows), len(system.border)
    pulled = np.einsum("kij,ki->kj", rows.G, q)
    rhs = np.zeros((n + 1, STATE))
    np.add.at(rhs, rows.index, pulled[:, :STATE])
    np.add.at(rhs, rows.index + 1, pulled[:, STATE : 2 * STATE])
    work = System(system.rows.copy(), system.border.copy(), system.band)
    work.rows[:, :, (1 + system.band) * STATE] = rhs[:n]
    work.border[:, b] = pulled[:, 2 * STATE :].sum(axis=0)
    factorize(work, 0.0, work)
    states, shared = back_substitute(work)
    return states, shared


def predicted_by(rows: WhitenedFactors, moved: tuple[Array, Array]) -> Array:
    """(m, d) whitened measurements that moved states predict."""
    states, shared = moved
    after = np.vstack([states, np.zeros((1, STATE))])[rows.index + 1]
    unknowns = np.hstack([states[rows.index], after, np.tile(shared, (len(rows.index), 1))])
    return np.asarray(np.einsum("kij,kj->ki", rows.G, unknowns))
