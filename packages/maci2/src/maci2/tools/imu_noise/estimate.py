"""Noise of an IMU from recordings in motion: densities and random walks, with their sigmas.

They maximize the likelihood with the states integrated out. The covariance of an IMU factor is a
sum of parts, one for each noise level theta_i (a squared density). With y the measurements, C their
covariance and Q = C^-1 - C^-1 J P J' C^-1 (P the posterior of all states), the slope of the
logarithm of the likelihood is

    1/2 (y' Q V_i Q y - trace(Q V_i))                           V_i = dC / dtheta_i

and its average information 1/2 y' Q V_i Q V_j Q y, which needs one more solution of the chain's
normal equations for each noise level and no finite differences (restricted maximum likelihood).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from maci2.estimator.measurements import integrate_spans, walking_covariance
from maci2.estimator.normal_equations import System, back_substitute, factorize
from maci2.estimator.problem import STATE, Loss, Problem, Shared, States
from maci2.estimator.residuals import WhitenedFactors, whitened_factors
from maci2.estimator.solver import (
    CAMERA,
    IMU,
    ORIENTATIONS,
    POSITIONS,
    Covariance,
    Solution,
    SolverOptions,
    covariance,
    normal_equations,
    solve,
)
from maci2.geometry.gaussian import chi2_significance, nees
from maci2.sensors import ImuNoise
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
    """(p, p) average information by logarithms, which bend too: a level on its way to zero slows
    down. Never singular in what is not the IMU."""


KINDS = {"camera": CAMERA, "positions": POSITIONS, "orientations": ORIENTATIONS}
"""Measurements besides the IMU's that a problem may have."""


def other_kinds(problem: Problem) -> dict[str, int]:
    """Kinds of measurement besides the IMU, by the names of their fields."""
    return {name: kind for name, kind in KINDS.items() if getattr(problem, name)}


def all_factors(solution: Solution, posterior: Covariance) -> list[WhitenedFactors]:
    """Whitened factors of every kind of measurement, the IMU's first."""
    kinds = IMU, *other_kinds(solution.problem).values()
    return [whitened_factors(solution, posterior, kind) for kind in kinds]


def likelihood_slope(solution: Solution, levels: Array) -> Slope:
    """Slope and information at the optimum of the states; `levels` (8,) are squared densities and
    walks of the IMU."""
    imu, *others = all_factors(solution, covariance(solution))
    W = solution.measurements.white
    parts = [
        level * W @ V @ np.swapaxes(W, 1, 2)
        for level, V in zip(levels, _covariance_parts(solution), strict=True)
    ]
    factors = [(imu, part) for part in parts]
    for other in others:
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
    information = 0.5 * (information + information.T) + np.diag(np.maximum(-score, 0.0))
    index = range(IMU_LEVELS, len(score))
    information[index, index] += 1e-6
    return Slope(score, information)


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


def white_residuals(rows: list[WhitenedFactors], solution: Solution, draws: int) -> Iterator[Array]:
    """Residuals of the IMU that white noise of all measurements leaves, drawn several times."""
    rng, system = np.random.default_rng(0), normal_equations(solution)
    for _ in range(draws):
        noise = [rng.standard_normal(one.white.shape) for one in rows]
        moves = [moved_by(one, q, system) for one, q in zip(rows, noise, strict=True)]
        states, shared = (np.sum(part, axis=0) for part in zip(*moves, strict=True))
        yield noise[0] - predicted_by(rows[0], (states, shared))


def predicted_by(rows: WhitenedFactors, moved: tuple[Array, Array]) -> Array:
    """(m, d) whitened measurements that moved states predict."""
    states, shared = moved
    after = np.vstack([states, np.zeros((1, STATE))])[rows.index + 1]
    unknowns = np.hstack([states[rows.index], after, np.tile(shared, (len(rows.index), 1))])
    return np.asarray(np.einsum("kij,kj->ki", rows.G, unknowns))


LARGEST_KNOWN = float(np.log(2.0))
"""A density known to less than a factor of two (1 sigma) was not seen."""


@dataclass(frozen=True)
class NoiseLevel:
    """One density or random walk."""

    value: float
    """Per sqrt(Hz), SI units."""

    std_log: float
    """Standard deviation of its natural logarithm."""

    @property
    def std(self) -> float:
        """Standard deviation of the value itself, to first order."""
        return self.value * self.std_log

    @property
    def seen(self) -> bool:
        """The recordings show it; otherwise it stays near the data sheet."""
        return self.std_log < LARGEST_KNOWN


@dataclass(frozen=True)
class WhiteNoise:
    """White noise of the three axes of one sensor."""

    axes: tuple[NoiseLevel, ...]
    """Density of each axis [rad/s/sqrt(Hz)] or [m/s^2/sqrt(Hz)]."""

    cov_log: Array
    """(3, 3) covariance of their natural logarithms."""

    @property
    def seen(self) -> bool:
        """The recordings show that of some axis."""
        return any(level.seen for level in self.axes)

    @property
    def differs(self) -> bool:
        """The axes differ by more than chance explains."""
        D = np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]])
        logs = np.log([level.value for level in self.axes])
        return chi2_significance(2, float(nees(D @ logs, D @ self.cov_log @ D.T))) < 0.001

    @property
    def pooled(self) -> NoiseLevel:
        """The most likely number of axes that are alike, to second order: an axis that hardly
        shows counts little. Of axes that differ the root of the mean variance."""
        values = np.array([level.value for level in self.axes])
        if self.differs:
            share = values**2 / np.sum(values**2)
            std_log = float(np.sqrt(share @ self.cov_log @ share))
            return NoiseLevel(float(np.sqrt(np.mean(values**2))), std_log)
        weights = np.linalg.solve(self.cov_log, np.ones(3))
        log = weights @ np.log(values) / weights.sum()
        return NoiseLevel(float(np.exp(log)), float(1.0 / np.sqrt(weights.sum())))

    @property
    def to_use(self) -> list[float]:
        """Density of each axis: its own where axes differ, else one for all."""
        pooled = self.pooled
        return [(level if self.differs else pooled).value for level in self.axes]


@dataclass(frozen=True)
class NoiseEstimate:
    """Noise of an IMU as recordings in motion show it."""

    gyro: WhiteNoise
    acc: WhiteNoise
    walk_gyro: NoiseLevel
    """Random walk of the bias, all axes alike [rad/s^2/sqrt(Hz)]."""

    walk_acc: NoiseLevel
    """Random walk of the bias, all axes alike [m/s^3/sqrt(Hz)]."""

    converged: bool

    def levels(self) -> Array:
        """(8,) densities to use for the axes, then walks."""
        walks = (self.walk_gyro.value, self.walk_acc.value)
        return np.array([*self.gyro.to_use, *self.acc.to_use, *walks])

    def pooled(self, rate_hz: float) -> ImuNoise:
        """One number for all axes, as most tools want it."""
        gyro, acc = self.gyro.pooled.value, self.acc.pooled.value
        return ImuNoise(gyro, acc, self.walk_gyro.value, self.walk_acc.value, rate_hz)


MOST_STEPS = 25
LONGEST_STEP = 1.5
"""Largest change of the logarithm of a squared density in one step."""

SETTLED = 0.1
"""Steps end when no logarithm moves by more than this share of its sigma."""

STD_LOG_STATED = 2.0 * np.log(10.0)
"""Standard deviation of the logarithm of a squared density about the data sheet's: a factor of ten.
Values that the motion does not determine stay at the data sheet and are reported as such."""


@dataclass(frozen=True)
class NoiseProblem:
    """One recording: its estimation problem, and the initial guess."""

    problem: Problem
    states: States
    shared: Shared
    least_factor: float = 1e-6
    """Least variance of what is not the IMU, over the stated one."""

    log_factors: Array = field(default_factory=lambda: np.zeros(0))
    """Logarithms of the factors that its variances have been scaled with so far."""


def estimate_imu_noise(recordings: Sequence[NoiseProblem], stated: ImuNoise) -> NoiseEstimate:
    """Maximum of the likelihood over all recordings, states integrated out.

    Noise of what is not the IMU (relative poses, marker positions, orientations) is estimated with
    it, for each recording by itself. `stated` is the data sheet: where to begin, and with a spread
    of a factor of ten the prior of what motion does not show.
    """
    first = 2.0 * np.log(stated_levels(stated))
    logs, chains = first, [_without_losses(recording) for recording in recordings]
    converged = False
    for _ in range(MOST_STEPS):
        solved = [_solved(chain, logs) for chain in chains]
        step, others, cov = _newton([slope for _, slope in solved], logs - first)
        logs = logs + step
        chains = [_rescaled(chain, o) for (chain, _), o in zip(solved, others, strict=True)]
        moved = [_moved(before, after) for (before, _), after in zip(solved, chains, strict=True)]
        if (np.abs(step) < SETTLED * np.sqrt(np.diag(cov))).all() and max(moved) < SETTLED:
            converged = True
            break
    levels = tuple(
        NoiseLevel(float(np.exp(0.5 * log)), 0.5 * float(np.sqrt(variance)))
        for log, variance in zip(logs, np.diag(cov), strict=True)
    )
    gyro, acc = (
        WhiteNoise(levels[axes], 0.25 * cov[axes, axes]) for axes in (slice(0, 3), slice(3, 6))
    )
    return NoiseEstimate(gyro, acc, levels[WHITE], levels[WHITE + 1], converged)


def fit_reference_noise(recording: NoiseProblem, noise: Array) -> Solution:
    """The states with the noise of what is not the IMU at its maximum of the likelihood, that of
    the IMU held at `noise` (8,): densities of the axes, then walks."""
    logs, chain = 2.0 * np.log(noise), _without_losses(recording)
    for _ in range(MOST_STEPS):
        before, slope = _solved(chain, logs)
        step = np.asarray(np.linalg.solve(slope.information[8:, 8:], slope.score[8:]))
        chain = _rescaled(before, step)
        if _moved(before, chain) < SETTLED:
            break
    return _solve(chain, logs)


def _solved(chain: NoiseProblem, logs: Array) -> tuple[NoiseProblem, Slope]:
    """The recording at the optimum of its states, and the slope of its likelihood there."""
    solution = _solve(chain, logs)
    slope = likelihood_slope(solution, np.exp(logs))
    return replace(chain, states=solution.states, shared=solution.shared), slope


def stated_levels(stated: ImuNoise) -> Array:
    """(8,) densities of the axes and walks, as a data sheet has them."""
    least = 1e-9
    walks = [max(stated.walk_gyro, least), max(stated.walk_acc, least)]
    return np.array([stated.density_gyro] * 3 + [stated.density_acc] * 3 + walks)


def _without_losses(recording: NoiseProblem) -> NoiseProblem:
    """Factors with squared losses only: robust losses have no usable likelihood."""
    problem = _with_others(recording.problem, lambda measured, _: replace(measured, loss=Loss()))
    return replace(recording, problem=problem, log_factors=np.zeros(len(other_kinds(problem))))


def _solve(chain: NoiseProblem, logs: Array) -> Solution:
    """The states with squared densities and walks of the IMU given by their logarithms (8,)."""
    imu, variances = chain.problem.imu, np.exp(logs)
    rate_hz = 1e9 / float(np.median(np.diff(imu.stamps_ns)))
    shape = imu.gyro.shape
    noisy = replace(
        imu,
        var_gyro=np.broadcast_to(variances[:3] * rate_hz, shape).copy(),
        var_acc=np.broadcast_to(variances[3:6] * rate_hz, shape).copy(),
        cov_0=np.zeros((9, 9)),
    )
    walk_gyro, walk_acc = (float(walk) for walk in np.sqrt(variances[6:]))
    problem = replace(chain.problem, imu=noisy, walk_gyro=walk_gyro, walk_acc=walk_acc)
    options = SolverOptions(max_iterations=20, max_rounds=2)
    return solve(problem, chain.states, chain.shared, options)


def _newton(slopes: list[Slope], from_stated: Array) -> tuple[Array, list[Array], Array]:
    """Step of the IMU's levels, steps of each recording's other noise, covariance of the first.

    The other noise of each recording is eliminated: it belongs to that recording alone.
    """
    prior = np.eye(IMU_LEVELS) / STD_LOG_STATED**2
    information, score = prior.copy(), -prior @ from_stated
    for slope in slopes:
        A, B, C = slope.information[:8, :8], slope.information[:8, 8:], slope.information[8:, 8:]
        solved = np.linalg.solve(C, np.column_stack([B.T, slope.score[8:]]))
        information += A - B @ solved[:, :8]
        score += slope.score[:8] - B @ solved[:, 8]
    # Average information may be indefinite by chance far from the optimum: at least the prior.
    values, vectors = np.linalg.eigh(0.5 * (information + information.T))
    positive = (vectors * np.maximum(values, STD_LOG_STATED**-2.0)) @ vectors.T
    cov: Array = np.linalg.inv(positive)
    step: Array = np.clip(cov @ score, -LONGEST_STEP, LONGEST_STEP)
    others = [
        np.asarray(
            np.linalg.solve(s.information[8:, 8:], s.score[8:] - s.information[8:, :8] @ step)
        )
        for s in slopes
    ]
    return step, others, cov


def _rescaled(chain: NoiseProblem, steps: Array) -> NoiseProblem:
    """The recording with the noise of its other measurements scaled."""
    steps = np.clip(steps, -LONGEST_STEP, LONGEST_STEP)
    after = np.maximum(chain.log_factors + steps, np.log(chain.least_factor))
    factors = np.exp(after - chain.log_factors)
    problem = _with_others(
        chain.problem, lambda measured, i: replace(measured, covs=factors[i] * measured.covs)
    )
    return replace(chain, problem=problem, log_factors=after)


def _with_others(problem: Problem, changed: Callable[[Any, int], Any]) -> Problem:
    """The problem with each kind of measurement besides the IMU changed; `changed` gets a stack
    and the index of its kind."""
    changes: dict[str, Any] = {}
    for i, name in enumerate(other_kinds(problem)):
        measured = getattr(problem, name)
        several = isinstance(measured, tuple)
        stacks = tuple(changed(stack, i) for stack in (measured if several else (measured,)))
        changes[name] = stacks if several else stacks[0]
    return replace(problem, **changes)


def _moved(before: NoiseProblem, after: NoiseProblem) -> float:
    """Largest change of the logarithm of a variance that is not the IMU's."""
    return float(np.abs(after.log_factors - before.log_factors).max(initial=0.0))
